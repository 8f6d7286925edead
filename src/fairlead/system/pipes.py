"""Our ends of a child's pipes. What is read is handed over before more is read; what is written is bounded.

The event loop's own pipe transports read ahead of whoever uses the bytes. Here nothing is read unless the last
batch was taken, so a child that talks too fast waits in its own `write`, and our memory stays one batch.
"""

import asyncio
import contextlib
import errno
import os
from collections.abc import Awaitable, Callable

CHUNK = 256 * 1024
"""Bytes asked for at once; a Linux pipe holds 64 KiB unless it was enlarged."""

WRITE_AHEAD = 1024 * 1024
"""Bytes that may wait for a child that does not read; further writers wait before they add theirs."""

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
        """Hand every batch to `take`, in order, until the end; the descriptor is closed when this returns."""
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
                    if error.errno != errno.EIO:  # how a terminal says that nobody is at its other end
                        raise
                    return
                if not data:
                    return
                await take(data)
                # A `take` that never waits must not keep the loop from everybody else.
                await asyncio.sleep(0)
        finally:
            self.close()

    def finish(self) -> None:
        """The writer is dead: stop when the pipe is empty, even if a stranger still holds its other end open."""
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
    """The writing end of a pipe. Owns the descriptor. A write goes in whole or not at all, cancelled or not."""

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
        """Return when the system has taken these bytes. PipeClosed if it cannot, or when closed meanwhile.

        Cancelled while it waits, the bytes are still sent: a half line would garble all that follow."""
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
        """Written if nothing waits, else dropped."""
        if not self.closed and not self._buffer:
            self._buffer += data
            self._flush()

    def close(self) -> None:
        """At once: what was not taken yet is dropped, and its writers are told."""
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
