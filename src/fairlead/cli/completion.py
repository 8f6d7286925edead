"""Completion of session ids in the shell: quiet and quick, whatever is wrong."""

import asyncio
from collections.abc import Mapping
from typing import Any

from fairlead.cli.sanitize import one_line
from fairlead.client.endpoint import EndpointOptions
from fairlead.client.errors import ClientError
from fairlead.model.errors import FairleadError

MOST = 50
SECONDS = 2.0
"""A person waits for this with a finger on the key."""


def session_ids(given: Mapping[str, Any], incomplete: str) -> list[tuple[str, str]]:
    """Return (id, title) of the newest sessions that begin so. `given`: the options that were typed so far."""
    endpoint = EndpointOptions(given.get("url"), given.get("token"), given.get("data"))
    try:
        return asyncio.run(_found(endpoint, incomplete.strip().lower()))
    except (ClientError, FairleadError, OSError, TimeoutError):
        return []


async def _found(endpoint: EndpointOptions, prefix: str) -> list[tuple[str, str]]:
    from fairlead.cli.client import Api

    found: list[tuple[str, str]] = []
    async with asyncio.timeout(SECONDS), Api(endpoint.find) as api:
        async for one in api.sessions(archived="any" if prefix else "false", transcripts="true" if prefix else "false"):
            if one.session.startswith(prefix):
                found.append((one.session, one_line(one.title or one.first_prompt, 60)))
            if len(found) == MOST:
                break
    return found
