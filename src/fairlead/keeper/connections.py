"""The keeper's socket and its connections: frames in, frames out."""

import errno
import socket
from collections.abc import Callable
from typing import Final, Protocol

from fairlead.keeper import address
from fairlead.keeper.frames import Frame, FrameDecoder, MalformedFrame
from fairlead.keeper.loop import KeeperLoop

_READ: Final = 64 << 10
_QUEUE: Final = 1 << 20
"""Bytes that may wait in a connection before its gateway counts as slow, until a quarter of them is left."""
_NO_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_RETRY_SECONDS: Final = 1.0


class ConnectionEvents(Protocol):
    """The keeper, as its connections see it."""

    def received(self, connection: int, frame: Frame) -> None: ...
    def malformed(self, connection: int, error: MalformedFrame) -> None: ...
    def congested(self, connection: int, is_congested: bool) -> None: ...
    def closed(self, connection: int) -> None: ...


class GatewayConnection:
    """One connection, of a gateway or of a program that looks whether a keeper answers."""

    def __init__(self, number: int, peer: socket.socket, loop: KeeperLoop, events: ConnectionEvents) -> None:
        self._number = number
        self._socket = peer
        self._loop = loop
        self._events = events
        self._decoder = FrameDecoder()
        self._waiting = bytearray()
        self._congested = False
        self._open = True
        peer.setblocking(False)
        loop.add_reader(peer.fileno(), self._read)

    def send(self, frame: bytes) -> None:
        if not self._waiting:
            try:
                sent = self._socket.send(frame)
            except OSError as error:
                sent = self._refused(error)
            if sent == len(frame) or not self._open:
                return
            self._loop.add_writer(self._socket.fileno(), self._send_waiting)
            frame = frame[sent:]
        self._waiting += frame
        if len(self._waiting) > _QUEUE and not self._congested:
            self._congested = True
            self._events.congested(self._number, True)

    def _refused(self, error: OSError) -> int:
        """The socket took no bytes. A connection that is broken is closed."""
        if not isinstance(error, BlockingIOError):
            self._lose()
        return 0

    def _send_waiting(self) -> None:
        try:
            sent = self._socket.send(self._waiting)
        except OSError as error:
            sent = self._refused(error)
        if not self._open:
            return
        del self._waiting[:sent]
        if not self._waiting:
            self._loop.remove_writer(self._socket.fileno())
        if self._congested and len(self._waiting) <= _QUEUE // 4:
            self._congested = False
            self._events.congested(self._number, False)

    def _read(self) -> None:
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        try:
            for frame in self._decoder.feed(data):
                if not self._open:
                    return
                self._events.received(self._number, frame)
        except MalformedFrame as error:
            self._events.malformed(self._number, error)

    def _lose(self) -> None:
        if self._open:
            self.close()
            self._events.closed(self._number)

    def close(self) -> None:
        """End the connection at once. Does nothing if it has ended."""
        if self._open:
            self._open = False
            self._waiting.clear()
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()


class Listener:
    """Accepts connections. Those of other users are closed, and `refused` is called."""

    def __init__(
        self,
        listener: socket.socket,
        loop: KeeperLoop,
        accepted: Callable[[socket.socket], None],
        refused: Callable[[], None],
    ) -> None:
        self._socket = listener
        self._loop = loop
        self._accepted = accepted
        self._refused = refused
        listener.setblocking(False)
        self._listen()

    def _listen(self) -> None:
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            peer, _ = self._socket.accept()
        except OSError as error:
            if error.errno in _NO_RESOURCES:  # else the loop would never rest
                self._loop.remove_reader(self._socket.fileno())
                self._loop.call_later(_RETRY_SECONDS, self._listen)
            return
        if address.is_own(peer):
            self._accepted(peer)
        else:
            self._refused()
            peer.close()
