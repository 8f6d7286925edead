"""permessage-deflate: negotiated only where an endpoint asks for it, bounded, and without context takeover."""

from __future__ import annotations

import tracemalloc
import zlib

import pytest
import websockets
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory, PerMessageDeflate

from fairlead.server.websocket.deflate import negotiate
from server.websocket.events import Fault, parse
from server.websocket.harness import RunningServer
from server.websocket.rawclient import RawClient, masked_frame

TEXT, BINARY, CONTINUATION, PING = 0x1, 0x2, 0x0, 0x9
COMPRESSED = 0x40
TAIL = b"\x00\x00\xff\xff"
OFFER = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n"
BOTH = b"permessage-deflate; server_no_context_takeover; client_no_context_takeover"


def deflated(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return (compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH))[:-4]


def inflated(data: bytes, bits: int = 15) -> bytes:
    return zlib.decompressobj(-bits).decompress(data + TAIL)


@pytest.mark.parametrize(
    ("offers", "answer"),
    [
        ([b"permessage-deflate"], BOTH),
        ([b"permessage-deflate; client_max_window_bits"], BOTH),
        ([b"x-other, permessage-deflate"], BOTH),
        ([b"x-other", b"permessage-deflate; server_no_context_takeover"], BOTH),
        ([b"permessage-deflate; unheard_of, permessage-deflate"], BOTH),
        ([b"permessage-deflate; server_max_window_bits=10"], BOTH + b"; server_max_window_bits=10"),
        ([b"permessage-deflate; server_max_window_bits=8"], None),  # not supported by zlib
        ([b"permessage-deflate; server_max_window_bits=99"], None),
        ([b"x-webkit-deflate-frame"], None),
        ([b"=;,"], None),
        ([], None),
    ],
)
def test_the_first_acceptable_offer_is_taken(offers: list[bytes], answer: bytes | None) -> None:
    agreed = negotiate(offers)
    assert (agreed.header if agreed else None) == answer


def test_a_smaller_window_is_kept() -> None:
    agreed = negotiate([b"permessage-deflate; server_max_window_bits=9"])
    assert agreed is not None
    data = bytes(range(256)) * 40
    frame = agreed.frame(data, binary=True)
    assert frame[0] == 0xC2
    assert inflated(frame[4:], 9) == data


def test_messages_are_compressed_both_ways(server: RunningServer) -> None:
    with RawClient(server.port, "/compressed", OFFER) as client:
        assert "permessage-deflate; server_no_context_takeover; client_no_context_takeover" in client.head
        for payload in (b"", b"hello " * 1000, b"hello " * 1000, "žluť".encode()):
            client.send(TEXT, deflated(payload), reserved=COMPRESSED)
            head, data = client.frame()
            assert (head, inflated(data)) == (0xC1, payload)
        client.send(BINARY, b"not compressed this time")
        head, data = client.frame()
        assert (head, inflated(data)) == (0xC2, b"not compressed this time")


def test_a_compressed_message_may_come_in_fragments(server: RunningServer) -> None:
    payload = "kůň ".encode() * 500
    data = deflated(payload)
    with RawClient(server.port, "/compressed", OFFER) as client:
        client.send(TEXT, data[:7], fin=False, reserved=COMPRESSED)
        client.send(PING, b"between")
        client.send(CONTINUATION, data[7:])
        assert client.frame() == (0x8A, b"between")
        head, answer = client.frame()
        assert (head, inflated(answer)) == (0xC1, payload)


def test_without_an_offer_the_answer_is_plain(server: RunningServer) -> None:
    with RawClient(server.port, "/compressed") as client:
        client.text(b"plain")
        assert client.frame() == (0x81, b"plain")


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (masked_frame(TEXT, deflated(bytes(9 << 20)), reserved=COMPRESSED), 1009),
        (masked_frame(TEXT, deflated(bytes(8 << 20)) + TAIL + deflated(b"x" * 9999), reserved=COMPRESSED), 1009),
        (
            masked_frame(TEXT, deflated(bytes(5 << 20)) + TAIL, fin=False, reserved=COMPRESSED)
            + masked_frame(CONTINUATION, deflated(bytes(5 << 20))),
            1009,
        ),
        (masked_frame(TEXT, b"\xff" * 20, reserved=COMPRESSED), 1002),
        (masked_frame(TEXT, deflated(b"\xff\xfe"), reserved=COMPRESSED), 1007),
        (masked_frame(PING, b"", reserved=COMPRESSED), 1002),
        (masked_frame(TEXT, b"x", reserved=0x60), 1002),
        (masked_frame(TEXT, b"", fin=False) + masked_frame(CONTINUATION, b"", reserved=COMPRESSED), 1002),
    ],
    ids=[
        "bomb", "bomb behind the limit", "bomb in fragments", "damaged", "no utf-8", "compressed ping",
        "another reserved bit", "compressed continuation",
    ],
)  # fmt: skip
def test_a_bad_compressed_message_is_answered_with_its_code(server: RunningServer, data: bytes, code: int) -> None:
    with RawClient(server.port, "/compressed", OFFER) as client:
        client.raw(data)
        assert client.close_code() == code
        assert client.at_eof()


def test_compression_bomb_is_not_inflated_beyond_the_limit() -> None:
    bomb = masked_frame(BINARY, deflated(bytes(64 << 20)), reserved=COMPRESSED)
    tracemalloc.start()
    try:
        events = parse([bomb], max_message=1 << 20, inflate=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert events == [Fault(1009)]
    assert peak < 4 << 20


async def test_the_websockets_client_agrees(server: RunningServer) -> None:
    url = f"ws://127.0.0.1:{server.port}/compressed"
    factory = ClientPerMessageDeflateFactory(server_max_window_bits=11, client_max_window_bits=True)
    async with websockets.connect(url, compression=None, extensions=[factory]) as client:
        assert [type(extension) for extension in client.protocol.extensions] == [PerMessageDeflate]
        for message in ("x" * 500_000, "y", b"z" * 70_000):
            await client.send(message)
            assert await client.recv() == message
