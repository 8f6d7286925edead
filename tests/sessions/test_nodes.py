"""Several nodes: a session is watched and commanded on any of them, and its work is done on its home."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cell import Cell
from fairlead.model import events as ev
from fairlead.model import queries as q
from fairlead.model.auth import Identity
from fairlead.model.commands import (
    AnswerPermission,
    Create,
    Delete,
    Fork,
    Interrupt,
    Send,
    SetMode,
    ShareSession,
    Steer,
)
from fairlead.model.content import TextBlock
from fairlead.model.errors import (
    Busy,
    Fenced,
    NodeAway,
    NotAllowed,
    NotFound,
    OutsideRoots,
    OwnedElsewhere,
    Stale,
    Unavailable,
)
from fairlead.model.gateway import Cursor
from fairlead.model.ids import EventId, RequestId, SessionId
from fairlead.model.store import TRANSCRIPT, Entry, Summary
from fairlead.sessions.api.nodes import AdoptSession, ListNodes
from fairlead.sessions.nodes.routing import COMMAND
from fairlead.sessions.nodes.service import NodeService
from fairlead.sessions.nodes.takeover import CONTINUE, KILL_AFTER_S, PAUSE_S
from patience import PATIENCE
from sessions.cell_harness import CellHarness
from sessions.harness import ANN, BOB, CHILD, SESSION
from sessions.test_queries import Seqs, Wire


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    return Cell(tmp_path)


@pytest.fixture
async def home(cell: Cell) -> AsyncIterator[CellHarness]:
    made = await CellHarness(cell, "home").start()
    yield made
    await made.stop()


@pytest.fixture
async def other(cell: Cell, home: CellHarness) -> AsyncIterator[CellHarness]:
    made = await CellHarness(cell, "other").start()
    yield made
    await made.stop()


async def watch(node: CellHarness, cursor: Cursor | None = None, who: Identity = ANN) -> tuple[Any, Wire]:
    wire = Wire()
    watching = await node.routed.watch(who, SESSION, cursor, Seqs(), wire)
    watching.start()
    return watching, wire


async def head(node: CellHarness) -> int:
    return (await node.store.read(SESSION, 0, 1)).head


# --- commands and queries


async def test_every_command_reaches_the_home(home: CellHarness, other: CellHarness) -> None:
    await home.open()
    reply = await other.send("hello", key="k1")
    agent = await home.kind.launched()
    assert await agent.prompted() == "hello"
    assert (await other.send("hello", key="k1")).message == reply.message, "a repeat is answered from the log"
    await agent.ready()
    await other.do(SetMode(session=SESSION, mode="acceptEdits"))
    assert agent.requests == [("mode", "acceptEdits")]
    await agent.call("call-1", command="ls")
    await agent.ask("req-1", "call-1", command="rm x")
    await other.do(AnswerPermission(request=RequestId("req-1"), behavior="deny"), BOB)
    assert [request for request, _ in agent.answers] == ["req-1"]
    await other.do(Interrupt(session=SESSION))
    assert ("interrupt", None) in agent.requests
    assert not other.kind.agents
    assert other.registry.loaded(SESSION) is None
    resolved = [event for event in await home.log() if isinstance(event, ev.PermissionResolved)]
    assert [event.by for event in resolved] == ["bob"], "the caller is who asked on the other node"


async def test_an_error_of_the_home_comes_back_as_itself(home: CellHarness, other: CellHarness) -> None:
    await home.working()
    with pytest.raises(Stale) as caught:
        await other.do(Create(session=SESSION, cwd=str(home.cwd), node="home"))
    assert caught.value.data == {"session": SESSION}
    agent = home.kind.agents[0]
    await agent.call("call-1", command="ls")
    await agent.ask("req-1", "call-1", command="rm x")
    first = other.do(AnswerPermission(request=RequestId("req-1"), behavior="allow"))
    second = home.do(AnswerPermission(session=SESSION, request=RequestId("req-1"), behavior="deny"))
    outcomes = await asyncio.gather(first, second, return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert len(refused) == 1, "one answer wins, whichever node it came by"
    assert isinstance(refused[0], Stale | NotFound)
    assert len(agent.answers) == 1


async def test_a_lost_answer_is_asked_for_again_and_the_command_takes_effect_once(
    home: CellHarness, other: CellHarness
) -> None:
    agent = await home.working()
    home.cell.lost_answers = 1
    await other.send("again")
    assert [request for request in home.cell.asked if request == ("home", COMMAND)] == [("home", COMMAND)] * 2
    assert [item.content[0] for item in home.state().queue] == [TextBlock("again")]
    home.cell.lost_answers = 1
    with pytest.raises(Unavailable):
        await other.do(Steer(session=SESSION, content=(TextBlock("turn left"),)))
    assert [b"turn left" in record.raw for record in agent.written] == [False, True], "the person decides"


async def test_queries_that_only_read_are_answered_from_the_own_copy(home: CellHarness, other: CellHarness) -> None:
    agent = await home.working()
    await agent.call("call-1", command="ls")
    await agent.ask("req-1", "call-1", command="rm x")
    wanted: tuple[q.Query, ...] = (q.GetSession(SESSION), q.ReadQueue(SESSION), q.ListPermissions())
    for query in (*wanted, q.ReadEvents(SESSION), q.FindPermission("req-1")):
        assert await other.routed.ask(ANN, query) == await home.routed.ask(ANN, query)
    assert home.cell.asked == []
    with pytest.raises(NotFound):
        await other.routed.ask(msgspec.structs.replace(BOB, user="bob"), q.FindPermission("req-1"))
    report = await other.routed.ask(ANN, q.ExplainPermission("req-1"))
    assert report == await home.routed.ask(ANN, q.ExplainPermission("req-1"))
    waiting = asyncio.create_task(other.routed.ask(ANN, q.WaitTurn(SESSION, 60)))
    await home.do(AnswerPermission(request=RequestId("req-1"), behavior="deny"))
    await agent.result()
    assert await waiting in ("idle", "waiting")


async def test_who_does_not_see_a_session_does_not_see_it_on_another_node(
    home: CellHarness, other: CellHarness
) -> None:
    await home.open()
    stranger = Identity("cred-eve", "eve", "eve", frozenset({"view", "chat"}))
    with pytest.raises(NotFound):
        await other.do(Send(session=SESSION, content=(TextBlock("x"),)), stranger)
    with pytest.raises(NotFound):
        await watch(other, who=stranger)
    with pytest.raises(NotFound):
        await other.routed.ask(stranger, q.GetSession(SESSION))
    assert home.cell.asked == []


async def test_a_node_does_not_load_a_session_of_another_even_if_nobody_owns_its_log(
    home: CellHarness, other: CellHarness
) -> None:
    await home.open()
    await home.stop()
    await home.start()
    with pytest.raises(OwnedElsewhere):
        await other.registry.get(SESSION)
    await other.send("hello")
    assert await (await home.kind.launched()).prompted() == "hello"


async def test_a_fork_is_made_where_its_parent_is(home: CellHarness, other: CellHarness) -> None:
    agent = await home.working()
    await agent.result()
    await home.until(lambda: home.state().turn is None)
    await other.do(Fork(session=SESSION, child=CHILD))
    assert await other.store.home(CHILD) == "home"
    assert (await other.routed.ask(ANN, q.GetSession(CHILD))).summary.parent == SESSION


async def test_a_session_deleted_on_another_node_is_gone_everywhere(home: CellHarness, other: CellHarness) -> None:
    await home.open()
    await other.do(Delete(session=SESSION))
    with pytest.raises(NotFound):
        await home.routed.ask(ANN, q.GetSession(SESSION))
    assert (SESSION, "deleted") in other.notices


# --- new sessions


async def test_a_new_session_is_placed_where_its_folder_is(cell: Cell, home: CellHarness, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = await CellHarness(cell, "other", roots=(str(elsewhere),)).start()
    try:
        await other.do(Create(session=SESSION, cwd=str(home.cwd)))
        assert await other.store.home(SESSION) == "home"
        await home.do(Create(session=CHILD, cwd=str(home.cwd)))
        assert await home.store.home(CHILD) == "home"
        with pytest.raises(OutsideRoots):
            await other.do(Create(session=CHILD, cwd="/nowhere"))
        with pytest.raises(NotFound, match="no node"):
            await other.do(Create(session=CHILD, node="nobody"))
    finally:
        await other.stop()


# --- watching


async def test_a_subscription_on_another_node_gets_everything_once_and_in_order(
    home: CellHarness, other: CellHarness
) -> None:
    agent = await home.working()
    _, here = await watch(home, Cursor(0))
    _, there = await watch(other, Cursor(0))
    _, live = await watch(other)
    start = await head(home)
    for number in range(40):
        await agent.text(f"word {number}")
        if number % 7 == 0:
            await asyncio.sleep(0)
    await agent.result()
    last = await head(home)
    await other.until(lambda: bool(there.seqs) and there.seqs[-1] == last and here.seqs[-1] == last)
    assert there.seqs == here.seqs
    assert live.seqs == [seq for seq in here.seqs if seq > start]
    assert other.notices.count((SESSION, "updated")) > 0


class LiveOrRead(msgspec.Struct, frozen=True):
    """An encoder that shows how a client got an entry: live, or read from the log with what it had before."""

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        return b"live-%d " % entry.seq

    def signal(self, session: SessionId, kind: str, name: str, data: Any) -> bytes:
        return b""

    def catch_up(self, position: int, frame: int) -> "ReadOn":
        return ReadOn(position)


class ReadOn(msgspec.Struct, frozen=True):
    position: int

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        return b"read-%d-after-%d " % (entry.seq, self.position)


async def test_a_live_subscription_that_missed_deltas_reads_on_from_its_position(
    home: CellHarness, other: CellHarness
) -> None:
    """A live subscription relies on having received every delta, and some are gone before this node reads them."""
    await home.open()
    core = home.loaded().core
    wire = Wire()
    watching: Any = await other.routed.watch(ANN, SESSION, None, LiveOrRead(), wire)
    watching.start()
    await other.until(lambda: watching.live)
    start = core.log.head

    async def add(*dropped: int) -> None:
        async with core.transaction() as transition:
            for number in range(len(dropped) + 1):
                transition.add(ev.Notice(id=EventId(f"n{transition.stage.seq}"), kind="test", text=str(number)))
            transition.stage.drop.update(start + number for number in dropped)

    await add()
    await other.until(lambda: watching.position == start + 1)
    assert wire.sent == b"live-%d " % (start + 1)
    wire.sent = b""
    await add(2, 3)
    await other.until(lambda: watching.position == start + 4)
    assert wire.sent == b"read-%d-after-%d " % (start + 4, start + 1)


async def test_a_cursor_ahead_of_this_node_waits_for_the_entries(home: CellHarness, other: CellHarness) -> None:
    """A client that comes from another node may have seen more than is here yet: that is no gap."""
    agent = await home.working()
    log_id = (await home.store.read(SESSION, 0, 1)).log_id
    ahead = await head(home) + 1
    waited: list[int] = []

    async def caught_up(session: str, seq: int | None = None, timeout_s: float = 10.0) -> None:
        waited.append(await head(home))
        await agent.text("the next entry")

    other.store.caught_up = caught_up  # type: ignore[method-assign]
    watching, _ = await watch(other, Cursor(ahead, log_id))
    assert waited == [ahead - 1]
    assert (watching.verdict, watching.since.seq) == ("ok", ahead)
    behind, _ = await watch(other, Cursor(ahead + 1000, log_id))
    assert behind.verdict == "gap", "it is caught up, and has no such entry"
    foreign, _ = await watch(other, Cursor(1, "another log"))
    assert foreign.verdict == "gap"
    assert len(waited) == 2, "nothing to wait for"


async def test_a_store_that_cannot_catch_up_is_unavailable_and_not_a_gap(home: CellHarness, other: CellHarness) -> None:
    await home.open()
    log_id = (await home.store.read(SESSION, 0, 1)).log_id

    async def caught_up(session: str, seq: int | None = None, timeout_s: float = 10.0) -> None:
        raise Unavailable("The store is away.")

    other.store.caught_up = caught_up  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        await watch(other, Cursor(1000, log_id))


async def test_typing_reaches_the_subscribers_of_other_nodes(home: CellHarness, other: CellHarness) -> None:
    await home.open()
    watching, wire = await watch(other, who=BOB)
    await other.until(lambda: watching.live)
    home.routed.signal(ANN, SESSION, "typing", True)
    assert b"typing" in wire.sent
    wire.sent = b""
    home.routed.signal(BOB, SESSION, "typing", True)
    assert b"typing" not in wire.sent, "not to the credential that types"


async def test_who_loses_sight_of_a_session_reconnects_on_every_node(home: CellHarness, other: CellHarness) -> None:
    bob = Identity("cred-bob", "bob", "bob", frozenset({"view"}))
    await home.open()
    await home.do(ShareSession(session=SESSION, everybody=True))
    await watch(other, who=bob)
    await home.do(ShareSession(session=SESSION, everybody=True, remove=True))
    await other.until(lambda: any(lost(bob) for lost in other.lost))
    assert not any(lost(ANN) for lost in other.lost)
    elsewhere = msgspec.structs.replace(bob, credential="another")
    assert not any(lost(elsewhere) for lost in other.lost), "it does not watch this session"


# --- nodes that are away


async def test_a_session_of_a_node_that_is_away_stays_readable_and_takes_no_commands(
    home: CellHarness, other: CellHarness
) -> None:
    agent = await home.working()
    await agent.call("call-1", command="ls")
    await agent.ask("req-1", "call-1", command="rm x")
    await home.cell.kill("home")
    before = await head(other)
    with pytest.raises(NodeAway) as caught:
        await other.send("hello")
    assert caught.value.data == {"node": "home", "since": 1000}
    assert caught.value.status == 503
    pending = await other.routed.ask(ANN, q.ListPermissions())
    assert [item.session for item in pending] == [SESSION]
    with pytest.raises(NodeAway):
        await other.do(AnswerPermission(request=RequestId("req-1"), behavior="allow"))
    assert (await other.routed.ask(ANN, q.GetSession(SESSION))).summary.state == "waiting"
    assert await head(other) == before, "nothing is written"
    assert await other.store.home(SESSION) == "home"


async def test_a_start_leaves_the_sessions_of_other_nodes_alone(
    home: CellHarness, cell: Cell, caplog: pytest.LogCaptureFixture
) -> None:
    await home.working()
    before = await head(home)
    await cell.kill("home")
    late = await CellHarness(cell, "late").start()
    assert late.registry.loaded(SESSION) is None
    assert await head(late) == before
    assert "cannot recover" not in caplog.text, "it does not even try"
    await late.stop()


async def test_only_an_admin_deletes_a_session_of_a_node_that_is_away(home: CellHarness, other: CellHarness) -> None:
    await home.open()
    await home.cell.kill("home")
    user = Identity("cred-own", "owner", "own", frozenset({"view", "chat"}))
    with pytest.raises(NodeAway):
        await other.do(Delete(session=SESSION), user)
    await other.do(Delete(session=SESSION))
    with pytest.raises(NotFound):
        await other.routed.ask(ANN, q.GetSession(SESSION))


async def taken_over(*nodes: CellHarness) -> None:
    """Wait until one of these nodes has the session. Each waits a moment, so that one of them is first."""
    async with asyncio.timeout(PATIENCE):
        while all(node.registry.loaded(SESSION) is None for node in nodes):
            await asyncio.gather(*(node.clock.advance(PAUSE_S) for node in nodes))
            await asyncio.sleep(0.002)


async def shared_pair(cell: Cell, **options: Any) -> tuple[CellHarness, CellHarness]:
    home = await CellHarness(cell, "home", shared=True).start()
    return home, await CellHarness(cell, "other", shared=True, **options).start()


async def test_a_working_session_in_a_shared_folder_is_taken_over(cell: Cell) -> None:
    home, other = await shared_pair(cell)
    agent = await home.working()
    await agent.text("half of it")
    await agent.call("call-1", command="ls")
    await agent.ask("req-1", "call-1", command="rm x")
    await home.send("and then this")
    _, wire = await watch(other, Cursor(0))
    await cell.kill("home")
    await taken_over(other)
    successor = await other.kind.launched()
    assert successor.launch.resume
    assert await successor.prompted() == "and then this"
    assert await other.store.home(SESSION) == "other"
    log = await other.log()
    cancelled = [event for event in log if isinstance(event, ev.PermissionCancelled)]
    assert [event.reason for event in cancelled] == ["its node went away"]
    ended = [event for event in log if isinstance(event, ev.TurnEnded)]
    assert [(event.status, event.reason) for event in ended] == [("failed", "its node went away")]
    last = await head(other)
    await other.until(lambda: wire.seqs[-1:] == [last])
    assert wire.seqs == [entry.seq for entry in (await other.store.read(SESSION, 0, 1000)).entries]
    # The earlier owner did not hear of it. Its next words are refused, and it gives up the session.
    with pytest.raises(Exception, match="newer owner"):
        await agent.text("the other half")
    await home.until(lambda: home.registry.loaded(SESSION) is None and agent.gone)
    assert await head(other) == last
    await other.stop()
    await home.stop()


async def test_the_agent_is_told_to_go_on_if_the_settings_say_so(cell: Cell) -> None:
    home, other = await shared_pair(cell, then="continue")
    await home.working()
    await cell.kill("home")
    await taken_over(other)
    assert await (await other.kind.launched()).prompted() == CONTINUE
    await other.stop()
    await home.stop()


async def test_an_idle_session_is_taken_over_when_somebody_sends_a_message(cell: Cell) -> None:
    home, other = await shared_pair(cell)
    agent = await home.working()
    await agent.result()
    await home.until(lambda: home.state().turn is None)
    before = await head(home)
    await cell.kill("home")
    await asyncio.sleep(0)
    assert await head(other) == before
    await other.send("go on")
    assert await (await other.kind.launched()).prompted() == "go on"
    await other.stop()
    await home.stop()


async def test_one_of_two_survivors_takes_over(cell: Cell) -> None:
    home, other = await shared_pair(cell)
    third = await CellHarness(cell, "third", shared=True).start()
    await home.working()
    await cell.kill("home")
    nodes = (other, third)
    await taken_over(*nodes)
    winner = await other.store.home(SESSION)
    await asyncio.gather(*(node.send("hello") for node in nodes))
    assert await other.store.home(SESSION) == winner
    assert [node.node for node in nodes if node.registry.loaded(SESSION) is not None] == [winner]
    for node in (third, other, home):
        await node.stop()


async def test_a_folder_that_only_one_node_names_as_shared_is_not_taken_over(cell: Cell) -> None:
    home = await CellHarness(cell, "home").start()
    other = await CellHarness(cell, "other", shared=True).start()
    await home.working()
    await cell.kill("home")
    with pytest.raises(NodeAway):
        await other.send("hello")
    await other.stop()
    await home.stop()


# --- the own lease


async def test_a_node_without_a_lease_takes_no_commands(home: CellHarness) -> None:
    await home.open()
    home.cell.suspend("home")
    with pytest.raises(Unavailable):
        await home.send("hello")
    assert (await home.routed.ask(ANN, q.GetSession(SESSION))).summary.state == "idle"
    home.cell.suspend("home", suspended=False)
    await home.send("hello")


async def test_agents_in_shared_folders_end_soon_after_the_lease_and_others_go_on(cell: Cell) -> None:
    home = await CellHarness(cell, "home", shared=True).start()
    agent = await home.working()
    cell.suspend("home")
    await home.clock.advance(KILL_AFTER_S - 1)
    assert not agent.gone
    await home.clock.advance(1)
    await home.until(lambda: agent.gone and home.registry.loaded(SESSION) is None)
    await home.stop()


async def test_a_lease_that_comes_back_in_time_ends_nothing(cell: Cell) -> None:
    home = await CellHarness(cell, "home", shared=True).start()
    agent = await home.working()
    cell.suspend("home")
    await home.clock.advance(KILL_AFTER_S - 1)
    cell.suspend("home", suspended=False)
    await home.clock.advance(60)
    assert not agent.gone
    await home.stop()


async def test_agents_in_folders_of_one_node_outlive_the_lease(home: CellHarness) -> None:
    agent = await home.working()
    home.cell.suspend("home")
    await home.clock.advance(60)
    assert not agent.gone
    home.cell.suspend("home", suspended=False)
    await agent.text("still here")


# --- transcripts


async def test_a_transcript_of_another_node_is_opened_there_or_not_at_all(
    home: CellHarness, other: CellHarness
) -> None:
    await home.store.list_found((Summary(session=SESSION, agent="said", state=TRANSCRIPT, owner="owner"),), ())
    assert await other.registry.home(SESSION) == "home"
    with pytest.raises(OwnedElsewhere):
        await other.registry.get(SESSION)
    await home.cell.kill("home")
    with pytest.raises(NodeAway):
        await other.routed.ask(ANN, q.GetSession(SESSION))


# --- adoption by an admin


async def test_a_session_is_adopted_only_if_its_node_is_away_and_by_an_admin(
    home: CellHarness, other: CellHarness
) -> None:
    agent = await home.working()
    service = NodeService(other.gateway)
    adopt = service.handlers()[AdoptSession]
    with pytest.raises(Busy, match="is there"):
        await adopt(ANN, AdoptSession(SESSION))
    await home.cell.kill("home")
    with pytest.raises(NotAllowed):
        await adopt(BOB, AdoptSession(SESSION))
    await adopt(ANN, AdoptSession(SESSION))
    assert await other.store.home(SESSION) == "other"
    with pytest.raises(Busy, match="on this node already"):
        await adopt(ANN, AdoptSession(SESSION))
    await other.send("go on")
    successor = await other.kind.launched()
    assert await successor.prompted() == "go on"
    with pytest.raises(Fenced):
        await agent.text("too late")
    await home.until(lambda: agent.gone)


async def test_the_nodes_are_listed_with_their_folders(home: CellHarness, other: CellHarness) -> None:
    await home.cell.kill("home")
    one, two = await NodeService(other.gateway).handlers()[ListNodes](BOB, ListNodes())
    assert (one.name, one.alive, one.here, one.roots) == ("home", False, False, home.services.policy.roots)
    assert (two.name, two.alive, two.here) == ("other", True, True)
