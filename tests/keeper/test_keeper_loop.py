"""The keeper's event loop, and the connections on it: real descriptors, real signals, real sockets."""

import errno
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.keeper.connections import GatewayConnection, Listener
from fairlead.keeper.frames import Frame, MalformedFrame, encode
from fairlead.keeper.loop import KeeperLoop
from keeper.loops import reraise


@pytest.fixture
def loop() -> Iterator[KeeperLoop]:
    made = KeeperLoop(reraise)
    yield made
    made.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_timers_ring_in_order_and_not_after_they_are_cancelled(loop: KeeperLoop) -> None:
    rung: list[str] = []
    last = loop.call_later(0.02, loop.stop)
    never = loop.call_later(0.001, lambda: rung.append("cancelled"))
    loop.call_later(0.01, lambda: rung.append("second"))
    loop.call_later(0, lambda: rung.append("first"))
    never.cancel()
    never.cancel()
    loop.run()
    last.cancel()
    assert rung == ["first", "second"]


def test_a_timer_that_another_one_cancels_does_not_ring(loop: KeeperLoop) -> None:
    rung: list[str] = []
    loop.call_later(0, lambda: later.cancel())
    later = loop.call_later(0, lambda: rung.append("cancelled"))
    loop.call_later(0.001, loop.stop)
    loop.run()
    assert rung == []


def test_an_error_of_a_callback_is_reported_and_the_loop_goes_on(pair: tuple[socket.socket, socket.socket]) -> None:
    errors: list[str] = []
    loop = KeeperLoop(lambda: errors.append("an error"))
    ours, theirs = pair
    theirs.send(b"x")

    def fail() -> None:
        ours.recv(1)
        raise ValueError

    loop.add_reader(ours.fileno(), fail)
    loop.call_later(0.001, lambda: 1 // 0)
    loop.call_later(0.002, loop.stop)
    loop.run()
    loop.close()
    assert errors == ["an error"] * 2


def test_the_end_of_a_pipe_is_reported_to_its_reader_and_to_its_writer(loop: KeeperLoop) -> None:
    seen: list[str] = []
    readable, writing = os.pipe()
    reading, writable = os.pipe()
    os.close(writing)
    os.close(reading)

    def ended(name: str, fd: int) -> None:
        seen.append(name)
        loop.remove_reader(fd)
        loop.remove_writer(fd)
        os.close(fd)
        if len(seen) == 2:
            loop.stop()

    loop.add_reader(readable, lambda: ended("reader", readable))
    loop.add_writer(writable, lambda: ended("writer", writable))
    loop.run()
    assert sorted(seen) == ["reader", "writer"]


def test_a_callback_that_was_removed_meanwhile_is_not_called(
    loop: KeeperLoop, pair: tuple[socket.socket, socket.socket]
) -> None:
    """Both ends have something to read at once; the first that is called removes the other."""
    called: list[int] = []
    for each in pair:
        each.send(b"x")

    def read(mine: int, other: int) -> None:
        called.append(mine)
        loop.remove_reader(other)
        loop.remove_reader(mine)
        loop.stop()

    ours, theirs = (each.fileno() for each in pair)
    loop.add_reader(ours, lambda: read(ours, theirs))
    loop.add_reader(theirs, lambda: read(theirs, ours))
    loop.run()
    assert len(called) == 1


def test_a_signal_wakes_the_loop(loop: KeeperLoop) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    try:
        loop.add_signal_handler(signal.SIGUSR1, loop.stop)
        os.kill(os.getpid(), signal.SIGUSR1)
        loop.run()
    finally:
        signal.signal(signal.SIGUSR1, before)


class Events:
    """What a connection reports."""

    def __init__(self, loop: KeeperLoop) -> None:
        self.seen: list[object] = []
        self._loop = loop

    def received(self, connection: int, frame: Frame) -> None:
        self.seen.append(frame)

    def malformed(self, connection: int, error: MalformedFrame) -> None:
        self.seen.append("malformed")

    def congested(self, connection: int, is_congested: bool) -> None:
        self.seen.append(is_congested)

    def closed(self, connection: int) -> None:
        self.seen.append("closed")
        self._loop.stop()


def test_a_slow_peer_is_reported_and_gets_every_byte_in_order(
    loop: KeeperLoop, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    events = Events(loop)
    connection = GatewayConnection(1, ours, loop, events)
    sent = b"".join(bytes([number]) * 100_000 for number in range(30))
    for start in range(0, len(sent), 50_000):
        connection.send(sent[start : start + 50_000])
    assert events.seen == [True]
    got = bytearray()

    def take() -> None:
        nonlocal got
        got += theirs.recv(1 << 20)
        if len(got) == len(sent):
            theirs.shutdown(socket.SHUT_WR)
            loop.remove_reader(theirs.fileno())

    loop.add_reader(theirs.fileno(), take)
    loop.run()
    assert got == sent
    assert events.seen == [True, False, "closed"]


def test_frames_come_whole_and_the_end_after_them(loop: KeeperLoop, pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    events = Events(loop)
    GatewayConnection(1, ours, loop, events)
    large = os.urandom(150_000)
    theirs.setblocking(True)
    frames = encode(7, 1, b"small") + encode(8, 2, large)
    loop.add_writer(theirs.fileno(), lambda: _write_all(loop, theirs, frames))
    loop.run()
    assert events.seen == [Frame(7, 1, b"small"), Frame(8, 2, large), "closed"]


def _write_all(loop: KeeperLoop, peer: socket.socket, data: bytes) -> None:
    loop.remove_writer(peer.fileno())
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, len(data) * 2)
    peer.sendall(data)
    peer.close()


def test_a_peer_that_has_left_ends_the_connection_once(
    loop: KeeperLoop, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    events = Events(loop)
    connection = GatewayConnection(1, ours, loop, events)
    theirs.close()
    connection.send(b"x" * 10)
    connection.send(b"x" * 10)
    connection.close()
    assert events.seen == ["closed"]


class ShortOfDescriptors:
    """A listening socket that cannot accept at first."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.refusals = 0

    def accept(self) -> object:
        if self.refusals == 0:
            self.refusals += 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return self._listener.accept()

    def __getattr__(self, name: str) -> object:
        return getattr(self._listener, name)


def test_a_keeper_without_descriptors_accepts_later(loop: KeeperLoop, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as peer:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        peer.connect(str(tmp_path / "s"))
        short = ShortOfDescriptors(listener)

        def accepted(found: socket.socket) -> None:
            found.close()
            loop.stop()

        Listener(short, loop, accepted, loop.stop)  # type: ignore[arg-type]
        loop.run()
        assert short.refusals == 1
