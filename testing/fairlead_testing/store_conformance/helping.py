"""Helpers of the suite, public for other tests of stores."""

import asyncio
import itertools
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from fairlead.model.errors import FairleadError, NotFound
from fairlead.model.ids import SessionId
from fairlead.model.store import Batch, Entry, Page, Store

T = TypeVar("T")
E = TypeVar("E", bound=FairleadError)

# Seconds until a waiting test gives up; nothing here takes a tenth of it.
PATIENCE = 300.0


class Stores(Protocol):
    """The value of `make_store`: nodes of one storage, which is empty at first."""

    async def __call__(self, node: str = "a") -> Store:
        """A store for `node`; a second call with a name whose store was closed opens it again."""
        ...

    async def expire(self, node: str) -> None:
        """Let `node` die, while the others live on."""
        ...


def new_session() -> SessionId:
    return SessionId(str(uuid.uuid4()))


def entry(seq: int, text: str = "", kind: str = "text", raw: bytes | None = None) -> Entry:
    """An entry whose event has this `text`."""
    words = (text or f"entry {seq}").encode()
    return Entry(
        seq, 0, 1_700_000_000_000 + seq, kind, b'{"type":"%s","text":"%s"}' % (kind.encode(), words), "agent", raw
    )


def batch(*seqs: int, drop: Sequence[int] = (), **rest: Any) -> Batch:
    return Batch(entries=tuple(entry(seq) for seq in seqs), drop=tuple(drop), **rest)


async def refusal(error: type[E], call: Awaitable[Any]) -> E:
    """The error that `call` must raise."""
    try:
        result = await call
    except error as refused:
        return refused
    raise AssertionError(f"expected {error.__name__}, got {result!r}")


async def until(condition: Callable[[], Awaitable[T]]) -> T:
    """Wait for another node's change, because the port does not promise that it is visible at once."""
    async with asyncio.timeout(PATIENCE):
        while not (found := await condition()):
            await asyncio.sleep(0.01)
        return found


async def read_all(store: Store, session: SessionId, after: int = 0, limit: int = 7) -> list[Entry]:
    """The whole log, page by page."""
    entries: list[Entry] = []
    while (page := await store.read(session, after, limit)).entries:
        entries += page.entries
        after = page.entries[-1].seq
    return entries


def seqs(entries: Sequence[Entry] | Page) -> list[int]:
    return [entry.seq for entry in (entries.entries if isinstance(entries, Page) else entries)]


def assert_stored(entries: Sequence[Entry], written: Sequence[Entry]) -> None:
    """Assert that every field is as it was written; the store sets `prev`."""
    assert [(e.seq, e.at, e.kind, e.event, e.origin, e.raw) for e in entries] == [
        (e.seq, e.at, e.kind, e.event, e.origin, e.raw) for e in written
    ]


def assert_chained(entries: Sequence[Entry], before: int = 0) -> None:
    """Assert that a reader with everything up to `before` finds no hole, and that each entry names the previous one."""
    if entries:
        assert entries[0].prev <= before
    for left, right in itertools.pairwise(entries):
        assert right.prev == left.seq


async def has(store: Store, session: SessionId, head: int) -> bool:
    try:
        return (await store.read(session, 0, 1)).head >= head
    except NotFound:
        return False
