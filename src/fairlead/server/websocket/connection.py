"""The two interfaces of an open WebSocket: Connection, which a driver provides, and Endpoint, which a driver calls.

This file has only interfaces and limits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from fairlead.server.websocket.parser import DEFAULT_MAX_MESSAGE

EXTENSION: Final = "fairlead.connection"
"""Key in scope["extensions"] of a connection of our own driver."""

HIGH_WATER: Final = 64 * 1024
LOW_WATER: Final = 16 * 1024
"""asyncio's marks: above the high one a connection is congested, below the low one it has drained."""


class ConnectionShare(Protocol):
    """The limit of bytes that wait for one client, over all its connections."""

    def note(self, holder: Any, size: int) -> None: ...
    def forget(self, holder: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Settings of one connection. They must be set before the handshake is accepted."""

    max_message: int = DEFAULT_MAX_MESSAGE
    """Bytes of one inbound message, inflated; more is answered with close code 1009."""
    max_write_buffer: int = 4 * 1024 * 1024
    """Bytes that may wait for a slow peer; the next send above that closes with 1013 (memory: this plus one send)."""
    share: ConnectionShare | None = None
    """Notified of bytes that wait for a slow peer; it may close the connection because of them."""
    compress: bool = False
    """Agree to permessage-deflate if the peer offers it."""


DEFAULT_OPTIONS: Final = ConnectionOptions()


class Connection(Protocol):
    """An accepted WebSocket. Every method returns at once; after the close they do nothing."""

    @property
    def peer(self) -> tuple[str, int] | None:
        """The socket's other end; None on a Unix socket."""

    @property
    def closed(self) -> bool:
        """Nothing more can be sent: a close frame went out or came in, or the peer is gone."""

    @property
    def reason(self) -> str:
        """The reason in the peer's close frame, if that was the first close frame."""

    def send(self, frame: bytes) -> None:
        """Send frames from `frames.py`, one or many joined, unchanged in one write."""

    def send_text(self, payload: bytes) -> None:
        """Send one text message; `payload` is UTF-8."""

    def send_compressed(self, payload: bytes, binary: bool = False) -> None:
        """Send one message, compressed if that was negotiated."""

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Start the closing handshake; a peer that does not answer in time is disconnected. 1005 sends no code."""

    def write_buffer_size(self) -> int:
        """Bytes passed to `send` that the operating system has not accepted yet."""

    def probe(self, answered: Callable[[], None]) -> None:
        """Send a ping, and call `answered` at its pong: the peer has then received everything sent before. It is never
        called if the driver cannot see pongs."""

    def pause_reading(self) -> None:
        """Stop reading. Messages of the current socket read (at most 256 KiB) may still be delivered."""

    def resume_reading(self) -> None: ...


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
