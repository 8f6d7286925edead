"""A session store of the Agent SDK: the transcripts of its sessions are kept in a gateway."""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import msgspec

from fairlead.client.errors import CommandFailed, Missing
from fairlead.client.gateway_client import GatewayClient, connect
from fairlead.model.errors import Stale
from fairlead.transcripts.api import (
    BATCH_ENTRIES,
    DeletedTranscripts,
    TranscriptEntries,
    TranscriptList,
    TranscriptState,
)

ENTRIES: Final = "/v1/transcripts/entries"
BATCH_BYTES: Final = 4 << 20
"""A request has at most 8 MiB; a larger entry goes alone."""
TRIES: Final = 10
"""Attempts to store a summary while other programs write to the same transcript."""

Key = Mapping[str, Any]


class FairleadSessionStore:
    """Give it to `ClaudeAgentOptions(session_store=...)`. It has the methods of the SDK's `SessionStore`.

    The transcripts belong to the user of the token, which needs the scopes view and chat. Close it with `aclose`, or
    use it with `async with`."""

    def __init__(self, url: str | None = None, token: str | None = None) -> None:
        self._gateway: GatewayClient = connect(url, token)

    async def __aenter__(self) -> "FairleadSessionStore":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._gateway.__aexit__()

    async def append(self, key: Key, entries: list[Any]) -> None:
        """Add entries in their order. An entry with a `uuid` that was stored before is left out."""
        for batch in batches(entries):
            if key.get("subpath"):
                await self._append(key, {"entries": batch})
            else:
                await self._append_main(key, batch)

    async def _append_main(self, key: Key, batch: Sequence[Any]) -> None:
        """Store the entries together with the summary that includes them."""
        fold = import_module("claude_agent_sdk").fold_session_summary
        for attempt in range(TRIES):
            before = await self._main_state(key)
            previous = None if before is None or before.summary is None else _summary(before)
            summary = fold(previous, dict(key), list(batch))["data"]
            revision = 0 if before is None else before.revision
            try:
                await self._append(key, {"entries": batch, "summary": summary, "revision": revision})
            except CommandFailed as error:
                # Another program was faster: its entries are part of the summary, too.
                if error.code != Stale.code or attempt == TRIES - 1:
                    raise
            else:
                return

    async def _append(self, key: Key, body: dict[str, Any]) -> None:
        await self._gateway.call("POST", ENTRIES, TranscriptState, query=_query(key), body=body)

    async def _main_state(self, key: Key) -> TranscriptState | None:
        stored = await self._list(project=key["project_key"], session=key["session_id"])
        return next((state for state in stored if not state.subpath), None)

    async def _list(self, **query: str) -> tuple[TranscriptState, ...]:
        return (await self._gateway.get("/v1/transcripts", TranscriptList, **query)).transcripts

    async def load(self, key: Key) -> list[Any] | None:
        """Return all entries; None if the transcript was never written."""
        found: list[Any] = []
        after: int | None = 0
        while after is not None:
            try:
                page = await self._gateway.call(
                    "GET", ENTRIES, TranscriptEntries, query={**_query(key), "after": after}
                )
            except Missing:
                return None
            found += (msgspec.json.decode(raw) for raw in page.entries)
            after = page.next
        return found

    async def list_sessions(self, project_key: str) -> list[dict[str, Any]]:
        return [{"session_id": state.session, "mtime": state.at} for state in await self._list(project=project_key)]

    async def list_session_summaries(self, project_key: str) -> list[dict[str, Any]]:
        return [_summary(state) for state in await self._list(project=project_key) if state.summary is not None]

    async def list_subkeys(self, key: Key) -> list[str]:
        stored = await self._list(project=key["project_key"], session=key["session_id"])
        return [state.subpath for state in stored if state.subpath]

    async def delete(self, key: Key) -> None:
        """Delete a transcript; the main one with all others of its session."""
        await self._gateway.call("DELETE", ENTRIES, DeletedTranscripts, query=_query(key))


def batches(entries: Sequence[Any]) -> Iterator[list[Any]]:
    """Split the entries into requests that the gateway accepts."""
    batch: list[Any] = []
    size = 0
    for entry in entries:
        more = len(msgspec.json.encode(entry))
        if batch and (len(batch) == BATCH_ENTRIES or size + more > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += more
    if batch:
        yield batch


def _query(key: Key) -> dict[str, Any]:
    subpath = {"subpath": key["subpath"]} if key.get("subpath") else {}
    return {"project": key["project_key"], "session": key["session_id"], **subpath}


def _summary(state: TranscriptState) -> dict[str, Any]:
    return {"session_id": state.session, "mtime": state.at, "data": state.summary}
