"""An Endpoint for applications that speak plain ASGI: messages wait in a bounded queue for receive().

Not on Fairlead's own data path; it keeps our driver usable for any Starlette WebSocket endpoint.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

from fairlead.server.websocket.connection import Connection

_PAUSE_AT: Final = 16
_RESUME_AT: Final = 4


class MessageQueue:
    """A bounded queue of messages; reading pauses while the application is behind."""

    __slots__ = ("_close_code", "_messages", "_waiter")

    def __init__(self) -> None:
        self._messages: deque[tuple[bytes, bool]] = deque()
        self._close_code: int | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def receive(self, conn: Connection) -> dict[str, Any]:
        """Return the next ASGI message; after the last one, return the disconnect at every call."""
        while not self._messages:
            if self._close_code is not None:
                return {"type": "websocket.disconnect", "code": self._close_code}
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        data, text = self._messages.popleft()
        if len(self._messages) <= _RESUME_AT:
            conn.resume_reading()
        return {"type": "websocket.receive", "text": data.decode()} if text else _binary(data)

    def on_open(self, conn: Connection) -> None:
        """Do nothing: the application accepted the connection itself."""

    def on_message(self, conn: Connection, data: bytes, text: bool) -> None:
        self._messages.append((data, text))
        if len(self._messages) > _PAUSE_AT:
            conn.pause_reading()
        self._wake()

    def on_drain(self, conn: Connection) -> None:
        """Do nothing: the driver itself delays plain ASGI sends."""

    def on_batch_end(self, conn: Connection) -> None:
        """Do nothing: messages are not batched here."""

    def on_close(self, conn: Connection, code: int) -> None:
        self._close_code = code
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _binary(data: bytes) -> dict[str, Any]:
    return {"type": "websocket.receive", "bytes": data}
