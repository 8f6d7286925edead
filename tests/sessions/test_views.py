"""Projections with a checkpoint: their rows are numbered without gaps, stored before they are sent, and the same
however often and wherever the gateway was killed."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.model import queries as q
from fairlead.model.commands import Delete, Fork
from fairlead.model.errors import NotFound, Unavailable
from fairlead.model.gateway import Cursor
from fairlead.model.ids import SessionId
from fairlead.model.store import Batch, Entry, ProjectionRow, ProjectionWrite
from fairlead.model.views import PASSING, Made, NewRow, ReplaceRow, Transient
from fairlead.sessions.dependencies import CoreDependencies, SessionLimits
from fairlead.sessions.fanout import projections as views
from fairlead.sessions.fanout.hub import Hub, Subscription
from fairlead.sessions.fanout.projections import UNLOAD_AFTER_S, ProjectionFailed, Projections, Projector
from fairlead.stores.sqlite import SqliteStore
from fairlead_testing.clock import ManualClock
from fairlead_testing.store_conformance import batch, new_session
from patience import PATIENCE
from sessions.harness import ANN, BOB, CHILD, SESSION, CoreHarness
from sessions.test_feed import Socket


class Memory(msgspec.Struct):
    count: int = 0
    open: str = ""


class TallyFold:
    """Rows `n kind`; deltas are transient; a tool's row is replaced when the tool ends. The n shows the state."""

    def __init__(self) -> None:
        self.memory = Memory()

    def step(self, entry: Entry) -> Sequence[Made]:
        memory = self.memory
        if entry.kind == "delta":
            return [Transient(b"~%d" % entry.seq)]
        if entry.kind == "quiet":
            return []
        if entry.kind == "broken":
            raise RuntimeError("a fault in the view")
        memory.count += 1
        made: list[Made] = [NewRow(b"%d %s" % (memory.count, entry.kind.encode()), f"k{entry.seq}")]
        if entry.kind == "tool":
            memory.open = f"k{entry.seq}"
        elif entry.kind == "end" and memory.open:
            made.append(ReplaceRow(memory.open, b"ended by %d" % memory.count))
            memory.open = ""
        elif entry.kind == "twice":
            memory.count += 1
            made.append(NewRow(b"%d again" % memory.count))
        return made

    def snapshot(self) -> bytes:
        return msgspec.json.encode(self.memory)

    def restore(self, data: bytes) -> None:
        self.memory = msgspec.json.decode(data, type=Memory)


class Tally:
    name = "tally"

    def __init__(self) -> None:
        self.folds: list[TallyFold] = []

    def fold(self, session: SessionId) -> TallyFold:
        self.folds.append(TallyFold())
        return self.folds[-1]


class RowEncoder:
    """An encoder: rows as `ordinal:data`, transient frames unchanged."""

    def __init__(self) -> None:
        self.encoded = 0

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        self.encoded += 1
        if entry.kind == PASSING:
            return entry.event + b"\n"
        return b"%d:%s\n" % (entry.seq, entry.event)

    def signal(self, session: SessionId, kind: str, name: str, data: Any) -> bytes:
        return f"{kind} {name}\n".encode()


class ProjectionHarness:
    """One session's log and the test projection over it; `restart` acts as after a kill -9."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.view = Tally()
        self.head = 0

    async def start(self) -> "ProjectionHarness":
        self.store = await SqliteStore.open(self.folder)
        self.lease, self.log_id, self.head = await self.store.claim(SESSION)
        limits = SessionLimits(watcher_buffer=1 << 16)
        made = SimpleNamespace(store=self.store, clock=self.clock, limits=limits, views={"tally": self.view})
        self.services = cast("CoreDependencies", made)
        self.feed = Hub(SESSION, self.store)
        self.projections = Projections(self.services, lambda session: self.feed, lambda session: None)
        return self

    async def close(self) -> None:
        await self.projections.stop()
        await self.store.close()

    async def restart(self) -> None:
        await self.close()
        await self.start()

    @property
    def projector(self) -> Projector:
        return self.projections.get(SESSION, "tally")

    async def append(self, *kinds: str, publish: bool = True) -> None:
        entries = [Entry(self.head + n, self.head + n - 1, n, kind, b"{}") for n, kind in enumerate(kinds, 1)]
        self.head = await self.store.append(self.lease, Batch(entries=tuple(entries)), self.head)
        if publish:
            self.feed.publish(entries)

    async def level(self) -> int:
        return await asyncio.wait_for(self.projector.wait_until(self.head, lambda level: level.head), PATIENCE)

    async def rows(self) -> list[tuple[int, int, bytes, str]]:
        await self.level()
        page = await self.store.rows(SESSION, "tally", 0, 100_000)
        return [(row.ordinal, row.seq, row.data, row.key) for row in page.rows]

    def watch(self, socket: Socket, position: int, variant: RowEncoder | None = None) -> Subscription:
        feed = self.projector.feed
        found = Subscription(
            feed,
            ANN,
            variant or RowEncoder(),
            socket,
            since=Cursor(position),
            head=position,
            log_id=self.log_id,
            verdict="ok",
        )
        found.start()
        return found


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[ProjectionHarness]:
    harness = await ProjectionHarness(tmp_path).start()
    yield harness
    await harness.close()


async def live(*watchers: Subscription) -> None:
    """Wait until the subscriptions have read history and are live."""
    async with asyncio.timeout(PATIENCE):
        while not all(watcher.live for watcher in watchers):
            await asyncio.sleep(0.002)


async def until(socket: Socket, end: bytes) -> list[str]:
    """Wait until the socket's output ends with `end`, and return its lines."""
    async with asyncio.timeout(PATIENCE):
        while not socket.sent.endswith(end):
            await asyncio.sleep(0.002)
    return socket.sent.decode().splitlines()


async def test_history_and_live_rows_are_numbered_without_gaps(harness: ProjectionHarness) -> None:
    await harness.append("text", "delta", "twice", "quiet")
    socket = Socket()
    assert await harness.level() == 3
    await live(harness.watch(socket, 0))
    await harness.append("delta", "text", "delta")
    assert await until(socket, b"~7\n") == ["1:1 text", "2:2 twice", "3:3 again", "~5", "4:4 text", "~7"]


async def test_a_row_is_stored_before_it_is_sent(harness: ProjectionHarness) -> None:
    await harness.append("text")
    await harness.level()
    stored: list[int] = []
    derive = harness.store.write_projection

    async def slowly(session: SessionId, view: str, derived: ProjectionWrite, expected: int) -> None:
        assert b"2:" not in socket.sent
        await derive(session, view, derived, expected)
        assert b"2:" not in socket.sent
        stored.append(derived.head)

    harness.store.write_projection = slowly  # type: ignore[method-assign]  # observed
    socket = Socket()
    harness.watch(socket, 0)
    await harness.append("text")
    await until(socket, b"2:2 text\n")
    assert stored == [2]


async def test_one_write_is_in_flight_and_later_rows_are_batched(harness: ProjectionHarness) -> None:
    await harness.append("text")
    await harness.level()
    gate, calls = asyncio.Event(), []
    derive = harness.store.write_projection

    async def held(session: SessionId, view: str, derived: ProjectionWrite, expected: int) -> None:
        calls.append(len(derived.made))
        await gate.wait()
        await derive(session, view, derived, expected)

    harness.store.write_projection = held  # type: ignore[method-assign]  # held until the test releases it
    await harness.append("text")
    while not calls:
        await asyncio.sleep(0)
    for _ in range(4):
        await harness.append("text")
    gate.set()
    assert await harness.level() == 6
    assert calls == [1, 4]


async def test_transient_frames_are_not_stored(harness: ProjectionHarness) -> None:
    await harness.append("text")
    await harness.level()
    socket = Socket()
    await live(harness.watch(socket, 1))
    harness.store.write_projection = None  # type: ignore[method-assign,assignment]  # a call fails
    await harness.append("delta", "delta", "quiet")
    assert await until(socket, b"~3\n") == ["~2", "~3"]


async def test_a_row_is_encoded_once_for_any_number_of_subscribers(harness: ProjectionHarness) -> None:
    await harness.level()
    variant, sockets = RowEncoder(), [Socket() for _ in range(20)]
    watchers = [harness.watch(socket, 0, variant) for socket in sockets]
    await live(*watchers)
    await harness.append("text", "delta", "text")
    for socket in sockets:
        assert await until(socket, b"2:2 text\n") == ["1:1 text", "~2", "2:2 text"]
    assert variant.encoded == 3
    assert harness.projector.feed.encoded == 3


async def test_a_slow_subscriber_gets_every_row_and_no_transient_frames(harness: ProjectionHarness) -> None:
    await harness.level()
    socket = Socket()
    found = harness.watch(socket, 0)
    await live(found)
    socket.slow, socket.waiting = True, 1 << 20
    await harness.append(*["text", "delta"] * 30)
    await harness.level()
    assert socket.sent == b""
    socket.slow, socket.waiting = False, 0
    found.drained()
    await until(socket, b"30:30 text\n")
    assert [line for line in socket.sent.decode().splitlines() if line.startswith("~")] == []
    assert len(socket.sent.splitlines()) == 30


async def test_a_replaced_row_keeps_its_position(harness: ProjectionHarness) -> None:
    await harness.append("tool", "text", "end")
    assert [row[2] for row in await harness.rows()] == [b"ended by 3", b"2 text", b"3 end"]


async def test_entries_beyond_the_buffer_limit_are_read_from_the_log(
    harness: ProjectionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "WAITING", 20)
    await harness.append("text")
    await harness.level()
    gate = asyncio.Event()
    derive = harness.store.write_projection

    async def held(session: SessionId, view: str, derived: ProjectionWrite, expected: int) -> None:
        await gate.wait()
        await derive(session, view, derived, expected)

    harness.store.write_projection = held  # type: ignore[method-assign]  # held until the test releases it
    for _ in range(50):
        await harness.append("text", "delta")
        assert harness.projector._waiting_bytes <= 20
    gate.set()
    assert await harness.level() == 51


async def test_the_projector_waits_for_an_unavailable_store(harness: ProjectionHarness) -> None:
    derive, failures = harness.store.write_projection, [1, 2, 3]

    async def failing(session: SessionId, view: str, derived: ProjectionWrite, expected: int) -> None:
        if failures:
            failures.pop()
            raise Unavailable("no room on the disk")
        await derive(session, view, derived, expected)

    harness.store.write_projection = failing  # type: ignore[method-assign]  # a disk that is full for a while
    await harness.append("text")
    asked = asyncio.create_task(harness.level())
    while not asked.done():
        await asyncio.sleep(0.002)
        await harness.clock.advance(1)
    assert await asked == 1


@pytest.mark.parametrize("more", [1, 250])
async def test_rows_of_another_writer_of_the_same_projection_are_picked_up(
    harness: ProjectionHarness, more: int
) -> None:
    await harness.append("text")
    await harness.level()
    socket = Socket()
    found = harness.watch(socket, 0)
    await until(socket, b"1:1 text\n")
    other = Projections(harness.services, lambda session: Hub(SESSION, harness.store), lambda session: None)
    await harness.append("text", "text", publish=False)
    await other.get(SESSION, "tally").wait_until(harness.head, lambda level: None)
    await other.stop()
    await harness.append(*["text"] * more)
    last = 3 + more
    await until(socket, b"%d:%d text\n" % (last, last))
    assert socket.sent.splitlines() == [b"%d:%d text" % (n, n) for n in range(1, last + 1)]
    await live(found)


async def test_a_fault_in_a_projection_is_reported_to_callers_and_subscribers(
    harness: ProjectionHarness, caplog: pytest.LogCaptureFixture
) -> None:
    await harness.append("text")
    await harness.level()
    socket = Socket()
    harness.watch(socket, 1)
    await harness.append("broken")
    await until(socket, b"failed\n")
    with pytest.raises(ProjectionFailed):
        await harness.level()
    assert "a fault in the view" in caplog.text
    assert (await harness.store.rows(SESSION, "tally", 0, 10)).head == 1, "what was made before stays"


async def test_a_checkpoint_that_cannot_be_decoded_is_rebuilt(
    harness: ProjectionHarness, caplog: pytest.LogCaptureFixture
) -> None:
    await harness.append(*["text"] * 300)
    before = await harness.rows()
    folded = await harness.store.projection_state(SESSION, "tally")
    assert folded.memory is not None
    bad = ProjectionWrite(
        made=(), seq=folded.seq, head=folded.head, memory=msgspec.structs.replace(folded.memory, data=b"?")
    )
    await harness.store.write_projection(SESSION, "tally", bad, folded.seq)
    await harness.restart()
    await harness.append("text")
    after = await harness.rows()
    assert after[:-1] == before
    assert after[-1][:3] == (301, 301, b"301 text")
    assert "cannot read the checkpoint" in caplog.text


async def test_a_projection_that_counts_differently_continues_from_the_last_ordinal(
    harness: ProjectionHarness, caplog: pytest.LogCaptureFixture
) -> None:
    await harness.append("text", "text")
    await harness.level()
    more = ProjectionWrite(made=(ProjectionRow(3, 2, 0, b"of an older version of the view"),), seq=2, head=3)
    await harness.store.write_projection(SESSION, "tally", more, 2)
    await harness.restart()
    await harness.append("text")
    assert [row[:2] for row in await harness.rows()] == [(1, 1), (2, 2), (3, 2), (4, 3)]
    assert "it needs a new name" in caplog.text


async def test_an_unused_projection_is_unloaded_and_continues_from_its_checkpoint(
    harness: ProjectionHarness,
) -> None:
    await harness.append("text", "delta", "text")
    await harness.level()
    first = harness.projector
    await harness.projections.sweep()
    assert harness.projector is first
    await harness.clock.advance(UNLOAD_AFTER_S)
    await harness.projections.sweep()
    assert harness.feed.empty, "it listens to the session no more"
    folded = await harness.store.projection_state(SESSION, "tally")
    assert folded.memory is not None
    assert (folded.memory.seq, folded.memory.head) == (3, 2)
    await harness.append("text")
    assert await harness.rows() == [(1, 1, b"1 text", "k1"), (2, 3, b"2 text", "k3"), (3, 4, b"3 text", "k4")]
    assert harness.projector is not first


async def test_not_all_of_many_unwatched_projections_stay_loaded(
    harness: ProjectionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "MOST_IDLE", 3)
    sessions = [new_session() for _ in range(8)]
    for session in sessions:
        lease, _, head = await harness.store.claim(session)
        await harness.store.append(lease, batch(1), head)
    feeds = {session: Hub(session, harness.store) for session in sessions}
    projections = Projections(harness.services, feeds.__getitem__, lambda session: None)
    watched = projections.get(sessions[0], "tally")
    watcher = Subscription(watched.feed, ANN, RowEncoder(), Socket(), since=Cursor(0), head=0, log_id="", verdict="ok")
    watcher.start()
    for session in sessions:
        assert await projections.get(session, "tally").wait_until(1, lambda level: level.head) == 1
        await harness.clock.advance(1)
    async with asyncio.timeout(PATIENCE):
        while [session for session in sessions if not feeds[session].empty] != [sessions[0], *sessions[-3:]]:
            await asyncio.sleep(0.002)
    assert await projections.get(sessions[1], "tally").wait_until(1, lambda level: level.head) == 1, "and come back"
    await projections.stop()
    assert all(feed.empty for feed in feeds.values())


async def test_a_projection_with_a_subscriber_is_not_unloaded(harness: ProjectionHarness) -> None:
    await harness.level()
    found = harness.watch(Socket(), 0)
    await harness.clock.advance(2 * UNLOAD_AFTER_S)
    await harness.projections.sweep()
    assert not harness.feed.empty
    found.close()
    await harness.projections.sweep()
    assert harness.feed.empty


async def test_a_restart_reads_on_from_the_checkpoint_and_not_from_the_first_entry(
    harness: ProjectionHarness,
) -> None:
    await harness.append(*["text"] * 1000)
    await harness.level()
    await harness.restart()
    read: list[int] = []
    reading = harness.store.read

    async def counted(session: SessionId, after: int, limit: int, max_bytes: int = 4 << 20) -> Any:
        page = await reading(session, after, limit, max_bytes)
        read.append(len(page.entries))
        return page

    harness.store.read = counted  # type: ignore[method-assign]  # counted
    await harness.append(*["text"] * 10)
    assert await harness.level() == 1010
    assert sum(read) <= 10 + views.CHECKPOINT_EVERY


async def test_reducing_a_long_log_does_not_block_other_tasks(harness: ProjectionHarness) -> None:
    await harness.append(*["text"] * 5000)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(other())
    assert await harness.level() == 5000
    task.cancel()
    assert turns > 5000 / views.STRIDE


KINDS = st.sampled_from(["text", "delta", "twice", "quiet", "tool", "end"])
STEPS = st.lists(
    st.one_of(
        st.lists(KINDS, min_size=1, max_size=8),
        st.sampled_from(["kill", "kill before it is told", "kill in the derive", "read", "let go"]),
    ),
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(steps=STEPS)
async def test_the_rows_are_the_same_wherever_the_gateway_is_killed(steps: list[Any], tmp_path_factory: Any) -> None:
    harness = await ProjectionHarness(tmp_path_factory.mktemp("data")).start()
    log: list[str] = []
    seen: dict[int, bytes] = {}
    try:
        for step in steps:
            if step == "kill":
                await harness.restart()
            elif step == "kill before it is told":
                log.append("text")
                await harness.append("text", publish=False)
                await harness.restart()
            elif step == "kill in the derive":
                log.append("tool")
                harness.projector.mark_used()
                call = asyncio.create_task(harness.append("tool"))
                await asyncio.sleep(0)
                await call
                await harness.restart()
            elif step == "let go":
                await harness.clock.advance(UNLOAD_AFTER_S)
                await harness.projections.sweep()
            elif step == "read":
                for ordinal, seq, _, key in await harness.rows():
                    assert seen.setdefault(ordinal, f"{seq} {key}".encode()) == f"{seq} {key}".encode()
            else:
                log.extend(step)
                harness.projector.mark_used()
                await harness.append(*step)
        assert await harness.rows() == whole(log)
    finally:
        await harness.close()


def whole(log: Sequence[str]) -> list[tuple[int, int, bytes, str]]:
    """The rows of a log that was reduced in one go."""
    fold = TallyFold()
    rows: list[tuple[int, int, bytes, str]] = []
    keys: dict[str, int] = {}
    for seq, kind in enumerate(log, 1):
        for made in fold.step(Entry(seq, seq - 1, 0, kind, b"{}")):
            if isinstance(made, NewRow):
                if made.key:
                    keys[made.key] = len(rows)
                rows.append((len(rows) + 1, seq, made.data, made.key))
            elif isinstance(made, ReplaceRow):
                ordinal, made_of, _, key = rows[keys[made.key]]
                rows[keys[made.key]] = (ordinal, made_of, made.data, key)
    return rows


@settings(max_examples=25, deadline=None)
@given(log=st.lists(st.lists(KINDS, min_size=1, max_size=6), max_size=8), cut=st.integers(0, 30), data=st.data())
async def test_a_cut_and_a_resume_give_the_same_rows_as_a_full_replay(
    log: list[list[str]], cut: int, data: st.DataObject, tmp_path_factory: Any
) -> None:
    """For rows only: a replay has no transient frames. Ordinals are compared, because data may be replaced."""
    harness = await ProjectionHarness(tmp_path_factory.mktemp("data")).start()
    try:
        split = data.draw(st.integers(0, len(log)))
        for batch in log[:split]:
            await harness.append(*batch)
        head = await harness.level()
        before = Socket()
        cut = min(cut, head)
        first = harness.watch(before, 0)
        if head:
            await until(before, f"{(await harness.rows())[-1][2].decode()}\n".encode())
        first.close()
        kept = [line for line in ordinals(before) if line <= cut]
        if data.draw(st.booleans()):
            await harness.restart()
        resumed, whole_socket = Socket(), Socket()
        harness.watch(resumed, cut)
        for batch in log[split:]:
            await harness.append(*batch)
        last = await harness.level()
        harness.watch(whole_socket, 0)
        async with asyncio.timeout(PATIENCE):
            while (last > cut and ordinals(resumed)[-1:] != [last]) or (last and ordinals(whole_socket)[-1:] != [last]):
                await asyncio.sleep(0.002)
        assert kept + ordinals(resumed) == ordinals(whole_socket) == list(range(1, last + 1))
    finally:
        await harness.close()


def ordinals(socket: Socket) -> list[int]:
    return [int(line.partition(b":")[0]) for line in socket.sent.splitlines() if b":" in line]


# --- through the gateway


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[CoreHarness]:
    core = CoreHarness(tmp_path)
    core.views = {"tally": Tally()}
    await core.start()
    yield core
    await core.stop()


async def test_rows_of_a_projection_are_read_by_position_and_by_key(core: CoreHarness) -> None:
    agent = await core.working()
    await agent.text("hello")
    await agent.result()

    async def ask(query: q.Query) -> Any:
        return await core.gateway.ask(BOB, query)

    page = await ask(q.ReadRows(SESSION, "tally", after=0))
    assert page.head == len(page.rows) == len(await core.log())
    assert (page.seq, page.log_id) == (core.loaded().core.log.head, core.loaded().core.log.log_id)
    assert (await ask(q.ReadRows(SESSION, "tally", after=1, limit=2))).rows == page.rows[1:3]
    assert (await ask(q.ReadRows(SESSION, "tally", limit=2))).rows == page.rows[-2:]
    assert (await ask(q.ReadRows(SESSION, "tally", before=3))).rows == page.rows[:2]
    assert await ask(q.FindRow(SESSION, "tally", page.rows[3].key)) == 4
    assert await ask(q.FindRow(SESSION, "tally", "nothing")) is None
    assert msgspec.json.decode(await ask(q.ReadProjection(SESSION, "tally")), type=Memory).count == page.head
    with pytest.raises(NotFound):
        await ask(q.ReadProjection(SESSION, "another"))
    with pytest.raises(NotFound):
        await ask(q.ReadProjection(SessionId("99999999-0000-4000-8000-000000000000"), "tally"))


async def test_a_projections_cursor_is_an_ordinal_and_its_verdict_is_ok_or_gap(core: CoreHarness) -> None:
    await core.open()
    socket = Socket()
    watch = await core.gateway.watch(BOB, SESSION, Cursor(0), RowEncoder(), socket, "tally")
    head, log_id = watch.head, watch.log_id
    assert head == len(await core.log())
    for cursor, verdict in (
        (None, "ok"),
        (Cursor(head, log_id), "ok"),
        (Cursor(head + 1, log_id), "gap"),
        (Cursor(-1), "gap"),
        (Cursor(1, "another"), "gap"),
    ):
        found = await core.gateway.watch(BOB, SESSION, cursor, RowEncoder(), Socket(), "tally")
        assert found.verdict == verdict
        assert found.position == (0 if verdict == "gap" else head)
    with pytest.raises(NotFound):
        await core.gateway.watch(BOB, SESSION, None, RowEncoder(), Socket(), "another")


async def test_a_subscriber_of_a_projection_is_present_and_gets_signals(core: CoreHarness) -> None:
    await core.open()
    socket, other = Socket(), Socket()
    mine = await core.gateway.watch(BOB, SESSION, None, RowEncoder(), socket, "tally")
    mine.start()
    theirs = await core.gateway.watch(ANN, SESSION, None, RowEncoder(), other)
    theirs.start()
    await core.until(lambda: mine.live and theirs.live)
    assert core.registry.feed(SESSION).names == ("ann", "bob")
    core.gateway.signal(ANN, SESSION, "typing", None)
    assert socket.sent.endswith(b"typing ann\n")
    assert b"typing" not in other.sent
    mine.close()
    assert other.sent.endswith(b"presence bob\n")


async def test_a_fork_is_reduced_from_its_own_log(core: CoreHarness) -> None:
    agent = await core.working()
    await agent.text("hello")
    await agent.result()
    parent = await core.gateway.ask(BOB, q.ReadRows(SESSION, "tally", after=0))
    await core.do(Fork(session=SESSION, child=CHILD))
    child = await core.gateway.ask(BOB, q.ReadRows(CHILD, "tally", after=0))
    assert [row.data for row in child.rows[: parent.head]] == [row.data for row in parent.rows]
    assert child.head == len(await core.log(CHILD))


async def test_a_deleted_session_has_no_projections_left(core: CoreHarness) -> None:
    await core.open()
    socket = Socket()
    watch = await core.gateway.watch(BOB, SESSION, None, RowEncoder(), socket, "tally")
    watch.start()
    await core.do(Delete(session=SESSION))
    assert socket.sent.endswith(b"failed\n")
    with pytest.raises(NotFound):
        await core.gateway.ask(BOB, q.ReadRows(SESSION, "tally", after=0))
