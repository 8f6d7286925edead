"""Projections whose transient pieces add up: a subscriber that joins in the middle gets the sum, then each piece."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from fairlead.model.ids import SessionId
from fairlead.model.store import Entry, ProjectionWrite
from fairlead.model.views import Made, Transient
from patience import PATIENCE
from sessions.test_feed import Socket
from sessions.test_views import ProjectionHarness, Tally, TallyFold, live, until


class SumFold(TallyFold):
    """Remembers the deltas since the last row."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[int] = []

    def step(self, entry: Entry) -> Sequence[Made]:
        made = super().step(entry)
        if entry.kind == "delta":
            self.pieces.append(entry.seq)
        elif made:
            self.pieces = []
        return made

    def running(self, *, fresh: bool) -> Sequence[Transient]:
        sum_ = "+".join(map(str, self.pieces)).encode()
        return [Transient((b"=" if fresh else b"!") + sum_)]


class Sums(Tally):
    def fold(self, session: SessionId) -> SumFold:
        self.folds.append(SumFold())
        return SumFold()


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[ProjectionHarness]:
    harness = ProjectionHarness(tmp_path)
    harness.view = Sums()
    await harness.start()
    yield harness
    await harness.close()


async def test_a_subscriber_that_joins_in_the_middle_gets_the_sum_and_then_each_piece(
    harness: ProjectionHarness,
) -> None:
    await harness.append("text", "delta", "delta")
    await harness.level()
    socket = Socket()
    await live(harness.watch(socket, 0))
    await harness.append("delta")
    assert await until(socket, b"~4\n") == ["1:1 text", "=2+3", "~4"]


async def test_a_subscriber_that_lagged_gets_the_sum_marked_as_a_repeat(harness: ProjectionHarness) -> None:
    await harness.append("text")
    await harness.level()
    socket = Socket()
    watcher = harness.watch(socket, 1)
    await live(watcher)
    socket.slow, socket.waiting = True, 1 << 20
    await harness.append("delta", "delta")
    await harness.level()
    assert not watcher.live
    socket.slow, socket.waiting = False, 0
    watcher.drained()
    await live(watcher)
    await harness.append("delta")
    assert await until(socket, b"~4\n") == ["=", "!2+3", "~4"]


async def test_no_subscriber_joins_while_the_reducer_is_ahead_of_the_published_rows(
    harness: ProjectionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the sum would contain a piece that is sent right after it."""
    await harness.append("text", "delta")
    await harness.level()
    derive, held, go = harness.store.write_projection, asyncio.Event(), asyncio.Event()

    async def slowly(session: SessionId, view: str, derived: ProjectionWrite, expected: int) -> None:
        held.set()
        await go.wait()
        await derive(session, view, derived, expected)

    monkeypatch.setattr(harness.store, "write_projection", slowly)
    await harness.append("text", "delta", "delta")
    await asyncio.wait_for(held.wait(), PATIENCE)
    socket = Socket()
    watcher = harness.watch(socket, 0)
    async with asyncio.timeout(PATIENCE):
        while not harness.projector.feed.joining:
            await asyncio.sleep(0.002)
    assert not watcher.live, "it is level, and waits"
    go.set()
    await live(watcher)
    await harness.append("delta")
    assert await until(socket, b"~6\n") == ["1:1 text", "2:2 text", "=4+5", "~6"]


async def test_a_subscriber_that_leaves_while_it_waits_to_join_gets_nothing(
    harness: ProjectionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.append("text")
    await harness.level()
    derive, held, go = harness.store.write_projection, asyncio.Event(), asyncio.Event()

    async def slowly(session: SessionId, view: str, derived: ProjectionWrite, expected: int) -> None:
        held.set()
        await go.wait()
        await derive(session, view, derived, expected)

    monkeypatch.setattr(harness.store, "write_projection", slowly)
    await harness.append("text", "delta")
    await asyncio.wait_for(held.wait(), PATIENCE)
    socket = Socket()
    watcher = harness.watch(socket, 1)
    async with asyncio.timeout(PATIENCE):
        while not harness.projector.feed.joining:
            await asyncio.sleep(0.002)
    watcher.close()
    go.set()
    await harness.level()
    assert socket.sent == b"" and not watcher.live
