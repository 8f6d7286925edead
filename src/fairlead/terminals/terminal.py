"""One program on its PTY: read, shown, fanned out. The program never waits for a watcher, nor for the screen's reader.

A watcher is a name and some bytes that wait for it; when they become too many they are dropped, and it is drawn the
whole screen when it comes for more.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncGenerator
from typing import Final

from fairlead.model.agents import Exit
from fairlead.model.errors import AgentGone
from fairlead.model.terminals import Output, Screen, Size
from fairlead.system.pipes import PipeClosed
from fairlead.system.process import Patience
from fairlead.system.pty import PtyChild
from fairlead.terminals.emulator import Emulator
from fairlead.terminals.modes import PASTE
from fairlead.terminals.redraw import redraw

log = logging.getLogger("fairlead.terminals")

WAITING_BYTES: Final = 256 * 1024
"""What may wait for one watcher: a redraw with all of its history is no larger."""
REDRAW_HISTORY: Final = 128 * 1024
"""Bytes of scrollback in a redraw: some two thousand lines of a busy program."""
PIECE: Final = 256
LEAST_PIECE: Final = 32
USUAL_CELLS: Final = 120 * 40
"""Bytes that are shown at once on a screen of so many cells: some 0.1 ms of text, 3 ms of newlines, 10 ms at worst."""
LEAST: Final = Size(2, 1)
MOST: Final = Size(500, 200)
"""Beyond most screens. What the cells and a redraw of them may cost is bounded with it."""


def fit(size: Size) -> Size:
    """The nearest size that a terminal may have."""
    return Size(
        max(LEAST.columns, min(size.columns, MOST.columns)),
        max(LEAST.rows, min(size.rows, MOST.rows)),
    )


class _Watcher:
    """Bytes on their way to one watcher. `behind`: what it had is void, it needs a redraw."""

    __slots__ = ("behind", "bytes", "pieces", "wake")

    def __init__(self) -> None:
        self.pieces: deque[bytes] = deque()
        self.bytes = 0
        self.behind = True
        self.wake = asyncio.Event()

    def give(self, data: bytes) -> None:
        if not self.behind:
            self.pieces.append(data)
            self.bytes += len(data)
            if self.bytes > WAITING_BYTES:
                self.void()

    def void(self) -> None:
        self.behind = True
        self.pieces.clear()
        self.bytes = 0

    def take(self) -> bytes:
        data = b"".join(self.pieces)
        self.pieces.clear()
        self.bytes = 0
        return data


class LiveTerminal:
    """Implements `model.terminals.Terminal`. `turn` is shared by all terminals: each holds the loop for one piece of
    output at a time, and whatever else is ready comes in between."""

    def __init__(self, name: str, child: PtyChild, size: Size, patience: Patience, turn: asyncio.Lock) -> None:
        self._name = name
        self._child = child
        self._own_size = self._size = size
        self._patience = patience
        self._turn = turn
        self._emulator = Emulator(size.columns, size.rows)
        self._sizes: dict[str, Size] = {}
        self._watchers: set[_Watcher] = set()
        self._version = 1
        self._screen: Screen | None = None
        self._redraw: tuple[int, bytes] = (0, b"")
        self._changed = asyncio.Event()
        self._exit: Exit | None = None
        self._running = asyncio.create_task(self._run())

    @property
    def name(self) -> str:
        return self._name

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def started(self) -> str:
        return self._child.started

    @property
    def group(self) -> int:
        return self._child.group

    @property
    def running(self) -> bool:
        return self._exit is None

    @property
    def watched(self) -> bool:
        return bool(self._watchers)

    @property
    def screen(self) -> Screen:
        if self._screen is None or self._screen.version != self._version:
            emulator = self._emulator
            self._screen = Screen(
                lines=emulator.lines(),
                row=emulator.y,
                column=min(emulator.x, emulator.columns - 1),
                size=self._size,
                version=self._version,
                pasting=emulator.modes[PASTE],
            )
        return self._screen

    async def changed(self, version: int) -> Screen:
        while self._version <= version and self.running:
            await self._changed.wait()
        return self.screen

    async def write(self, data: bytes) -> None:
        try:
            await self._child.write(data)
        except PipeClosed:
            raise AgentGone("The program of this terminal has ended.") from None

    def resize(self, size: Size, who: str = "") -> None:
        self._sizes[who] = fit(size)
        self._fit()

    async def watch(self, who: str = "") -> AsyncGenerator[Output, None]:
        watcher = _Watcher()
        self._watchers.add(watcher)
        try:
            while True:
                watcher.wake.clear()
                if watcher.behind:
                    watcher.behind = False
                    yield Output(self._drawn(), redraw=True, size=self._size)
                elif watcher.pieces:
                    yield Output(watcher.take())
                elif not self.running:
                    return
                else:
                    await watcher.wake.wait()
        finally:
            self._watchers.discard(watcher)
            if self._sizes.pop(who, None) is not None:
                self._fit()

    async def wait(self) -> Exit:
        await asyncio.shield(self._running)
        return self._exit or Exit()

    @property
    def exit(self) -> Exit | None:
        return self._exit

    async def stop(self) -> Exit:
        await self._child.end(self._patience)
        # One that hangs in the kernel outlives even a kill: nobody waits for it.
        return Exit() if self._child.running else await self.wait()

    # --- inside

    async def _run(self) -> None:
        try:
            await self._child.read(self._take)
        except Exception:
            log.exception("a terminal could not be read on", extra={"terminal": self._name, "pid": self.pid})
            await self._child.end(self._patience)
        status = await self._child.wait()
        self._exit = Exit(code=status.code, signal=status.signal)
        log.info("terminal ended", extra={"terminal": self._name, "pid": self.pid, "code": status.code})
        self._wake()

    async def _take(self, data: bytes) -> None:
        # As much less at once as the screen is larger than a usual one: clearing it takes as much longer.
        piece = max(LEAST_PIECE, PIECE * USUAL_CELLS // (self._size.columns * self._size.rows))
        for start in range(0, len(data), piece):
            async with self._turn:
                self._show(data[start : start + piece])
                await asyncio.sleep(0)
        self._wake()

    def _show(self, data: bytes) -> None:
        fed = self._emulator.feed(data)
        if fed.answers:
            self._child.offer(fed.answers)
        if fed.output:
            self._version += 1
            for watcher in self._watchers:
                watcher.give(fed.output)

    def _wake(self) -> None:
        """Something is there for those that wait."""
        self._changed.set()
        self._changed = asyncio.Event()
        for watcher in self._watchers:
            watcher.wake.set()

    def _drawn(self) -> bytes:
        version, drawn = self._redraw
        if version != self._version:
            drawn = redraw(self._emulator, REDRAW_HISTORY)
            self._redraw = (self._version, drawn)
        return drawn

    def _fit(self) -> None:
        """As large as the smallest of those that write; a program that leaves room unused is better than one that is
        drawn over the edge."""
        sizes = self._sizes.values() or (self._own_size,)
        size = Size(min(s.columns for s in sizes), min(s.rows for s in sizes))
        if size == self._size or not self.running:
            return
        self._size = size
        with contextlib.suppress(OSError):
            self._child.resize(size.columns, size.rows)
        self._emulator.resize(size.columns, size.rows)
        self._version += 1
        for watcher in self._watchers:
            watcher.void()
        self._wake()
