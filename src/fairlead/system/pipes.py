"""Our ends of a child's pipes. Each batch is passed on before more is read; the write buffer is bounded.

The event loop's own pipe transports read ahead of the consumer. Here the next batch is read only after the last one was
taken, so a child that writes too fast blocks in its own `write`, and we hold at most one batch in memory.
"""

import asyncio
import contextlib
import errno
import os
from collections.abc import Awaitable, Callable

CHUNK = 256 * 1024
"""Bytes per read; a Linux pipe holds 64 KiB unless it was enlarged."""

WRITE_AHEAD = 1024 * 1024
"""Bytes that may be buffered for a child that does not read; beyond it writers wait."""

Take = Callable[[bytes], Awaitable[None]]


class PipeClosed(OSError):
    """The other end of the pipe is closed, or ours is."""


class PipeReader:
    """The reading end of a pipe. Owns the descriptor."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._wake: asyncio.Event = asyncio.Event()
        self._finishing = False

    async def run(self, take: Take) -> None:
        """Pass every batch to `take`, in order, until the end; the descriptor is closed when this returns."""
        try:
            while True:
                try:
                    data = os.read(self._fd, CHUNK)
                except BlockingIOError:
                    if self._finishing:
                        return
                    await self._readable()
                    continue
                except OSError as error:
                    if error.errno != errno.EIO:  # a terminal reports this when its other end is closed
                        raise
                    return
                if not data:
                    return
                await take(data)
                # A `take` that never suspends must not block the event loop.
                await asyncio.sleep(0)
        finally:
            self.close()

    def finish(self) -> None:
        """Stop when the pipe is empty: the writer is dead, even if another process still holds the other end open."""
        self._finishing = True
        self._wake.set()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(self._fd, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            loop.remove_reader(self._fd)
        self._wake.clear()


class PipeWriter:
    """The writing end of a pipe. Owns the descriptor. A write is complete or not made at all, also when cancelled."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._flushed = 0
        self._progress = asyncio.Event()
        self._watching = False

    @property
    def closed(self) -> bool:
        return self._fd < 0

    async def write(self, data: bytes) -> None:
        """Return when the system has taken these bytes. Raises PipeClosed if it cannot, or when closed meanwhile.

        If the caller is cancelled while it waits, the bytes are still sent: half a line would garble the next ones."""
        while len(self._buffer) >= WRITE_AHEAD and not self.closed:
            await self._next_progress()
        self._check()
        self._buffer += data
        mine = self._flushed + len(self._buffer)
        self._flush()
        while self._flushed < mine:
            self._check()
            await self._next_progress()

    def offer(self, data: bytes) -> None:
        """Write the data if the buffer is empty, else drop it."""
        if not self.closed and not self._buffer:
            self._buffer += data
            self._flush()

    def close(self) -> None:
        """Close at once: buffered bytes are dropped, and waiting writers get PipeClosed."""
        if self.closed:
            return
        self._watch(False)
        os.close(self._fd)
        self._fd = -1
        self._progress.set()

    def _check(self) -> None:
        if self.closed:
            raise PipeClosed("the pipe is closed")

    async def _next_progress(self) -> None:
        self._progress.clear()
        await self._progress.wait()

    def _flush(self) -> None:
        try:
            with contextlib.suppress(BlockingIOError):
                while self._buffer:
                    count = os.write(self._fd, self._buffer[:CHUNK])
                    del self._buffer[:count]
                    self._flushed += count
        except OSError:
            self.close()
            return
        self._watch(bool(self._buffer))
        self._progress.set()

    def _watch(self, wanted: bool) -> None:
        if wanted and not self._watching:
            self._loop.add_writer(self._fd, self._flush)
        elif self._watching and not wanted:
            self._loop.remove_writer(self._fd)
        self._watching = wanted
