"""Queries and subscriptions of clients: pages from the end, cursors and their verdicts, totals, exports, presence."""

import asyncio
from typing import Any

import msgspec
import pytest

from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError, NotAllowed, NotFound
from fairlead.model.gateway import Cursor
from fairlead.model.ids import RequestId, SessionId
from fairlead.model.store import Entry, SessionFilter
from fairlead.sessions import loading
from fairlead.sessions.permissions.request_index import RequestIndex
from sessions.harness import ANN, BOB, CHILD, SESSION, CoreHarness

NO_SCOPES = Identity("n", "n", "n", frozenset())


class Seqs:
    def encode(self, session: SessionId, entry: Entry) -> bytes:
        return b"%d " % entry.seq

    def signal(self, session: SessionId, kind: str, name: str, data: Any) -> bytes:
        return f"{kind}:{name} ".encode()


class Wire:
    def __init__(self) -> None:
        self.sent = b""

    def send(self, data: bytes) -> None:
        self.sent += data

    def backlog(self) -> int:
        return 0

    def fail(self, error: FairleadError) -> None:
        self.sent += b"failed\n"

    @property
    def seqs(self) -> list[int]:
        return [int(word) for word in self.sent.split() if word.isdigit()]


async def finished(harness: CoreHarness, turns: int = 1) -> None:
    agent = await harness.working("turn 0")
    await agent.text("answer 0")
    await agent.result()
    for number in range(1, turns):
        await harness.send(f"turn {number}")
        await agent.prompted()
        await agent.ready()
        await agent.text(f"answer {number}")
        await agent.result()


async def watch(harness: CoreHarness, cursor: Cursor | None, who: Identity = ANN) -> tuple[Any, Wire]:
    wire = Wire()
    watching = await harness.gateway.watch(who, SESSION, cursor, Seqs(), wire)
    watching.start()
    return watching, wire


async def test_history_comes_page_by_page_from_the_end(harness: CoreHarness) -> None:
    await finished(harness, 3)
    seen: list[Any] = []
    before = None
    while True:
        page = await harness.gateway.ask(ANN, q.ReadMessages(SESSION, before, 4))
        seen = [*(msgspec.json.decode(line) for line in page.events), *seen]
        if page.next is None:
            break
        before = page.next
    assert [line["text"] for line in seen if line["type"] == "text"] == ["answer 0", "answer 1", "answer 2"]
    assert [line["seq"] for line in seen] == sorted({line["seq"] for line in seen})
    assert all(line["session"] == SESSION for line in seen)
    assert not {"record", "text.delta", "message.queued"} & {line["type"] for line in seen}


async def test_events_are_read_forward_to_the_head(harness: CoreHarness) -> None:
    await finished(harness)
    after, count = 0, 0
    while True:
        page = await harness.gateway.ask(ANN, q.ReadEvents(SESSION, after, 3))
        count += len(page.events)
        if page.next is None:
            break
        after = page.next
    assert count == len(await harness.log())
    assert (await harness.gateway.ask(ANN, q.ReadEvents(SESSION, page.head, 3))).events == ()


async def test_a_session_is_shown_as_it_stands(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await harness.send("two")
    await agent.call("c1", command="touch x")
    await agent.ask("r1", "c1", command="touch x")
    view = await harness.gateway.ask(ANN, q.GetSession(SESSION))
    assert view.summary.state == "waiting"
    assert (view.turn, view.head) == (harness.state().turn, harness.loaded().core.log.head)
    assert [msgspec.json.decode(item.event)["request"] for item in view.pending] == ["r1"]
    assert [item.content[0]["text"] for item in view.queue] == ["two"]
    assert (await harness.gateway.ask(ANN, q.ReadQueue(SESSION)))[0].by == "ann"


@pytest.mark.rules("S004-303")
async def test_open_requests_are_found_in_all_sessions(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await harness.open(CHILD)
    await agent.call("c1", command="touch x")
    await agent.ask("r1", "c1", command="touch x")
    (everywhere,) = await harness.gateway.ask(ANN, q.ListPermissions())
    (here,) = await harness.gateway.ask(ANN, q.ListPermissions(SESSION))
    assert everywhere == here
    assert everywhere.session == SESSION
    assert (await harness.gateway.ask(ANN, q.FindPermission("r1"))).session == SESSION
    assert await harness.gateway.ask(ANN, q.ListPermissions(CHILD)) == ()
    with pytest.raises(NotFound):
        await harness.gateway.ask(ANN, q.FindPermission("r2"))


async def test_a_request_is_found_without_looking_at_any_other_session(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await harness.working("one")
    await agent.call("c1", command="touch x")
    await agent.ask("r1", "c1", command="touch x")

    async def must_not_list(wanted: object) -> None:
        raise AssertionError("the list was read")

    monkeypatch.setattr(harness.store, "sessions", must_not_list)
    assert (await harness.gateway.ask(ANN, q.FindPermission("r1"))).session == SESSION
    await harness.do(cmd.AnswerPermission(session=SESSION, request=RequestId("r1"), behavior="deny"))
    assert len(harness.services.requests._sessions) == 0
    with pytest.raises(NotFound):
        await harness.gateway.ask(ANN, q.FindPermission("r1"))


async def test_open_requests_are_found_after_the_session_has_left_memory(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await agent.call("c1", command="touch x")
    await agent.ask("r1", "c1", command="touch x")
    del harness.registry._sessions[SESSION]
    assert (await harness.gateway.ask(ANN, q.FindPermission("r1"))).session == SESSION


def test_the_request_index_is_bounded() -> None:
    requests = RequestIndex(most=3)
    for number in range(5):
        requests.add(SESSION, f"r{number}")
    assert [requests.find(f"r{number}") for number in range(5)] == [None, None, SESSION, SESSION, SESSION]
    requests.drop(SESSION)
    assert len(requests._sessions) == 0


async def test_usage_is_summed_over_sessions(harness: CoreHarness) -> None:
    await finished(harness, 2)
    await harness.open(CHILD)
    one = await harness.gateway.ask(ANN, q.ReadUsage(SESSION))
    everything = await harness.gateway.ask(ANN, q.ReadUsage())
    assert (one.turns, one.cost_usd, one.sessions) == (2, 0.25, 1)
    assert (everything.turns, everything.cost_usd, everything.sessions) == (2, 0.25, 2)


async def test_sessions_are_listed_and_their_text_is_found(harness: CoreHarness) -> None:
    await finished(harness)
    page = await harness.gateway.ask(ANN, q.ListSessions(SessionFilter()))
    assert [summary.session for summary in page.sessions] == [SESSION]
    await harness.store.wait_indexed()
    found = await harness.gateway.ask(ANN, q.SearchText("answer"))
    assert [hit.session for hit in found.hits] == [SESSION]


async def test_unknown_sessions_are_not_found_and_leave_nothing_behind(harness: CoreHarness) -> None:
    for kind in (q.GetSession, q.ReadMessages, q.ReadEvents, q.ReadQueue, q.ReadUsage):
        with pytest.raises(NotFound):
            await harness.gateway.ask(ANN, kind(CHILD))
    with pytest.raises(NotFound):
        await harness.gateway.watch(ANN, CHILD, None, Seqs(), Wire())
    assert CHILD not in harness.registry._feeds


async def test_queries_need_the_scope_view(harness: CoreHarness) -> None:
    await harness.open()
    with pytest.raises(NotAllowed):
        await harness.gateway.ask(NO_SCOPES, q.GetSession(SESSION))
    with pytest.raises(NotAllowed):
        await harness.gateway.watch(NO_SCOPES, SESSION, None, Seqs(), Wire())
    with pytest.raises(NotAllowed):
        await anext(harness.gateway.export(NO_SCOPES, SESSION))


async def test_a_known_cursor_is_ok_and_gets_exactly_the_rest(harness: CoreHarness) -> None:
    await finished(harness)
    head = harness.loaded().core.log.head
    log_id = harness.loaded().core.log.log_id
    watching, wire = await watch(harness, Cursor(3, log_id))
    assert (watching.verdict, watching.head, watching.log_id) == ("ok", head, log_id)
    await harness.until(lambda: watching.live)
    assert wire.seqs == list(range(4, head + 1))
    watching.close()


@pytest.mark.parametrize("cursor", [Cursor(3, "another log"), Cursor(10**6), Cursor(-1)])
async def test_an_unknown_cursor_is_a_gap_and_gets_everything(harness: CoreHarness, cursor: Cursor) -> None:
    await finished(harness)
    watching, wire = await watch(harness, cursor)
    assert watching.verdict == "gap"
    await harness.until(lambda: watching.live)
    assert wire.seqs[0] == 1
    watching.close()


async def test_without_a_cursor_only_new_entries_are_sent(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    watching, wire = await watch(harness, None)
    await harness.until(lambda: watching.live)
    await agent.text("now")
    assert wire.seqs == [harness.loaded().core.log.head]
    watching.close()


async def test_a_session_that_is_not_loaded_can_be_watched(harness: CoreHarness) -> None:
    await finished(harness)
    await harness.registry.remove(SESSION)
    watching, wire = await watch(harness, Cursor(0))
    await harness.until(lambda: watching.live)
    head = wire.seqs[-1]
    await harness.send("again")
    await harness.until(lambda: wire.seqs[-1] > head)
    assert wire.seqs == sorted(set(wire.seqs))
    watching.close()


async def test_the_hub_of_an_unloaded_session_goes_with_its_last_subscriber(harness: CoreHarness) -> None:
    await finished(harness)
    await harness.registry.remove(SESSION)
    watching, _ = await watch(harness, None)
    assert SESSION in harness.registry._feeds
    watching.close()
    assert SESSION not in harness.registry._feeds


async def test_typing_reaches_the_others(harness: CoreHarness) -> None:
    await harness.open()
    one, ann = await watch(harness, None)
    two, bob = await watch(harness, None, BOB)
    await harness.until(lambda: one.live and two.live)
    harness.gateway.signal(ANN, SESSION, "typing", None)
    assert b"typing:ann" in bob.sent
    assert b"typing" not in ann.sent
    view = await harness.gateway.ask(ANN, q.GetSession(SESSION))
    assert view.watchers == ("ann", "bob")
    one.close()
    two.close()


async def test_an_export_is_the_whole_log(harness: CoreHarness) -> None:
    await finished(harness, 2)
    entries = [entry.seq async for entry in harness.gateway.export(ANN, SESSION)]
    assert entries == list(range(1, len(await harness.log()) + 1))


async def test_sessions_without_a_process_leave_memory_and_come_back(harness: CoreHarness) -> None:
    harness.services = msgspec.structs.replace(
        harness.services, limits=msgspec.structs.replace(harness.limits, loaded_sessions=1)
    )
    harness.registry.services = harness.services
    sessions = [SessionId(f"0000000{n}-2222-3333-4444-555555555555") for n in range(4)]
    for session in sessions:
        await harness.open(session, title=session[:8])
        await harness.clock.advance(1)
    await harness.registry.remove(sessions[3])
    await harness.registry.get(sessions[3])
    assert len(harness.registry._sessions) <= 2
    views = await asyncio.gather(*(harness.gateway.ask(ANN, q.GetSession(session)) for session in sessions))
    assert [view.summary.title for view in views] == [session[:8] for session in sessions]


async def test_concurrent_callers_get_the_same_session(harness: CoreHarness) -> None:
    await harness.open()
    await harness.registry.remove(SESSION)
    one, two = await asyncio.gather(harness.registry.get(SESSION), harness.registry.get(SESSION))
    assert one is two


async def test_a_cancelled_caller_does_not_let_another_load_the_session_a_second_time(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.open()
    await harness.registry.remove(SESSION)
    gate, loads, load = asyncio.Event(), [0], loading.load

    async def slowly(*arguments: Any) -> Any:
        loads[0] += 1
        await gate.wait()
        return await load(*arguments)

    monkeypatch.setattr(loading, "load", slowly)
    first, second = (asyncio.create_task(harness.registry.get(SESSION)) for _ in range(2))
    await harness.until(lambda: loads[0] == 1)
    first.cancel()
    await harness.until(lambda: loads[0] == 2)
    third, leaves = (asyncio.create_task(harness.registry.get(SESSION)) for _ in range(2))
    await asyncio.sleep(0)
    leaves.cancel()
    await asyncio.wait({leaves})
    gate.set()
    assert await second is await third
    assert loads[0] == 2, "the one that was cancelled, and the one that succeeded"
    assert (await second).core.log.feed is harness.registry.feed(SESSION), (
        "subscribers get the hub that it publishes to"
    )
