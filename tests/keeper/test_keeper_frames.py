"""The frames and messages between a gateway and its keeper: what is packed is unpacked, and nonsense is refused."""

import contextlib
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.keeper import messages as say
from fairlead.keeper.frames import HEADER, MAX_PAYLOAD, Frame, FrameDecoder, MalformedFrame, encode

SPAWN = say.SpawnRequest(1, ["python"], ["cat", "\udcff"], {"A": "b"}, "/", {"session": "s"}, [80, 24], 3600.0, [1, 2])
MESSAGES: list[say.Message] = [
    say.Hello(),
    SPAWN,
    say.Attach(1, 5),
    say.Detach(1),
    say.Taken(1, 1 << 40),
    say.Ack(1, 7, None),
    say.Ack(1, 7, b""),
    say.Ack(1, 7, b"\x00memo"),
    say.WriteInput(1, 4, "answer:ü", b"\x00\n"),
    say.WriteInput(1, 4, "", b""),
    say.OfferInput(1, b"\xff"),
    say.CloseInput(1),
    say.Resize(1, 80, 24),
    say.StopProcess(1, 5, 3.5, 0.0),
    say.Forget(1),
    say.Quit(),
    say.Kept(1, 0, 4711, "boot/1", {"a": [1]}, 3, None, ["k"], "", None, [0, False]),
    say.Listed(),
    say.SpawnFailed(1, 2, "No such file", "/x"),
    say.Output(1, 1 << 40, b"line\n"),
    say.OutputEnd(1, 9),
    say.Wrote(1, 4, True),
    say.Stderr(1, b"oops"),
    say.Exited(1, -9, False),
    say.Unkillable(1),
    say.AttachRefused(1, 2),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_message_survives_its_frame(message: say.Message) -> None:
    (frame,) = FrameDecoder().feed(say.pack(message))
    found = say.unpack(frame)
    assert found == message and type(found) is type(message)


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(0, 9), st.binary(max_size=40))), st.data())
def test_frames_are_the_same_however_the_bytes_are_cut(sent: list[tuple[int, int, bytes]], data: st.DataObject) -> None:
    stream = b"".join(encode(kind, process, payload) for kind, process, payload in sent)
    decoder = FrameDecoder()
    found: list[Frame] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += decoder.feed(stream[:size])
        stream = stream[size:]
    assert found == [Frame(*each) for each in sent]


def test_too_large_frame_is_refused_before_its_payload_arrives() -> None:
    with pytest.raises(MalformedFrame):
        list(FrameDecoder().feed(HEADER.pack(MAX_PAYLOAD + 1, 1, 0)))


def test_largest_frame_is_accepted() -> None:
    assert list(FrameDecoder(limit=5).feed(encode(1, 2, b"12345"))) == [Frame(1, 2, b"12345")]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(say.Kept._fields), inner, max_size=9),
)


@given(st.integers(0, 80), st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_payload_is_a_message_or_refused(kind: int, payload: bytes) -> None:
    with contextlib.suppress(MalformedFrame):
        say.unpack(Frame(kind, 1, payload))


@pytest.mark.parametrize(
    ("message", "field", "value"),
    [
        (SPAWN, "argv", "cat"),
        (SPAWN, "env", ["A=b"]),
        (SPAWN, "orphan_s", math.nan),
        (SPAWN, "orphan_s", math.inf),
        (SPAWN, "orphan_s", 10**400),
        (SPAWN, "orphan_s", -1),
        (SPAWN, "more", 1),
        (say.Attach(1, 5), "offset", 1.5),
        (say.Attach(1, 5), "offset", None),
        (say.StopProcess(1, 5, 3, 0), "kill", math.nan),
    ],
)
def test_field_of_another_type_or_range_is_refused(message: Any, field: str, value: object) -> None:
    (frame,) = FrameDecoder().feed(say.pack(message))
    payload = json.dumps({**json.loads(frame.payload), field: value}).encode()
    with pytest.raises(MalformedFrame):
        say.unpack(frame._replace(payload=payload))


def test_deeply_nested_payload_is_refused() -> None:
    with pytest.raises(MalformedFrame):
        say.unpack(Frame(1, 0, b"[" * 100_000))


def test_what_the_keeper_would_refuse_is_not_sent() -> None:
    for message in (
        say.WriteInput(1, 1, "k" * (say.MAX_KEY + 1), b""),
        say.WriteInput(1, 1, "k", bytes(MAX_PAYLOAD)),
        say.Ack(1, 1, bytes(say.MAX_MEMO + 1)),
        SPAWN._replace(tag={"long": "x" * say.MAX_SPAWN}),
    ):
        with pytest.raises(ValueError):
            say.pack(message)
