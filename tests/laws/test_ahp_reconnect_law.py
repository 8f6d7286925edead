"""The law of AHP's `reconnect`: wherever the connection is cut, a client that comes back ends with the same state as
one that was always connected, and as one that begins at the end.

Two clients watch two sessions, each on one connection. What the second one reads, and when, is generated: its
connection is cut with any number of messages unread, also before it has read the answer to its return. The socket's
endpoint, the hubs and the subscriptions are the server's and the core's own; numbers of the two sessions collide and
overtake each other all the time, because their logs begin at the same millisecond.
"""

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from agents.claude.golden_claude import cases
from fairlead.model import events as ev
from fairlead.model.ids import CallId, EventId, MessageId, RequestId, SubagentId, TurnId
from fairlead_testing.replay import EventLog, settled
from laws.ahp_reconnect import NAMES, CutClient, Move, TwoSessions, moves, play
from laws.test_ahp_law import sessions, with_drops
from laws.test_cognova_law import ALTERED
from laws.test_replay_law import recorded
from sizing import examples

RECORDED = sorted({*cases()} - ALTERED)


@examples(60, 2000)
@given(st.tuples(sessions, sessions), moves, st.sampled_from([-1000, 3]))
def test_a_client_that_comes_back_shows_the_same_as_one_that_was_always_connected(
    logs: tuple[EventLog, EventLog], plan: list[Move], now: int
) -> None:
    asyncio.run(play(logs, plan, now))


@examples(20, 500)
@given(st.tuples(st.sampled_from(RECORDED), st.sampled_from(RECORDED)), moves)
def test_the_sessions_of_real_agents(names: tuple[str, str], plan: list[Move]) -> None:
    asyncio.run(play([recorded(name) for name in names], plan))


# --- single cases


TURN = TurnId("t1")
NAME = EventId("e")
EMPTY = EventLog(())
BEGUN = ev.TurnStarted(id=NAME, turn=TURN, trigger="agent")


def delta(offset: int, text: str) -> ev.Event:
    return ev.TextDelta(id=NAME, turn=TURN, message=MessageId("m"), block=0, offset=offset, text=text)


def whole(text: str) -> ev.Event:
    return ev.Text(id=NAME, turn=TURN, message=MessageId("m"), block=0, text=text)


STREAM = [BEGUN, delta(0, "one "), delta(4, "two "), delta(8, "three"), whole("one two three")]


def check(plan: Sequence[Move], *logs: Sequence[ev.Event], now: int = -1000) -> list[str]:
    played = [with_drops(list(events)) for events in logs]
    return asyncio.run(play([*played, *[EMPTY] * (2 - len(played))], [("read", 0, 100), *plan], now))


def test_a_text_whose_deltas_are_gone_is_replayed_from_where_the_client_was() -> None:
    plan = [("publish", 0, 3), ("read", 0, 100), ("cut", 1, 0), ("publish", 0, 3), ("back", 0, 0)]
    assert check(plan, STREAM) == ["replay"]


def test_what_was_sent_and_not_read_is_replayed_as_it_was_sent() -> None:
    for read in range(6):
        plan: list[Move] = [("publish", 0, 1)] * 4
        assert check([*plan, ("read", 0, read), ("cut", 0, 0), ("back", 0, 0)], STREAM) == ["replay"]


def test_a_text_stands_before_a_part_that_began_after_it() -> None:
    asked = ev.PermissionRequested(
        id=NAME, turn=TURN, subagent=SubagentId("s"), request=RequestId("r"), call=CallId("c"), tool="Bash", input={}
    )
    plan = [("publish", 0, 1), ("read", 0, 100), ("cut", 1, 0), ("publish", 0, 9), ("back", 0, 0)]
    assert check(plan, [BEGUN, delta(0, "one"), asked, whole("one")]) == ["replay"]


def test_a_message_of_another_session_that_was_overtaken_makes_the_position_unknown() -> None:
    """The second session's entry has a lower number than the last one of the first that was read."""
    first: list[Move] = [("publish", 0, 2), ("read", 0, 100)]
    cut: list[Move] = [("cut", 1, 0), ("back", 0, 0)]
    assert check([*first, ("publish", 1, 1), *cut], [BEGUN, whole("x")], [BEGUN]) == ["unknown"]
    assert check([("publish", 1, 1), *first, *cut], [BEGUN, whole("x")], [BEGUN]) == ["replay"]


def test_a_client_that_loses_the_answer_to_its_return_gets_it_again() -> None:
    plan: list[Move] = [("publish", 0, 1), ("read", 0, 100), ("cut", 1, 0), ("publish", 0, 2), ("lost", 0, 0)]
    assert check([*plan, ("publish", 0, 1), ("back", 0, 0)], STREAM) == ["replay"]


def test_no_action_reaches_a_client_before_it_has_applied_the_answer() -> None:
    first: list[Move] = [("publish", 0, 2), ("read", 0, 100), ("cut", 1, 0), ("publish", 0, 1)]
    assert check([*first, ("back", 1, 0), ("publish", 0, 1), ("read", 0, 100)], STREAM) == ["replay"]
    late: list[Move] = [("publish", 0, 2), ("read", 0, 100), ("publish", 1, 1), ("cut", 1, 0), ("back", 1, 0)]
    again: list[Move] = [("read", 0, 1), ("publish", 0, 1), ("publish", 1, 1), ("read", 0, 100)]
    assert check([*late, *again], STREAM, STREAM) == ["unknown"]


def test_a_channel_whose_snapshot_was_not_read_makes_the_position_unknown() -> None:
    plan: list[Move] = [("publish", 0, 1), ("read", 0, 100), ("leave", 0, 0), ("open", 0, 0)]
    assert check([*plan, ("cut", 1, 0), ("back", 0, 0)], STREAM) == ["unknown"]
    assert check([*plan, ("read", 0, 100), ("cut", 1, 0), ("back", 0, 0)], STREAM) == ["unknown"]
    # An action after the snapshot shows that it arrived.
    assert check([*plan, ("publish", 0, 1), ("read", 0, 100), ("cut", 1, 0), ("back", 0, 0)], STREAM) == ["replay"]


async def test_clients_that_came_back_share_one_encoding() -> None:
    """Whenever each of them had begun."""
    core = TwoSessions([with_drops(STREAM), EMPTY], -1000)
    hub, clients = core.logs[NAMES[0]].hub, list[CutClient]()
    for name in ("a", "b"):
        clients.append(CutClient(core, name))
        await settled()
        clients[-1].read(100)
        core.logs[NAMES[0]].publish(1)
        await settled()
        clients[-1].read(100)
    assert len(hub._groups) == 2
    for client in clients:
        client.cut(noticed=True)
        await client.come_back()
        assert client.verdicts == ["replay"]
    await settled()
    encoded = hub.encoded
    core.logs[NAMES[0]].publish(3)
    assert hub.encoded - encoded == 3 and len(hub._groups) == 1
    await settled()
    for client in clients:
        client.read(100)
    assert clients[0].state() == clients[1].state()
    await core.clock.advance(2)
    for client in clients:
        client.end()
    await settled()
