"""Subscriptions: no commit between a read and the wait for the next one goes unnoticed."""

import asyncio

from fairlead.model.ids import SessionId
from fairlead.model.store import Entry, Page
from fairlead.stores.sqlite.subscriptions import Subscriptions
from patience import PATIENCE

SESSION = SessionId("s")


async def test_a_commit_during_a_read_is_not_missed() -> None:
    stored = [Entry(1, 0, 0, "text", b"{}")]

    async def read(session: SessionId, after: int, limit: int) -> Page:
        page = Page("log", tuple(e for e in stored if e.seq > after), stored[-1].seq)
        # The critical moment: the page is read, and a commit wakes the subscription before the reader has the page.
        if len(stored) < 3:
            stored.append(Entry(len(stored) + 1, len(stored), 0, "text", b"{}"))
            subscriptions.wake(session)
        return page

    subscriptions = Subscriptions(read, shared=False)
    live = subscriptions.subscribe(SESSION, 0, None)
    async with asyncio.timeout(PATIENCE):
        got = [await anext(live) for _ in range(3)]
    assert got == stored


async def test_a_reader_that_left_is_removed() -> None:
    async def read(session: SessionId, after: int, limit: int) -> Page:
        return Page("log", (), 0)

    subscriptions = Subscriptions(read, shared=False)
    waiting = [asyncio.ensure_future(anext(subscriptions.subscribe(SESSION, 0, None))) for _ in range(2)]
    await asyncio.sleep(0)
    for reader in waiting:
        reader.cancel()
    await asyncio.wait(waiting)
    assert subscriptions._bells == {}
