"""Limits on a hostile peer: buffers, waits and floods are bounded, and other peers are not affected."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from fairlead.server.websocket.protocol import MAX_EARLY_BYTES, WebSocketDriver
from server.websocket.harness import SMALL, RunningServer
from server.websocket.rawclient import RawClient, big_frame, masked_frame, wait_until

TEXT, BINARY, CLOSE, PING = 0x1, 0x2, 0x8, 0x9
LARGEST_READ = 256 * 1024
"""The bytes that asyncio and uvloop read from a socket at once."""


@pytest.fixture(params=["uvloop", "asyncio"])
def hasty(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    """A server that waits a tenth of a second for a close to complete."""
    running = RunningServer(request.param, close_timeout=0.1)
    yield running
    running.stop()


def flood_until_closed(server: RunningServer, topic: str, name: str) -> tuple[RawClient, list[bytes]]:
    """Publish until the one subscriber that reads nothing is closed; the other must get every message."""
    messages: list[bytes] = []
    slow = RawClient(server.port, f"/sub/{topic}", receive_buffer=4096)
    with RawClient(server.port, f"/sub/{topic}") as good, RawClient(server.port, f"/pub/{topic}") as publisher:
        wait_until(lambda: len(server.hub.subscribers.get(topic, ())) == 2, "two subscribers")
        members = [member for member in server.hub.subscribers[topic] if isinstance(member, WebSocketDriver)]
        while all(member._open for member in members):
            message = b"%08d" % len(messages) + b"m" * 100_000
            publisher.text(message)
            assert good.frame() == (0x81, message)
            messages.append(message)
            assert len(messages) < 1000, "the slow consumer was never closed"
        for member in members:
            assert member.backlog() <= SMALL.max_write_buffer + 200_000
        publisher.text(b"after")
        assert good.frame() == (0x81, b"after")
    return slow, messages


def send_until_cut(client: RawClient, data: bytes) -> bool:
    """Send the same data repeatedly; False if the server accepts all of it."""
    try:
        for _ in range(100_000):
            client.raw(data)
    except (ConnectionResetError, BrokenPipeError):
        return True
    return False


def test_slow_consumer_gets_1013_and_the_others_get_everything(server: RunningServer) -> None:
    slow, messages = flood_until_closed(server, "slow", "subscriber")
    with slow:
        received = []
        while True:
            head, payload = slow.frame()
            if head == 0x88:
                break
            received.append(payload)
        assert payload[:2] == struct.pack("!H", 1013)
        assert received == messages[: len(received)]
        slow.send(CLOSE, payload[:2])
        assert slow.at_eof()
    wait_until(lambda: ("subscriber", 1013) in server.hub.closes, "on_close with 1013")
    server.hub.closes.clear()


def test_a_consumer_that_never_reads_is_cut_off(hasty: RunningServer) -> None:
    slow, _ = flood_until_closed(hasty, "stuck", "subscriber")
    with slow:
        wait_until(lambda: ("subscriber", 1013) in hasty.hub.closes, "on_close with 1013")
        wait_until(lambda: hasty.connections == 0, "the end of the connection")


def test_a_peer_that_asks_for_pongs_but_does_not_read_them_is_closed(hasty: RunningServer) -> None:
    with RawClient(hasty.port, "/echo", receive_buffer=4096) as client:
        pings = masked_frame(PING, b"p" * 125) * 2000
        assert send_until_cut(client, pings)
    wait_until(lambda: ("echo", 1013) in hasty.hub.closes, "on_close with 1013")


def test_a_peer_that_does_not_answer_a_close_is_cut_off(hasty: RunningServer) -> None:
    with RawClient(hasty.port, "/kick") as client:
        client.text(b"4000")
        assert client.close_code() == 4000
        assert client.at_eof()
    wait_until(lambda: ("kick", 4000) in hasty.hub.closes, "on_close with our code")


def test_a_peer_that_breaks_the_protocol_and_goes_on_sending_is_cut_off(hasty: RunningServer) -> None:
    with RawClient(hasty.port, "/echo") as client:
        client.raw(masked_frame(0x3, b"bad"))
        assert client.close_code() == 1002
        assert send_until_cut(client, bytes(65536))


def send_until_blocked(client: RawClient, data: bytes) -> int:
    """The number of bytes of `data` that can be sent while the other end does not read."""
    sent = 0
    client.socket.settimeout(0.2)
    try:
        while sent < len(data):
            sent += client.socket.send(data[sent : sent + 65536])
    except TimeoutError:
        pass
    client.socket.settimeout(10)
    return sent


def test_bytes_before_the_endpoint_are_bounded_and_none_is_lost(server: RunningServer) -> None:
    messages = [b"%06d" % number + b"e" * 50_000 for number in range(400)]
    data = b"".join(masked_frame(TEXT, message, key=b"abcd") for message in messages)
    with RawClient(server.port, "/late") as client:
        sent = send_until_blocked(client, data)
        assert sent < len(data)
        (driver,) = server.drivers()
        assert len(driver._early) <= MAX_EARLY_BYTES + LARGEST_READ
        server.hub.open_gate("late")
        first = client.frame()
        assert first == (0x81, messages[0])
        # From here on data flows in both directions: send the rest in steps, so that neither side fills up.
        received = [first[1]]
        while len(received) < len(messages):
            sent += client.socket.send(data[sent : sent + 50_000]) if sent < len(data) else 0
            received.append(client.frame()[1])
        assert received == messages
        assert client.leave() == 1000
    wait_until(lambda: ("late returned", 1000) in server.hub.closes, "the code that run() returns")


def test_a_flood_before_the_handshake_is_answered_is_cut_off(server: RunningServer) -> None:
    with RawClient(server.port, "/undecided", wait=False) as client:
        wait_until(lambda: "undecided" in server.hub.gates, "the application")
        assert send_until_cut(client, big_frame(BINARY, 65536))
    server.hub.open_gate("undecided")
    wait_until(lambda: server.connections == 0, "the end of the connection")


def test_a_peer_that_leaves_before_the_endpoint_is_attached_ends_run_at_once(server: RunningServer) -> None:
    with RawClient(server.port, "/late"):
        wait_until(lambda: "late" in server.hub.gates, "the application")
    wait_until(lambda: server.connections == 0, "the end of the connection")
    opened = server.hub.seen["echo open"]
    server.hub.open_gate("late")
    wait_until(lambda: ("late returned", 1006) in server.hub.closes, "run() returning")
    assert server.hub.seen["echo open"] == opened


def test_a_close_sent_before_the_endpoint_is_attached_is_answered(server: RunningServer) -> None:
    with RawClient(server.port, "/late") as client:
        client.text(b"early")
        client.send(CLOSE, struct.pack("!H", 4005))
        server.hub.open_gate("late")
        assert client.frame() == (0x81, b"early")
        assert client.close_code() == 4005
    wait_until(lambda: ("late returned", 4005) in server.hub.closes, "the code that run() returns")


def test_cancelled_application_closes_its_connection(server: RunningServer) -> None:
    server.end_of_connections()
    server.hub.closes.clear()
    with RawClient(server.port, "/echo") as client:
        client.text(b"x")
        client.frame()
        (driver,) = server.drivers()
        (task,) = server.server.server_state.tasks
        driver._loop.call_soon_threadsafe(task.cancel)
        assert client.at_eof()
    wait_until(lambda: server.hub.closes == [("echo", 1006)], "on_close")


def test_calls_out_of_order_are_refused(server: RunningServer) -> None:
    names = ["run before accept", "send before accept", "configure after accept", "run twice"]
    server.hub.seen.clear()
    with RawClient(server.port, "/impolite") as client:
        client.text(b"x")
        assert client.frame() == (0x81, b"x")
        assert client.leave() == 1000
    assert {name: server.hub.seen[name] for name in names} == dict.fromkeys(names, 1)
