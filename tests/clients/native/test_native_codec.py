"""The two encodings: stored events with their position in front, and the same in MessagePack."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from clients.native.conversation_driver import frames
from fairlead.clients.native.codec import CODECS, JSON, MSGPACK, Codec
from fairlead.model import events as ev
from fairlead.model.formats.frames import binary_frame, text_frame
from fairlead.model.gateway import FrameEncoder
from fairlead.model.ids import CallId, EventId, MessageId, SessionId
from fairlead.model.store import Entry

SESSION = SessionId("11111111-1111-4111-8111-111111111111")


def entry(event: ev.Event, seq: int = 5, prev: int = 3) -> Entry:
    return Entry(seq, prev, event.at, ev.kind_of(event), ev.encode(event))


def read(data: bytes) -> Any:
    ((text, payload),) = frames(data)
    return (msgspec.json if text else msgspec.msgpack).decode(payload)


def test_the_stored_bytes_are_sent_unchanged_after_their_position() -> None:
    stored = entry(ev.TurnStarted(id=EventId("e"), at=1))
    ((text, payload),) = frames(Codec().encode(SESSION, stored))
    assert text
    assert payload == b'{"seq":5,"prev":3,"session":"%s",%s' % (SESSION.encode(), stored.event[1:])


@given(st.text(), st.integers(1, 2**53), st.dictionaries(st.text(), st.integers() | st.text() | st.none(), max_size=5))
def test_both_encodings_have_the_same_content(text: str, seq: int, given: dict[str, Any]) -> None:
    event = ev.ToolCalled(
        id=EventId(text), at=seq, call=CallId("c"), name=text, input=given, message=MessageId("m"), block=0
    )
    one = read(Codec().encode(SESSION, entry(event, seq)))
    other = read(Codec(packed=True).encode(SESSION, entry(event, seq)))
    numbers_fit = all(not isinstance(value, int) or -(2**63) <= value < 2**64 for value in given.values())
    if numbers_fit:
        assert one == other
    assert one.keys() == other.keys()
    assert (one["seq"], one["prev"], one["session"]) == (seq, 3, SESSION)


def test_numbers_that_messagepack_cannot_encode_are_approximated() -> None:
    stored = Entry(1, 0, 0, "x", b'{"type":"x","big":%d,"huge":[%d]}' % (2**70, 10**400))
    decoded = read(Codec(packed=True).encode(SESSION, stored))
    assert decoded["big"] == float(2**70)
    assert decoded["huge"] == [str(10**400)]


def test_a_signal_has_a_kind_a_name_and_optional_data() -> None:
    for codec in (Codec(), Codec(packed=True)):
        assert read(codec.signal(SESSION, "presence", "Ann", ["Ann", "Bob"])) == {
            "type": "presence",
            "session": SESSION,
            "name": "Ann",
            "data": ["Ann", "Bob"],
        }
        assert "data" not in read(codec.signal(SESSION, "typing", "Ann", None))


def test_each_encoding_is_one_encoder() -> None:
    variants: list[FrameEncoder] = list(CODECS.values())
    assert len(set(variants)) == 2
    assert list(CODECS) == [JSON, MSGPACK]


@given(st.sampled_from([0, 1, 125, 126, 127, 65535, 65536, 70000]))
def test_frames_of_every_length_are_read_back(length: int) -> None:
    payload = b"x" * length
    assert frames(text_frame(payload)) == [(True, payload)]
    assert frames(binary_frame(payload) + text_frame(b"end")) == [(False, payload), (True, b"end")]
