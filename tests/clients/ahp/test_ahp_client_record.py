"""What is remembered of a client for its next connection: the prefix that it has seen, and the limits."""

from typing import Any

import msgspec
import pytest

from clients.ahp.harness import channel_of, chat_of
from fairlead.clients.ahp.client_record import SENT_BYTES, ClientRecord
from fairlead.clients.ahp.encoder import action_envelope, action_frame
from fairlead.clients.ahp.snapshots import server_seq
from fairlead.model.gateway import Cursor
from fairlead.model.ids import SessionId

ONE = SessionId("11111111-1111-4111-8111-111111111111")
TWO = SessionId("22222222-2222-4222-8222-222222222222")
NAMED = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
A, B = chat_of(ONE), chat_of(TWO)


def frame(channel: str, number: int, text: str = "") -> bytes:
    return action_frame(action_envelope(channel, {"type": "chat/delta", "content": text}, number))


def record(*channels: str) -> ClientRecord:
    """Of a client that was initialized with the number 10, and has sent something since."""
    made = ClientRecord()
    made.initialized(10, channels)
    made.heard()
    return made


def push(made: ClientRecord, *numbers: tuple[str, int]) -> None:
    session = ONE if numbers[0][0] == A else TWO
    made.pushed(session, b"".join(frame(channel, number) for channel, number in numbers), Cursor(numbers[-1][1]))


def numbers(found: list[msgspec.Raw] | None) -> list[int] | None:
    return None if found is None else [msgspec.json.decode(raw)["serverSeq"] for raw in found]


def test_the_rest_of_what_was_sent_is_unseen() -> None:
    made = record(A, B)
    push(made, (A, 20), (A, 21))
    push(made, (B, 30))
    made.wrote(frame(A, 40))
    for seen, unseen in ((10, [20, 21, 30, 40]), (20, [21, 30, 40]), (21, [30, 40]), (30, [40]), (40, [])):
        assert numbers(made.unseen(seen, [A, B])) == unseen
    assert numbers(made.unseen(20, [B])) == [30], "only what the client names"
    assert made.cursors == {ONE: Cursor(21), TWO: Cursor(30)}


@pytest.mark.parametrize("seen", [0, 9, 11, 25, 41])
def test_a_number_that_was_not_the_highest_at_any_time_tells_nothing(seen: int) -> None:
    made = record(A, B)
    push(made, (A, 20))
    push(made, (A, 40), (A, 25))
    assert made.unseen(seen, [A, B]) is None


def test_a_lower_number_after_the_highest_is_seen_or_not() -> None:
    made = record(A, B)
    push(made, (A, 20))
    push(made, (B, 15))
    assert made.unseen(20, [A, B]) is None
    assert numbers(made.unseen(20, [A])) == [], "it does not matter to a client that does not name that channel"
    push(made, (A, 21))
    assert numbers(made.unseen(21, [A, B])) == []
    assert numbers(made.unseen(10, [A, B])) == [20, 15, 21], "it is unseen for sure if the highest is unseen"


def test_a_channel_needs_a_snapshot_that_was_seen_for_sure() -> None:
    made = record(A)
    push(made, (A, 20))
    made.opened(B)
    assert made.unseen(20, [A, B]) is None and numbers(made.unseen(20, [A])) == []
    push(made, (B, 30))
    assert numbers(made.unseen(30, [A, B])) == [] and made.unseen(10, [A, B]) is None
    made.closed(B)
    assert made.unseen(30, [A, B]) is None
    push(made, (A, 40))
    assert made.unseen(40, [A, B]) is None and numbers(made.unseen(40, [A])) == []
    assert made.unseen(40, [A, channel_of(ONE)]) is None, "it was never subscribed"


def test_a_client_that_has_sent_nothing_may_not_have_the_first_answer() -> None:
    made = ClientRecord()
    made.heard()
    made.initialized(10, [A])
    push(made, (A, 20))
    assert made.unseen(20, [A]) is None
    made.heard()
    assert numbers(made.unseen(20, [A])) == []


def test_the_next_connection_begins_with_the_replay_which_may_be_lost() -> None:
    made = record(A, B)
    push(made, (A, 20), (A, 21))
    later = made.successor(20, [A, B], made.unseen(20, [A, B]) or [])
    push(later, (B, 30))
    assert numbers(later.unseen(20, [A, B])) == [21, 30]
    assert numbers(later.unseen(21, [A, B])) == [30]
    assert later.unseen(10, [A, B]) is None
    made.end()
    push(made, (A, 50))
    assert made.cursors[ONE] == Cursor(21) and numbers(made.unseen(21, [A])) == [], "it is over"


def test_the_kept_messages_are_bounded() -> None:
    made = record(A, B)
    push(made, (B, 20))
    made.opened(channel_of(ONE))
    text = "x" * 1000
    for number in range(30, 30 + SENT_BYTES // 500):
        made.pushed(ONE, frame(A, number, text), Cursor(number))
    kept = sum(len(sent.frames) for sent in made._sent)
    assert SENT_BYTES * 0.8 < kept <= SENT_BYTES
    last = 29 + SENT_BYTES // 500
    assert numbers(made.unseen(last - 1, [A, B, channel_of(ONE)])) == [last], "what was dropped counts as seen"
    assert made.unseen(30, [A]) is None and made.unseen(20, [A]) is None
    dropped = made._top
    assert made.unseen(dropped, [A]) is None, "several places may have had this number"
    assert numbers(made.unseen(dropped + 1, [A])) is not None
    made.wrote(frame(A, last + 1, "y" * SENT_BYTES))
    assert len(made._sent) == 0 and made.unseen(last + 1, [A]) is None
    push(made, (A, last + 2))
    assert numbers(made.unseen(last + 2, [A])) == []


def test_numbers_of_a_clients_own_actions_differ_in_one_millisecond() -> None:
    made = ClientRecord()
    assert [made.next_number(5) for _ in range(3)] == [server_seq(5), server_seq(5) + 1, server_seq(5) + 2]
    assert made.next_number(6) == server_seq(6)


def test_a_forgotten_client_holds_nothing() -> None:
    made = record(A)
    made.set_active(ONE, {"tools": []})
    push(made, (A, 20))
    made.forget()
    push(made, (A, 21))
    state: dict[str, Any] = vars(made)
    assert not state["_sent"] and not made.active and made.unseen(20, [A]) is None


def test_a_channel_may_be_written_in_another_way() -> None:
    made = ClientRecord()
    made.initialized(10, [chat_of(NAMED.upper())])
    made.heard()
    made.wrote(frame(chat_of(NAMED.upper()), 20))
    assert numbers(made.unseen(10, [chat_of(NAMED)])) == [20]
