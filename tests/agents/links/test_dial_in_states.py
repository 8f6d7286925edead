"""The dial-in link without its socket: its states as a table, and the lines that the agent may have missed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agents.links.dialin_state import ACCEPTING, TABLE, DialInSignal, DialInState, UnconfirmedLines
from fairlead.model.errors import AgentTimeout


@pytest.mark.rules("S004-304")
def test_the_six_states_of_the_seed_exist_and_each_is_reachable() -> None:
    assert {state.value for state in DialInState} == {
        "idle", "connecting", "reconnecting", "connected", "closing", "closed",
    }  # fmt: skip
    reached, before = {DialInState.IDLE}, set[DialInState]()
    while reached != before:
        before = set(reached)
        reached |= {after for (state, _), after in TABLE.items() if state in reached}
    assert reached == set(DialInState)


def test_nothing_leaves_closed_and_every_state_can_be_ended() -> None:
    assert {after for (state, _), after in TABLE.items() if state is DialInState.CLOSED} == {DialInState.CLOSED}
    for state in DialInState:
        assert TABLE[state, DialInSignal.ENDED] is DialInState.CLOSED
        assert TABLE[state, DialInSignal.STOPPED] in (DialInState.CLOSING, DialInState.CLOSED)


def test_a_socket_is_accepted_exactly_where_the_table_allows_it() -> None:
    assert {state for (state, signal) in TABLE if signal is DialInSignal.OPENED} == ACCEPTING


def test_a_dropped_socket_is_waited_for_only_for_a_while() -> None:
    assert TABLE[DialInState.CONNECTED, DialInSignal.DROPPED] is DialInState.RECONNECTING
    assert TABLE[DialInState.RECONNECTING, DialInSignal.OPENED] is DialInState.CONNECTED
    assert TABLE[DialInState.RECONNECTING, DialInSignal.GAVE_UP] is DialInState.CLOSED
    assert TABLE[DialInState.CLOSING, DialInSignal.DROPPED] is DialInState.CLOSING, (
        "nobody is waited for who was told to go"
    )


@given(st.lists(st.integers(0, 20)))
def test_the_outbox_has_exactly_the_lines_after_the_last_receipt(receipts: list[int]) -> None:
    outbox = UnconfirmedLines()
    lines = [f"{number}\n".encode() for number in range(1, 21)]
    for line in lines:
        outbox.add(line)
    assert outbox.last == 20
    for number in receipts:
        outbox.confirm(number)
    assert outbox.unconfirmed() == tuple(lines[max(receipts, default=0) :])


def test_the_outbox_is_bounded_but_takes_one_line_of_any_size() -> None:
    outbox = UnconfirmedLines(limit=10)
    outbox.add(b"x" * 100)
    with pytest.raises(AgentTimeout):
        outbox.add(b"y")
    outbox.confirm(1)
    outbox.add(b"y")
    assert outbox.unconfirmed() == (b"y",)
