"""The sender of a message whose `user.message` comes after it left the queue: from a transcript, in a terminal."""

import msgspec

from fairlead.model import events as ev
from fairlead.model.content import TextBlock
from fairlead.model.ids import EventId, MessageId, SessionId
from fairlead.sessions.state import HANDED_KEPT, SessionState, evolve

SESSION = SessionId("11111111-2222-3333-4444-555555555555")


def fold(*events: ev.Event) -> SessionState:
    state = SessionState(session=SESSION)
    for seq, event in enumerate(events, 1):
        state = evolve(state, event, seq)
    return state


def queued(message: str, by: str = "ann") -> ev.MessageQueued:
    return ev.MessageQueued(id=EventId(message), message=MessageId(message), content=(TextBlock(message),), by=by)


def dequeued(message: str) -> ev.MessageDequeued:
    return ev.MessageDequeued(id=EventId(message), message=MessageId(message))


def user_message(message: str, record: str = "") -> ev.UserMessage:
    return ev.UserMessage(id=EventId(message), message=MessageId(message), content=(TextBlock(message),), record=record)


def test_the_sender_is_known_from_the_queue_until_the_user_message_event() -> None:
    state = fold(queued("a"), dequeued("a"))
    assert state.sender("a") == "ann" and state.queue == ()
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=SessionState).sender("a") == "ann"
    assert fold(queued("a"), dequeued("a"), user_message("a")).sender("a") == ""


def test_a_message_typed_at_the_terminal_has_no_known_sender() -> None:
    assert fold(queued("a"), dequeued("a")).sender("b") == ""


def test_messages_that_never_appear_are_forgotten() -> None:
    many = [str(number) for number in range(3 * HANDED_KEPT)]
    state = fold(*(event for name in many for event in (queued(name), dequeued(name))))
    assert len(state.handed) == HANDED_KEPT and state.sender(many[-1]) == "ann" and state.sender(many[0]) == ""


def test_the_last_prompt_is_the_agents_record_id() -> None:
    """The transcript is found again by this record; it does not contain the message's id."""
    assert fold(user_message("a", record="row")).last_prompt == "row"
    assert fold(user_message("a")).last_prompt == "a"
