"""The sink of a subscription: sends its bytes to a connection, compressed or as they are."""

from collections.abc import Callable
from dataclasses import dataclass

from fairlead.model.errors import FairleadError
from fairlead.model.formats.frames import build_frame
from fairlead.server.websocket.connection import Connection
from fairlead.server.websocket.frames import BINARY, FIN, split_frames

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
