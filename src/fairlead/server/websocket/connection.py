"""The two sides of an open WebSocket: what a driver gives (Connection) and what it calls (Endpoint).

Both drivers, our own and the stock one, keep these promises; only interfaces and limits live here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from fairlead.server.websocket.parser import DEFAULT_MAX_MESSAGE

EXTENSION: Final = "fairlead.connection"
"""Where a connection of our own driver stands in scope["extensions"]."""

HIGH_WATER: Final = 64 * 1024
LOW_WATER: Final = 16 * 1024
"""asyncio's own marks: over the high one a connection is congested, under the low one it has drained."""


class ConnectionShare(Protocol):
    """What one client may have waiting, over all its connections."""

    def note(self, holder: Any, size: int) -> None: ...
    def forget(self, holder: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """What may differ between connections; to be known before the handshake is accepted."""

    max_message: int = DEFAULT_MAX_MESSAGE
    """Bytes of one inbound message, inflated; more is answered with close code 1009."""
    max_write_buffer: int = 4 * 1024 * 1024
    """Bytes that may wait for a slow peer; the next send over it closes with 1013 (memory: this and one send)."""
    share: ConnectionShare | None = None
    """Who is told of bytes that wait for a slow peer, and may end the connection for them."""
    compress: bool = False
    """Agree to permessage-deflate if the peer offers it. The stock driver cannot and sends plain frames."""


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
        """The words of the peer's close frame, where that was the first."""

    def send(self, frame: bytes) -> None:
        """Frames from `frames.py`, one or many joined, as they are: one write."""

    def send_text(self, payload: bytes) -> None:
        """One text message; `payload` is UTF-8."""

    def send_compressed(self, payload: bytes, binary: bool = False) -> None:
        """One message, compressed if that was agreed, else plain."""

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Starts the closing handshake; a peer that does not answer in time is cut off. 1005 sends no code."""

    def write_buffer_size(self) -> int:
        """Bytes given to `send` that the operating system has not taken yet."""

    def probe(self, answered: Callable[[], None]) -> None:
        """`answered` is called when the peer has taken all that was sent before: a ping and its pong. Never, where
        the driver cannot see pongs."""

    def pause_reading(self) -> None:
        """Messages of the socket read at hand (at most 256 KiB) may still come."""

    def resume_reading(self) -> None: ...


class Endpoint(Protocol):
    """What a connection calls, never from two places at once. An exception is logged and closes with 1011.

    `on_open` comes first and `on_close` last, each once. A peer that left before `run` gets neither.
    """

    def on_open(self, conn: Connection) -> None: ...

    def on_message(self, conn: Connection, data: bytes, text: bool) -> None:
        """`data` of a text message is valid UTF-8."""

    def on_drain(self, conn: Connection) -> None:
        """A congested write buffer fell under the low-water mark."""

    def on_batch_end(self, conn: Connection) -> None:
        """All messages of one socket read were handed over: the moment to write what they caused."""

    def on_close(self, conn: Connection, code: int) -> None:
        """`code` is the first close frame's, ours or the peer's; 1005 if it had none, 1006 if none came."""
