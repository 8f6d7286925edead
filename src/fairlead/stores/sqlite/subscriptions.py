"""Subscriptions: a position in a log and a wake-up event. A commit sets the event; the subscriber then reads on.

No entries are passed in memory, so a slow subscriber delays no other and nothing grows: order, gaps and duplicates
depend on the read alone.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from fairlead.model.ids import SessionId
from fairlead.model.store import Entry, Page, Reset

_PAGE = 500
# Seconds between polls of a log that another process may write to.
_LOOK = 0.05


class Subscriptions:
    """`shared`: other processes write to the same file, and their commits do not wake subscribers here."""

    def __init__(self, read: Callable[[SessionId, int, int], Awaitable[Page]], *, shared: bool) -> None:
        self._read = read
        self._shared = shared
        self._bells: dict[SessionId, set[asyncio.Event]] = {}

    def wake(self, session: SessionId) -> None:
        for bell in self._bells.get(session, ()):
            bell.set()

    def wake_all(self) -> None:
        for session in self._bells:
            self.wake(session)

    async def subscribe(self, session: SessionId, after: int, log_id: str | None) -> AsyncIterator[Entry | Reset]:
        bell = asyncio.Event()
        self._bells.setdefault(session, set()).add(bell)
        try:
            while True:
                bell.clear()
                page = await self._read(session, after, _PAGE)
                # A cursor above the head: entries that its owner saw were lost, and their seqs will be used again.
                if page.log_id != (log_id or page.log_id) or after > page.head:
                    after = 0
                    log_id = page.log_id
                    yield Reset("new_log", log_id)
                    continue
                log_id = page.log_id
                for entry in page.entries:
                    after = entry.seq
                    yield entry
                if after == page.head:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(bell.wait(), _LOOK if self._shared else None)
        finally:
            bells = self._bells[session]
            bells.discard(bell)
            if not bells:
                del self._bells[session]
