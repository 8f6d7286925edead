"""The two interfaces of an open WebSocket: Connection, which a driver provides, and Endpoint, which a driver calls.

This file has only interfaces and limits.
"""

from dataclasses import dataclass
from typing import Final, Protocol

from fairlead.model.web.sockets import SocketHandle
from fairlead.server.shares import CredentialShare
from fairlead.server.websocket.parser import DEFAULT_MAX_MESSAGE

EXTENSION: Final = "fairlead.connection"
"""Key in scope["extensions"] of a connection of our own driver."""


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Settings of one connection. They must be set before the handshake is accepted."""

    max_message: int = DEFAULT_MAX_MESSAGE
    """Bytes of one inbound message, inflated; more is answered with close code 1009."""
    max_write_buffer: int = 4 * 1024 * 1024
    """Bytes that may wait for a slow peer; the next send above that closes with 1013 (memory: this plus one send)."""
    share: CredentialShare | None = None
    """Notified of bytes that wait for a slow peer; it may close the connection because of them."""
    compress: bool = False
    """Agree to permessage-deflate if the peer offers it."""


DEFAULT_OPTIONS: Final = ConnectionOptions()


class Connection(SocketHandle, Protocol):
    """An accepted WebSocket. Every method returns at once; after the close they do nothing.

    `send` takes frames from `frames.py`, one or many joined, which go out unchanged in one write. After `pause`,
    messages of the current socket read (at most 256 KiB) may still be delivered."""

    @property
    def reason(self) -> str:
        """The reason in the peer's close frame, if that was the first close frame."""

    def send_compressed(self, payload: bytes, binary: bool = False) -> None:
        """Send one message, compressed if that was negotiated."""

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Start the closing handshake; a peer that does not answer in time is disconnected. 1005 sends no code."""


class Endpoint(Protocol):
    """Callbacks of a connection, never called concurrently. An exception is logged and closes with 1011.

    `on_open` is called first and `on_close` last, each once. If the peer left before `run`, neither is called.
    """

    def on_open(self, conn: Connection) -> None: ...

    def on_message(self, conn: Connection, data: bytes, text: bool) -> None:
        """`data` of a text message is valid UTF-8."""

    def on_drain(self, conn: Connection) -> None:
        """A congested write buffer fell under the low-water mark."""

    def on_batch_end(self, conn: Connection) -> None:
        """All messages of one socket read were delivered: the moment to write the responses."""

    def on_close(self, conn: Connection, code: int) -> None:
        """`code` is that of the first close frame, ours or the peer's; 1005 if it had no code, 1006 without a close
        frame."""
