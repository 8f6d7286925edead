"""The fallback driver: the same Connection on top of any ASGI server's own WebSocket.

It is slower, because every message passes through ASGI; it is used when uvicorn does not run our class, and in tests
of applications. It lacks features that ASGI cannot express: there is no compression per connection, and a stuck socket
is given back to the server instead of being aborted. A paused connection holds one message, and notices that the peer
left only if no message came.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from fairlead.server.websocket.connection import HIGH_WATER, LOW_WATER, Connection, ConnectionOptions, Endpoint
from fairlead.server.websocket.errors import MessageTooBig, Misuse
from fairlead.server.websocket.frames import (
    ABNORMAL,
    BINARY,
    FIN,
    NO_STATUS,
    TEXT,
    is_sendable_close_code,
    split_frames,
)
from fairlead.server.websocket.keepalive import DEFAULT_INTERVAL
from fairlead.server.websocket.protocol import DEFAULT_CLOSE_TIMEOUT

logger = logging.getLogger("fairlead.server.websocket")


def stock_settings(options: ConnectionOptions) -> dict[str, Any]:
    """Return the settings for `uvicorn.Config` with which its own driver keeps our limits."""
    return {
        "ws": "websockets-sansio",
        "ws_max_size": options.max_message,
        "ws_ping_interval": DEFAULT_INTERVAL,
        "ws_ping_timeout": DEFAULT_INTERVAL,
        "ws_per_message_deflate": False,
    }


class StockConnection:
    """A Connection on ASGI. Messages to send wait in an outbox for one writing task; its size is the write buffer."""

    __slots__ = (
        "_close_timeout",
        "_closing",
        "_code",
        "_congested",
        "_endpoint",
        "_filled",
        "_options",
        "_outbox",
        "_queued",
        "_readable",
        "_receive",
        "_send",
        "peer",
        "reason",
    )

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        options: ConnectionOptions,
        *,
        close_timeout: float = DEFAULT_CLOSE_TIMEOUT,
    ) -> None:
        client = scope.get("client")
        self.peer: tuple[str, int] | None = tuple(client) if client else None
        self._receive = receive
        self._send = send
        self._options = options
        self._close_timeout = close_timeout
        self._endpoint: Endpoint | None = None
        self._outbox: deque[tuple[Message, int]] = deque()
        self._queued = 0
        self._congested = False
        self._filled = asyncio.Event()
        self._readable = asyncio.Event()
        self._readable.set()
        self._closing = asyncio.Event()
        self._code = ABNORMAL
        self.reason = ""

    @property
    def closed(self) -> bool:
        return self._closing.is_set()

    def send(self, frame: bytes) -> None:
        for head, payload in split_frames(frame):
            if head == FIN | TEXT:
                self._put({"type": "websocket.send", "text": payload.decode()}, len(payload))
            elif head == FIN | BINARY:
                self._put({"type": "websocket.send", "bytes": payload}, len(payload))
            else:
                raise Misuse(f"send() takes whole text and binary frames; this one begins with {head:#x}")

    def send_text(self, payload: bytes) -> None:
        self._put({"type": "websocket.send", "text": payload.decode()}, len(payload))

    def send_compressed(self, payload: bytes, binary: bool = False) -> None:
        if binary:
            self._put({"type": "websocket.send", "bytes": payload}, len(payload))
        else:
            self.send_text(payload)

    def close(self, code: int = 1000, reason: str = "") -> None:
        if code == NO_STATUS:
            code = 1000  # ASGI always sends one
        if not is_sendable_close_code(code):
            raise ValueError(f"{code} may not be sent in a close frame; use 1000 or 3000 to 4999")
        if self.closed:
            return
        self._end(code)
        self._outbox.append(({"type": "websocket.close", "code": code, "reason": reason}, 0))
        self._filled.set()

    def write_buffer_size(self) -> int:
        return self._queued

    def probe(self, answered: Callable[[], None]) -> None:
        """Do nothing: ASGI does not report pongs."""

    def pause_reading(self) -> None:
        if not self.closed:
            self._readable.clear()

    def resume_reading(self) -> None:
        self._readable.set()

    async def run(self, endpoint: Endpoint) -> int:
        """Serve the accepted connection until it ends; returns the close code."""
        self._endpoint = endpoint
        self._call_endpoint(endpoint.on_open)
        reading = asyncio.ensure_future(self._read())
        writing = asyncio.ensure_future(self._write())
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait([reading, closing], return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait([reading], timeout=self._close_timeout)
        finally:
            for task in (reading, writing, closing):
                task.cancel()
            await asyncio.gather(reading, writing, closing, return_exceptions=True)
            self._end(ABNORMAL)
            if self._options.share is not None:
                self._options.share.forget(self)
            try:
                endpoint.on_close(self, self._code)
            except Exception:
                logger.exception("an endpoint failed on the close of %s", self.peer)
        if not reading.cancelled():
            reading.result()  # a server whose receive() fails is not a peer that left: raise the error
        return self._code

    async def _read(self) -> None:
        while True:
            # Received also while paused: one message waits here, so that a disconnect is noticed.
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                self.reason = "" if self.closed else message.get("reason") or ""
                self._end(message.get("code") or NO_STATUS)
                return
            await self._readable.wait()
            if not self.closed:
                self._on_message(message)

    def _on_message(self, message: Message) -> None:
        assert self._endpoint is not None
        text = message.get("text")
        data: bytes = message["bytes"] if text is None else text.encode()
        if len(data) > self._options.max_message:
            self.close(MessageTooBig.code, MessageTooBig(self._options.max_message).reason)
            return
        try:
            self._endpoint.on_message(self, data, text is not None)
        except Exception:
            self._endpoint_failed()
        self._call_endpoint(self._endpoint.on_batch_end)

    async def _write(self) -> None:
        while True:
            await self._filled.wait()
            while self._outbox:
                message, size = self._outbox.popleft()
                try:
                    await self._send(message)
                except (OSError, RuntimeError, WebSocketDisconnect):
                    # ASGI servers report a disconnected peer with these errors; the reading task gets the code.
                    self._outbox.clear()
                    return
                self._queued -= size
                if self._congested and self._queued <= LOW_WATER:
                    self._congested = False
                    if self._options.share is not None:
                        self._options.share.forget(self)
                    if self._endpoint is not None and not self.closed:
                        self._call_endpoint(self._endpoint.on_drain)
            self._filled.clear()

    def _put(self, message: Message, size: int) -> None:
        if self.closed:
            return
        if self._queued > self._options.max_write_buffer:
            logger.warning("slow consumer %s: %d bytes wait; closing", self.peer, self._queued)
            self._outbox.clear()
            self.close(1013, "too slow: reconnect and resume")
            return
        self._outbox.append((message, size))
        self._queued += size
        self._congested = self._congested or self._queued > HIGH_WATER
        self._filled.set()
        if self._congested and self._options.share is not None:
            self._options.share.note(self, self._queued)

    # For a credential's share.

    def waiting_bytes(self) -> int:
        return self._queued

    def too_slow(self) -> None:
        self.close(1013, "too much waits unread for this credential: reconnect and resume")

    def cut(self) -> None:
        self._outbox.clear()
        self._queued = 0
        self._end(ABNORMAL)

    def _end(self, code: int) -> None:
        if not self.closed:
            self._code = code
            self._closing.set()
            self._readable.set()

    def _call_endpoint(self, method: Callable[[Connection], None]) -> None:
        try:
            method(self)
        except Exception:
            self._endpoint_failed()

    def _endpoint_failed(self) -> None:
        logger.exception("an endpoint failed for %s; closing with 1011", self.peer)
        self.close(1011, "internal error")
