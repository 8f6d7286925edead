"""The conversation never fails and never ignores a frame: any input gets one answer, or is forwarded as a signal."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.native.conversation_driver import ConversationDriver, frames
from fairlead.clients.native.codec import MSGPACK
from fairlead.clients.native.decode import KEY_LENGTH, KINDS
from fairlead.model.auth import SCOPES, Scope
from fairlead.model.commands import Command
from fairlead.model.errors import Busy, TooMany
from fairlead.model.web.sockets import RunFlow, Write

SESSION = "11111111-1111-4111-8111-111111111111"
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
NAMES = sorted({name for kind in KINDS.values() for name in kind.__struct_fields__} | {"after", "log_id", "text"})
TYPES = st.sampled_from([*KINDS, "subscribe", "unsubscribe", "typing", "ping"])
FRAMES = st.fixed_dictionaries(
    {"type": TYPES | ANYTHING},
    optional={"id": ANYTHING, **{name: st.just(SESSION) | ANYTHING for name in NAMES}},
)


def answers(seen: list[Any]) -> list[Any]:
    return [line for line in seen if "does" not in line]


def test_every_command_has_a_frame() -> None:
    assert set(KINDS.values()) == set(get_args(Command))


@given(FRAMES)
def test_every_frame_is_answered_once_with_its_id(frame: dict[str, Any]) -> None:
    for dialogue in (ConversationDriver(), ConversationDriver(subprotocol=MSGPACK)):
        seen = dialogue.say(frame)
        replies = answers(seen)
        if replies:
            assert len(replies) == 1
            assert ("id" in replies[0]) == ("id" in frame)
            assert replies[0].get("id") == frame.get("id")
        else:
            assert [line["does"] for line in seen] == ["tell"]


@given(st.binary(max_size=200), st.booleans())
def test_bytes_of_any_kind_are_answered(data: bytes, text: bool) -> None:
    for dialogue in (ConversationDriver(), ConversationDriver(subprotocol=MSGPACK)):
        assert len(dialogue.raw(data, text)) >= 1


def test_a_deep_frame_is_a_bad_frame() -> None:
    assert ConversationDriver().say("[" * 200_000)[0]["code"] == "bad_frame"
    assert ConversationDriver(subprotocol=MSGPACK).say(b"\x91" * 200_000)[0]["code"] == "bad_frame"


def test_the_wrong_kind_of_frame_gets_an_error() -> None:
    assert "fairlead.v1.msgpack" in ConversationDriver().say(b"\x80")[0]["message"]
    assert ConversationDriver(subprotocol=MSGPACK).say("{}")[0]["code"] == "bad_frame"


def test_hello_contains_the_clients_identity() -> None:
    assert ConversationDriver("chat", "view").open() == [
        {
            "type": "hello",
            "protocol": "fairlead.v1",
            "version": "1.2.3",
            "you": {"credential": "c1", "user": "owner", "name": "Ann", "scopes": ["chat", "view"]},
        }
    ]


@pytest.mark.parametrize("scope", SCOPES)
def test_typing_needs_the_chat_scope(scope: Scope) -> None:
    seen = ConversationDriver(scope).say({"type": "typing", "session": SESSION})
    assert ("does" in seen[0]) == (scope in ("chat", "admin"))


def test_an_error_carries_its_data_and_a_throttled_frame_its_id() -> None:
    conversation = ConversationDriver().conversation
    typing = {"id": 1, "type": "typing", "session": SESSION}
    (run,) = conversation.received(msgspec.json.encode(typing), True)
    assert isinstance(run, RunFlow)
    next(run.flow)
    failed = run.flow.throw(Busy("Not now.", state="x"))
    (throttled,) = conversation.throttled(b'{"id":2,"type":"ping"}', True, TooMany("Slower."))
    (unreadable,) = conversation.throttled(b"{", True, TooMany("Slower."))
    errors = []
    for thing in (failed, throttled, unreadable):
        assert isinstance(thing, Write)
        errors.append(msgspec.json.decode(frames(thing.frames)[0][1]))
    assert errors == [
        {"type": "error", "id": 1, "code": "busy", "message": "Not now.", "data": {"state": "x"}},
        {"type": "error", "id": 2, "code": "too_many", "message": "Slower."},
        {"type": "error", "code": "too_many", "message": "Slower."},
    ]


def test_a_key_has_a_maximum_length() -> None:
    long = {"type": "interrupt", "session": SESSION, "key": "k" * (KEY_LENGTH + 1)}
    assert ConversationDriver().say(long)[0]["code"] == "bad_request"
    assert "does" in ConversationDriver().say({**long, "key": "k" * KEY_LENGTH})[0]
