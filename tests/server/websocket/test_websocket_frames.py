"""Frames as bytes: which are built, which are refused, and how much a hostile peer can make the parser keep."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.formats.frames import binary_frame, split_frames, text_frame
from fairlead.server.websocket.errors import FrameError
from fairlead.server.websocket.frames import close_frame, ping_frame, pong_frame
from fairlead.server.websocket.parser import FrameParser
from server.websocket.events import Collector, Message, PeerClose, Ping, parse
from server.websocket.rawclient import masked_frame


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (text_frame(b"Hello"), "810548656c6c6f"),  # the RFC's own example
        (binary_frame(b""), "8200"),
        (ping_frame(b"Hello"), "890548656c6c6f"),
        (pong_frame(b"Hello"), "8a0548656c6c6f"),
        (close_frame(1000), "880203e8"),
        (close_frame(4000, "é"), "88040fa0c3a9"),
    ],
)
def test_a_frame_has_the_bytes_of_the_rfc(frame: bytes, expected: str) -> None:
    assert frame.hex() == expected


@pytest.mark.parametrize(
    ("size", "head"),
    [(125, "827d"), (126, "827e007e"), (65535, "827effff"), (65536, "827f0000000000010000")],
)
def test_the_length_takes_as_few_bytes_as_it_can(size: int, head: str) -> None:
    assert binary_frame(bytes(size)) == bytes.fromhex(head) + bytes(size)


@pytest.mark.parametrize("code", [0, 999, 1004, 1006, 1015, 2999, 5000])
def test_a_code_that_may_not_be_sent_is_refused(code: int) -> None:
    with pytest.raises(ValueError, match=str(code)):
        close_frame(code)


def test_a_close_without_a_code_has_no_payload() -> None:
    assert close_frame(1005, "never said") == b"\x88\x00"


def test_a_long_reason_is_cut_between_characters() -> None:
    payload = close_frame(1000, "x" + "é" * 100)[2:]
    assert len(payload) <= 125
    assert payload[2:].decode() == "x" + "é" * 61


def test_a_long_ping_is_refused() -> None:
    with pytest.raises(ValueError, match="125"):
        ping_frame(b"x" * 126)


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=300)), max_size=5))
def test_joined_frames_can_be_split_again(messages: list[tuple[bool, bytes]]) -> None:
    joined = b"".join(text_frame(data) if text else binary_frame(data) for text, data in messages)
    assert list(split_frames(joined)) == [(0x81 if text else 0x82, data) for text, data in messages]


@pytest.mark.parametrize("data", [b"\x81", b"\x81\x05abc", b"\x81\x7e\x00"])
def test_half_a_frame_cannot_be_split(data: bytes) -> None:
    with pytest.raises(ValueError, match="whole unmasked frames"):
        list(split_frames(data))


def test_events_come_in_the_order_of_the_bytes() -> None:
    data = (
        masked_frame(1, b"a", fin=False)
        + masked_frame(9, b"p")
        + masked_frame(0, b"b")
        + masked_frame(2, b"c")
        + masked_frame(8, b"\x03\xe8")
        + masked_frame(1, b"late")
    )
    assert parse([data], max_message=100) == [
        Ping(b"p"), Message(b"ab", True), Message(b"c", False), PeerClose(1000)
    ]  # fmt: skip


def test_limit_applies_to_each_message_separately() -> None:
    fragmented = masked_frame(1, b"x" * 60, fin=False) + masked_frame(0, b"x" * 40)
    assert parse([fragmented * 3], max_message=100) == [Message(b"x" * 100, True)] * 3


def test_a_message_is_refused_by_its_head_before_its_bytes_come() -> None:
    collector = Collector()
    parser = FrameParser(collector.deliver, collector, max_message=100)
    with pytest.raises(FrameError, match="may have 100 bytes") as caught:
        parser.feed(masked_frame(1, declared=101)[:4])
    assert caught.value.code == 1009


def test_empty_fragments_take_no_memory() -> None:
    collector = Collector()
    parser = FrameParser(collector.deliver, collector, max_message=100)
    parser.feed(masked_frame(1, b"", fin=False))
    empty = masked_frame(0, b"", fin=False) * 1000
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(20):
            parser.feed(empty)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Twenty thousand of the smallest objects would take far more; the tracer and other threads take a little.
    assert after - before < 64 << 10


def test_a_receiver_can_be_replaced_between_two_messages_of_a_read() -> None:
    collector = Collector()
    taken: list[bytes] = []
    parser = FrameParser(collector.deliver, collector)

    def once(data: bytes, text: bool) -> None:
        taken.append(data)
        parser.deliver = collector.deliver

    parser.deliver = once
    parser.feed(masked_frame(1, b"one") + masked_frame(1, b"two"))
    assert taken == [b"one"]
    assert collector.events == [Message(b"two", True)]
