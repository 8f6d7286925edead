"""Reads logs and lists from the store, page by page."""

from collections.abc import AsyncGenerator, Sequence

import msgspec

from fairlead.model.ids import SessionId
from fairlead.model.store import Entry, SessionFilter, Store, Summary

PAGE = 1000
PAGE_BACKWARDS = 200


async def entries_after(store: Store, session: SessionId, after: int = 0) -> AsyncGenerator[Entry, None]:
    """The entries of a log after a seq, up to its head."""
    while True:
        page = await store.read(session, after, PAGE)
        for entry in page.entries:
            yield entry
        if not page.entries or page.entries[-1].seq >= page.head:
            return
        after = page.entries[-1].seq


async def entries_backwards(store: Store, session: SessionId, kinds: Sequence[str]) -> AsyncGenerator[Entry, None]:
    """The entries of a log that have one of these kinds, the last one first."""
    before: int | None = None
    while (page := await store.tail(session, before, PAGE_BACKWARDS, kinds)).entries:
        for entry in reversed(page.entries):
            yield entry
        before = page.entries[0].seq


async def all_sessions(store: Store, wanted: SessionFilter, seen_by: str | None = None) -> list[Summary]:
    """All sessions that match, newest first."""
    found: list[Summary] = []
    while True:
        page = await store.sessions(wanted, seen_by)
        found.extend(page.sessions)
        if not page.next:
            return found
        wanted = msgspec.structs.replace(wanted, before=page.next)
