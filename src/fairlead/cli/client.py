"""The gateway's client as the commands use it: it finds sessions by the beginning of their ids."""

import asyncio
from collections.abc import Mapping
from typing import Any

from fairlead.cli.sanitize import one_line
from fairlead.client.endpoint import EndpointOptions
from fairlead.client.errors import ClientError, Missing, UsageError
from fairlead.client.gateway_client import GatewayClient
from fairlead.model.errors import FairleadError
from fairlead.model.ids import is_uuid
from fairlead.model.queries import EventPage

COMPLETIONS = 50
COMPLETION_SECONDS = 2.0
"""A person waits for completions with a finger on the key."""
PREFIX = 4
"""Minimum length of a session id prefix, which names a session if no other id begins with it."""


class Api(GatewayClient):
    async def __aenter__(self) -> "Api":
        return self

    async def find_session(self, name: str) -> str:
        """Return the id of the session that `name` (an id, its prefix, or - for the last one) means. Raises UsageError,
        Missing."""
        wanted = name.strip().lower()
        if wanted == "-":
            async for last in self.sessions(archived="false", transcripts="false"):
                return last.session
            raise Missing("There is no session yet. Start one with: fairlead run PROMPT")
        if is_uuid(wanted):
            return wanted
        if len(wanted) < PREFIX or not set(wanted) <= set("0123456789abcdef-"):
            raise UsageError(f"{name[:80]!r} is not a session: give its id or at least its first {PREFIX} characters.")
        found = [s.session async for s in self.sessions(archived="any") if s.session.startswith(wanted)]
        if not found:
            raise Missing(f"No session begins with {wanted}. List all sessions with: fairlead ls --all")
        if len(found) > 1:
            raise UsageError(f"{len(found)} sessions begin with {wanted}: give more characters. {', '.join(found[:5])}")
        return found[0]

    async def history(self, session: str, last: int) -> list[bytes]:
        """Return the last `last` events without deltas and bare records, read page by page from the end."""
        found: list[bytes] = []
        before: int | None = None
        while len(found) < last:
            wanted = min(last - len(found), 500)
            page = await self.get(f"/v1/sessions/{session}/messages", EventPage, before=before, limit=wanted)
            found = [*(bytes(raw) for raw in page.events), *found]
            if page.next is None:
                break
            before = page.next
        return found


# --- completion in the shell: quiet and quick, whatever is wrong


def session_ids(given: Mapping[str, Any], incomplete: str) -> list[tuple[str, str]]:
    """Return (id, title) of the newest sessions that begin so. `given`: the options that were typed so far."""
    endpoint = EndpointOptions(given.get("url"), given.get("token"), given.get("data"))
    try:
        return asyncio.run(_found(endpoint, incomplete.strip().lower()))
    except (ClientError, FairleadError, OSError, TimeoutError):
        return []


async def _found(endpoint: EndpointOptions, prefix: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    async with asyncio.timeout(COMPLETION_SECONDS), Api(endpoint.find) as api:
        async for one in api.sessions(archived="any" if prefix else "false", transcripts="true" if prefix else "false"):
            if one.session.startswith(prefix):
                found.append((one.session, one_line(one.title or one.first_prompt, 60)))
            if len(found) == COMPLETIONS:
                break
    return found
