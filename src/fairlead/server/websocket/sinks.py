"""The sink of a subscription: sends its bytes to a connection, compressed or as they are."""

from collections.abc import Callable
from dataclasses import dataclass

from fairlead.model.errors import FairleadError
from fairlead.model.formats.frames import build_frame, split_frames
from fairlead.model.gateway import Cursor, SubscriptionHandle
from fairlead.server.websocket.connection import Connection
from fairlead.server.websocket.frames import BINARY, FIN

COMPRESS_FROM = 256
"""Size of a message in bytes from which deflate saves more than it costs in framing."""


@dataclass(eq=False, repr=False, slots=True)
class ConnectionSink:
    """Sends a subscription's bytes to the socket. Implements `model.gateway.Sink`."""

    _connection: Connection
    _compress: bool
    fail: Callable[[FairleadError], None]

    def send(self, data: bytes) -> None:
        if self._compress:
            send_packed(self._connection, data)
        else:
            self._connection.send(data)

    def backlog(self) -> int:
        return self._connection.backlog()


class SendGate:
    """Holds back what the subscriptions of a socket send, in its order, while `held`."""

    __slots__ = ("held", "size", "waiting")

    def __init__(self) -> None:
        self.held = True
        self.size = 0
        self.waiting: list[tuple[TrackedSink, bytes, Cursor]] = []

    def release(self) -> None:
        waiting, self.waiting, self.size, self.held = self.waiting, [], 0, False
        for sink, data, cursor in waiting:
            sink.pass_on(data, cursor)


class TrackedSink:
    """A sink that may be held back. `sent` is called with the bytes of each send, and with the position of its
    subscription, `watch`, after them. Implements `model.gateway.Sink`."""

    __slots__ = ("_gate", "_inner", "_sent", "watch")

    def __init__(
        self, inner: ConnectionSink, gate: SendGate | None, sent: Callable[[bytes, Cursor], None] | None
    ) -> None:
        self._inner = inner
        self._gate = gate
        self._sent = sent
        self.watch: SubscriptionHandle | None = None

    def send(self, data: bytes) -> None:
        assert self.watch is not None
        if self._gate is not None and self._gate.held:
            self._gate.waiting.append((self, data, self.watch.cursor))
            self._gate.size += len(data)
        else:
            self.pass_on(data, self.watch.cursor)

    def pass_on(self, data: bytes, cursor: Cursor) -> None:
        self._inner.send(data)
        if self._sent is not None:
            self._sent(data, cursor)

    def backlog(self) -> int:
        return self._inner.backlog() + (0 if self._gate is None else self._gate.size)

    def fail(self, error: FairleadError) -> None:
        self._inner.fail(error)


def send_packed(connection: Connection, frames: bytes) -> None:
    """Send joined frames; large ones are compressed if that was negotiated, small ones would only grow."""
    plain: list[bytes] = []
    for head, payload in split_frames(frames):
        if len(payload) < COMPRESS_FROM:
            plain.append(build_frame(head, payload))
            continue
        if plain:
            connection.send(b"".join(plain))
            plain.clear()
        connection.send_compressed(payload, binary=head == FIN | BINARY)
    if plain:
        connection.send(b"".join(plain))
