"""A channel between two nodes: numbered messages, a window of unread bytes each way, and an end that is noticed.

A message that is missing, or 15 seconds of silence, ends the channel: its user connects again.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from fairlead.model.errors import Unavailable
from fairlead.stores.nats.connection import TRANSIENT
from fairlead.system.clock import Clock

PART_BYTES: Final = 16 << 10
WINDOW_BYTES: Final = 256 << 10
BEAT_S: Final = 5.0
SILENCE_S: Final = 15.0

Send = Callable[[str, int, bytes], Awaitable[None]]


class NatsChannel:
    """Implements `model.store.Channel`. `send` transmits (kind, number, body)."""

    def __init__(self, send: Send, clock: Clock, ended: Callable[[], object]) -> None:
        self._send = send
        self._clock = clock
        self._ended = ended
        self._sent = 0
        self._taken = 0
        self._room = WINDOW_BYTES
        self._may_send = asyncio.Event()
        self._incoming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._parts: list[bytes] = []
        self._closed = False
        self._heard = clock.monotonic()
        self._beat = asyncio.create_task(self._beats())
        self._sending = asyncio.Lock()

    async def send(self, data: bytes) -> None:
        async with self._sending:
            starts = range(0, max(len(data), 1), PART_BYTES)
            for start in starts:
                part = data[start : start + PART_BYTES]
                while self._room < len(part) and not self._closed:
                    self._may_send.clear()
                    await self._may_send.wait()
                if self._closed:
                    raise Unavailable("The connection to the other node is closed.")
                self._room -= len(part)
                await self._transmit("end" if start + PART_BYTES >= len(data) else "part", part)

    async def receive(self) -> bytes | None:
        if self._closed and self._incoming.empty():
            return None
        data = await self._incoming.get()
        if data is not None and not self._closed:
            await self._transmit("credit", str(len(data)).encode(), numbered=False)
        return data

    async def close(self) -> None:
        if not self._closed:
            await self._transmit("close", b"")
            self.lost()

    def lost(self) -> None:
        """The channel has ended."""
        if not self._closed:
            self._closed = True
            self._beat.cancel()
            self._may_send.set()
            self._incoming.put_nowait(None)
            self._ended()

    def received(self, kind: str, number: int, body: bytes) -> None:
        self._heard = self._clock.monotonic()
        if kind == "credit":
            self._room += int(body)
            self._may_send.set()
            return
        if kind == "beat":
            return
        self._taken += 1
        if number != self._taken or kind == "close":
            self.lost()
            return
        self._parts.append(body)
        if kind == "end":
            self._incoming.put_nowait(b"".join(self._parts))
            self._parts.clear()

    async def _transmit(self, kind: str, body: bytes, *, numbered: bool = True) -> None:
        if numbered:
            self._sent += 1
        with contextlib.suppress(*TRANSIENT):
            await self._send(kind, self._sent, body)

    async def _beats(self) -> None:
        while True:
            await self._clock.sleep(BEAT_S)
            if self._clock.monotonic() - self._heard > SILENCE_S:
                self.lost()
                return
            await self._transmit("beat", b"", numbered=False)
