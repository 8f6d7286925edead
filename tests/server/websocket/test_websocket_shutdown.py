"""A stopping server closes all connections, and does not wait for peers that do not respond."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from server.websocket.harness import RunningServer
from server.websocket.rawclient import RawClient, wait_until

CLOSE = 0x8


@pytest.fixture(params=["uvloop", "asyncio"])
def stopping(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    running = RunningServer(request.param, close_timeout=0.2, timeout_graceful_shutdown=5)
    yield running
    running.stop()


def test_open_connections_are_closed_with_1012(stopping: RunningServer) -> None:
    with RawClient(stopping.port, "/echo") as first, RawClient(stopping.port, "/kick") as second:
        first.text(b"x")
        first.frame()
        stopping.begin_stop()
        for client in (first, second):
            assert client.close_code() == 1012
            client.send(CLOSE, struct.pack("!H", 1012))
            assert client.at_eof()
    stopping.stop()
    assert ("echo", 1012) in stopping.hub.closes
    assert ("kick", 1012) in stopping.hub.closes


def test_client_that_does_not_read_does_not_delay_the_stop(stopping: RunningServer) -> None:
    with RawClient(stopping.port, "/echo") as client:
        client.text(b"x")
        client.frame()
        stopping.stop()


def test_paused_connection_does_not_delay_the_stop(stopping: RunningServer) -> None:
    with RawClient(stopping.port, "/valve") as client:
        client.text(b"stop")
        client.frame()
        stopping.stop()
        assert client.close_code() == 1012


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_close_reply_on_a_paused_connection_is_read(loop: str) -> None:
    # The close timeout is an hour: only reading the peer's close ends the connection.
    server = RunningServer(loop, close_timeout=3600, timeout_graceful_shutdown=20)
    with RawClient(server.port, "/valve") as client:
        client.text(b"stop")
        client.frame()
        server.begin_stop()
        assert client.close_code() == 1012
        client.send(CLOSE, struct.pack("!H", 1012))
        assert client.at_eof()
        server.stop()


def test_an_application_that_never_returns_is_cancelled() -> None:
    server = RunningServer(close_timeout=0.2, timeout_graceful_shutdown=1)
    with RawClient(server.port, "/stuck") as client:
        wait_until(lambda: "stuck" in server.hub.gates, "the application")
        server.stop()
        assert client.close_code() == 1012
        assert client.at_eof()


def test_a_pending_handshake_is_refused_with_503() -> None:
    server = RunningServer(timeout_graceful_shutdown=5)
    with RawClient(server.port, "/undecided", wait=False) as client:
        wait_until(lambda: "undecided" in server.hub.gates, "the application")
        server.begin_stop()
        client.read_head()
        assert client.status == 503
    server.hub.open_gate("undecided")
    server.stop()
