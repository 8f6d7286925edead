"""What any WebSocket client may expect of a server, over real sockets."""

from __future__ import annotations

import http.client
import struct

import pytest
import websockets

from server.websocket.harness import MEBIBYTE, RunningServer
from server.websocket.rawclient import RawClient, big_frame, masked_frame, wait_until

TEXT, BINARY, CONTINUATION, CLOSE, PING, PONG = 0x1, 0x2, 0x0, 0x8, 0x9, 0xA
DEFLATE_OFFER = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n"


def get(server: RunningServer, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", path)
    response = connection.getresponse()
    answer = response.status, response.read()
    connection.close()
    return answer


def test_http_is_served_on_the_same_port(server: RunningServer) -> None:
    assert get(server, "/hello") == (200, b"hello")
    assert get(server, "/nothing")[0] == 404


def test_the_handshake_is_answered_with_the_rfcs_own_example(server: RunningServer) -> None:
    with RawClient(server.port, "/echo", key="dGhlIHNhbXBsZSBub25jZQ==") as client:
        assert client.status == 101
        assert "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=" in client.head
        assert "server: uvicorn" in client.head


@pytest.mark.parametrize(
    ("opcode", "payload"),
    [
        (TEXT, b"hi"),
        (TEXT, b""),
        (TEXT, "žluť 🐎".encode()),
        (TEXT, b"a" * 125),
        (TEXT, b"a" * 126),
        (TEXT, b"a" * 65535),
        (TEXT, b"a" * 65536),
        (BINARY, b"\x00\xff" * 10),
        (BINARY, b""),
    ],
    ids=lambda value: f"{len(value)} bytes" if isinstance(value, bytes) else str(value),
)
def test_message_is_echoed(server: RunningServer, opcode: int, payload: bytes) -> None:
    with RawClient(server.port, "/echo") as client:
        client.send(opcode, payload)
        assert client.frame() == (0x80 | opcode, payload)


def test_a_message_of_exactly_the_limit_is_accepted(server: RunningServer) -> None:
    with RawClient(server.port, "/echo") as client:
        client.raw(big_frame(BINARY, MEBIBYTE))
        assert client.frame() == (0x82, bytes(MEBIBYTE))


def test_a_ping_is_answered_inside_a_fragmented_message(server: RunningServer) -> None:
    with RawClient(server.port, "/echo") as client:
        client.send(TEXT, b"foo", fin=False)
        client.send(PING, b"pp")
        client.send(CONTINUATION, b"bar", fin=False)
        client.send(CONTINUATION, b"baz")
        assert client.frame() == (0x8A, b"pp")
        assert client.frame() == (0x81, b"foobarbaz")


def test_utf_8_may_be_cut_by_fragments(server: RunningServer) -> None:
    horse = "🐎".encode()
    with RawClient(server.port, "/echo") as client:
        client.send(TEXT, horse[:1], fin=False)
        client.send(CONTINUATION, horse[1:])
        assert client.frame() == (0x81, horse)


def test_bytes_may_come_one_by_one(server: RunningServer) -> None:
    with RawClient(server.port, "/echo") as client:
        for byte in masked_frame(TEXT, b"one" * 50) + masked_frame(TEXT, b"two"):
            client.raw(bytes([byte]))
        assert [client.frame(), client.frame()] == [(0x81, b"one" * 50), (0x81, b"two")]


def test_500_messages_in_one_write_keep_their_order(server: RunningServer) -> None:
    messages = [b"%d" % number for number in range(500)]
    with RawClient(server.port, "/echo") as client:
        client.raw(b"".join(masked_frame(TEXT, message) for message in messages))
        assert [client.frame()[1] for _ in messages] == messages


def test_unsolicited_pong_is_ignored(server: RunningServer) -> None:
    with RawClient(server.port, "/echo") as client:
        client.send(PONG, b"unasked")
        client.text(b"after")
        assert client.frame() == (0x81, b"after")


@pytest.mark.parametrize("code", [1000, 1001, 3000, 4001, 4999])
def test_the_peers_close_is_echoed_then_the_socket_ends(server: RunningServer, code: int) -> None:
    with RawClient(server.port, "/echo") as client:
        client.send(CLOSE, struct.pack("!H", code) + b"done")
        assert client.close_code() == code
        assert client.at_eof()
    wait_until(lambda: ("echo", code) in server.hub.closes, "on_close with the peer's code")


def test_a_close_without_a_code_is_echoed_without_one(server: RunningServer) -> None:
    with RawClient(server.port, "/echo") as client:
        client.send(CLOSE)
        assert client.close_code() == 1005
        assert client.at_eof()
    wait_until(lambda: ("echo", 1005) in server.hub.closes, "on_close without a code")


def test_a_vanished_peer_is_reported(server: RunningServer) -> None:
    server.end_of_connections()
    server.hub.closes.clear()
    with RawClient(server.port, "/echo") as client:
        client.text(b"x")
        client.frame()
    wait_until(lambda: bool(server.hub.closes), "on_close")
    assert server.hub.closes == [("echo", 1006)]


def test_the_server_closes_with_code_and_reason(server: RunningServer) -> None:
    with RawClient(server.port, "/kick") as client:
        client.text(b"4003")
        assert client.frame() == (0x88, struct.pack("!H", 4003) + b"bye")
        client.send(CLOSE, struct.pack("!H", 4003))
        assert client.at_eof()
    wait_until(lambda: ("kick", 4003) in server.hub.closes, "on_close with our code")


def test_nothing_is_delivered_after_the_server_closed(server: RunningServer) -> None:
    before = server.hub.seen["kick message"]
    with RawClient(server.port, "/kick") as client:
        client.raw(b"".join(masked_frame(TEXT, b"4000") for _ in range(5)))
        assert client.close_code() == 4000
        client.raw(masked_frame(TEXT, b"4000") + masked_frame(CLOSE, struct.pack("!H", 4000)))
        assert client.at_eof()
    assert server.hub.seen["kick message"] == before + 1


@pytest.mark.parametrize("where", ["open", "message", "batch"])
def test_a_failing_endpoint_closes_with_1011(server: RunningServer, where: str) -> None:
    with RawClient(server.port, f"/boom/{where}") as client:
        client.text(b"x")
        assert client.close_code() == 1011
    wait_until(lambda: ("boom", 1011) in server.hub.closes, "on_close")
    server.hub.closes.clear()


def test_an_endpoint_that_fails_on_close_ends_like_any_other(server: RunningServer) -> None:
    with RawClient(server.port, "/boom/close") as client:
        assert client.leave() == 1000
        assert client.at_eof()
    wait_until(lambda: server.connections == 0, "the end of the connection")


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (masked_frame(TEXT, b"hi", mask=False), 1002),
        (masked_frame(TEXT, b"hi", reserved=0x40), 1002),
        (masked_frame(TEXT, b"hi", reserved=0x20), 1002),
        (masked_frame(BINARY, b"hi", reserved=0x10), 1002),
        (masked_frame(0x3, b"hi"), 1002),
        (masked_frame(0xB, b"hi"), 1002),
        (masked_frame(CONTINUATION, b"hi"), 1002),
        (masked_frame(TEXT, b"a", fin=False) + masked_frame(TEXT, b"b"), 1002),
        (masked_frame(PING, b"x" * 126), 1002),
        (masked_frame(PING, b"x", fin=False), 1002),
        (masked_frame(CLOSE, b"x"), 1002),
        (masked_frame(CLOSE, struct.pack("!H", 1005)), 1002),
        (masked_frame(CLOSE, struct.pack("!H", 1006)), 1002),
        (masked_frame(CLOSE, struct.pack("!H", 2999)), 1002),
        (masked_frame(CLOSE, struct.pack("!H", 1000) + b"\xff"), 1007),
        (masked_frame(TEXT, b"\xff\xfe\xfd"), 1007),
        (masked_frame(TEXT, "🐎".encode()[:3]), 1007),
        (masked_frame(TEXT, b"ok", fin=False) + masked_frame(CONTINUATION, b"\xff"), 1007),
        (masked_frame(TEXT, declared=MEBIBYTE + 1), 1009),
        (masked_frame(TEXT, declared=(1 << 63) + 5), 1009),
        (big_frame(BINARY, 600_000, fin=False) + masked_frame(CONTINUATION, declared=600_000), 1009),
    ],
    ids=[
        "unmasked", "rsv1", "rsv2", "rsv3", "opcode 3", "opcode 11", "stray continuation", "text in fragments",
        "long ping", "fragmented ping", "a close code of one byte", "close 1005", "close 1006", "close 2999",
        "close reason no utf-8", "no utf-8", "utf-8 cut", "no utf-8 in fragments", "too big", "2^63 bytes",
        "too big in fragments",
    ],
)  # fmt: skip
def test_a_fault_is_answered_with_its_code(server: RunningServer, data: bytes, code: int) -> None:
    with RawClient(server.port, "/echo") as client:
        client.raw(data)
        assert client.close_code() == code
        assert client.at_eof()


@pytest.mark.parametrize(
    ("path", "headers", "status", "body"),
    [
        ("/secret", "", 401, b"who are you\n"),
        ("/secret", "Authorization: x\r\n", 403, b"not you\n"),
        ("/denial-stream", "", 418, b"abc"),
    ],
)
def test_a_denial_response_is_plain_http(
    server: RunningServer, path: str, headers: str, status: int, body: bytes
) -> None:
    with RawClient(server.port, path, headers) as client:
        assert client.status == status
        assert client.body() == body


@pytest.mark.parametrize(
    ("path", "status"), [("/closed-before-accept", 403), ("/nothing", 403), ("/forgetful", 500), ("/broken", 500)]
)
def test_an_application_that_does_not_accept_refuses(server: RunningServer, path: str, status: int) -> None:
    with RawClient(server.port, path) as client:
        assert client.status == status
        client.body()


def test_an_offered_subprotocol_is_chosen(server: RunningServer) -> None:
    with RawClient(server.port, "/echo", "Sec-WebSocket-Protocol: foo, gw.v1\r\n") as client:
        assert "sec-websocket-protocol: gw.v1" in client.head


def test_two_subprotocol_headers_are_one_list(server: RunningServer) -> None:
    offer = "Sec-WebSocket-Protocol: foo\r\nSec-WebSocket-Protocol: gw.v1\r\n"
    with RawClient(server.port, "/echo", offer) as client:
        assert "sec-websocket-protocol: gw.v1" in client.head


def test_an_unknown_subprotocol_is_not_echoed(server: RunningServer) -> None:
    with RawClient(server.port, "/echo", "Sec-WebSocket-Protocol: foo\r\n") as client:
        assert client.status == 101
        assert "sec-websocket-protocol" not in client.head


def test_compression_is_declined_unless_the_endpoint_asks(server: RunningServer) -> None:
    with RawClient(server.port, "/echo", DEFLATE_OFFER) as client:
        assert client.status == 101
        assert "permessage" not in client.head


def test_another_version_is_refused_naming_ours(server: RunningServer) -> None:
    with RawClient(server.port, "/echo", version="8") as client:
        assert client.status == 426
        assert "sec-websocket-version: 13" in client.head


@pytest.mark.parametrize("key", ["short", "", "not base64 at all!!", "a" * 24])
def test_a_bad_key_is_refused(server: RunningServer, key: str) -> None:
    with RawClient(server.port, "/echo", key=key) as client:
        assert client.status == 400


def test_a_long_request_head_is_taken(server: RunningServer) -> None:
    with RawClient(server.port, "/echo", "Cookie: " + "c" * 6000 + "\r\n") as client:
        client.text(b"q")
        assert client.frame() == (0x81, b"q")


def test_a_message_goes_to_every_subscriber(server: RunningServer) -> None:
    with (
        RawClient(server.port, "/sub/all") as first,
        RawClient(server.port, "/sub/all") as second,
        RawClient(server.port, "/pub/all") as publisher,
    ):
        wait_until(lambda: len(server.hub.subscribers.get("all", ())) == 2, "two subscribers")
        publisher.raw(masked_frame(TEXT, b"one") + masked_frame(TEXT, b"two") + masked_frame(PING, b"z"))
        for client in (first, second):
            assert [client.frame(), client.frame()] == [(0x81, b"one"), (0x81, b"two")]
    wait_until(lambda: not server.hub.subscribers["all"], "subscribers leaving with their sockets")


def test_messages_before_a_fault_are_passed_on(server: RunningServer) -> None:
    with RawClient(server.port, "/sub/fault") as reader, RawClient(server.port, "/pub/fault") as publisher:
        wait_until(lambda: len(server.hub.subscribers.get("fault", ())) == 1, "the subscriber")
        publisher.raw(masked_frame(TEXT, b"good") + masked_frame(0x3, b"bad"))
        assert reader.frame() == (0x81, b"good")
        assert publisher.close_code() == 1002


def test_a_sender_that_waits_for_the_drain_delivers_everything(server: RunningServer) -> None:
    with RawClient(server.port, "/flood", receive_buffer=4096) as client:
        assert [len(client.frame()[1]) for _ in range(8)] == [MEBIBYTE] * 8
        assert client.frame() == (0x81, b"done")
    assert server.hub.seen["flood drain"] > 0


def test_a_paused_connection_is_not_read_until_it_is_resumed(server: RunningServer) -> None:
    with RawClient(server.port, "/valve") as client, RawClient(server.port, "/valve") as opener:
        client.text(b"first")
        assert client.frame() == (0x81, b"seen")
        seen = server.hub.seen["valve message"]
        client.text(b"second")
        opener.text(b"open")
        opener.frame()
        assert client.frame() == (0x81, b"seen")
        assert server.hub.seen["valve message"] == seen + 2


def test_an_application_that_fails_after_accepting_closes(server: RunningServer) -> None:
    with RawClient(server.port, "/broken-later") as client:
        assert client.close_code() == 1011


async def test_the_websockets_client_is_served(server: RunningServer) -> None:
    url = f"ws://127.0.0.1:{server.port}/echo"
    async with websockets.connect(url, subprotocols=[websockets.Subprotocol("gw.v1")]) as client:
        await client.send("x" * 100_000)
        assert await client.recv() == "x" * 100_000
        await (await client.ping())
        assert client.subprotocol == "gw.v1"
