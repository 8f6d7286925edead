"""One program on its PTY: reads its output, updates the screen, and sends the output to all watchers. An agent never
waits for a watcher, nor for the reader of the screen; a shell waits a while when all its watchers lag.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec

from fairlead.model.agents import Exit
from fairlead.model.errors import AgentNotRunning
from fairlead.model.formats.bounded_tables import keep_newest
from fairlead.system.clock import Clock, Timer, ends_within
from fairlead.system.pipes import PipeClosed
from fairlead.system.process import StopTimeouts
from fairlead.terminals.api import FoundUrl, Program, Screen, Size, TerminalOutput
from fairlead.terminals.children import TerminalChild
from fairlead.terminals.memo import SavedTerminal
from fairlead.terminals.recording import Recording, begin_recording, resume_recording
from fairlead.terminals.screen.terminal_state import TerminalState
from fairlead.terminals.subscriber import MOST_URLS, TerminalSubscriber

log = logging.getLogger("fairlead.terminals")

GATHER_SECONDS: Final = 0.004
"""Output printed within this time after a message is sent together in the next one: a quarter of a screen's frame,
which a typing person does not notice, and a flood becomes few messages."""
LAG_SECONDS: Final = 5.0
"""How long a shell waits for watchers that all lag: enough for a slow line, not for a sleeping computer."""
QUIET_SECONDS: Final = 0.5
"""After this long without output a URL is taken to be complete: a program writes a line at once."""
PIECE: Final = 4096
LEAST_PIECE: Final = 128
USUAL_CELLS: Final = 120 * 40
"""The emulator processes `PIECE` bytes at once on a screen of `USUAL_CELLS` cells: some 0.1 ms of text, a few ms at
worst; fewer on a larger screen, but at least `LEAST_PIECE`."""
LEAST: Final = Size(2, 1)
MOST: Final = Size(500, 200)
"""Larger than most screens. It bounds the cost of the cells and of a redraw."""


def fit(size: Size) -> Size:
    return Size(max(LEAST.columns, min(size.columns, MOST.columns)), max(LEAST.rows, min(size.rows, MOST.rows)))


class PtySession:
    """Implements `terminals.api.Terminal`. `turn` is shared by all terminals: each holds the event loop for one piece
    of output at a time, and other ready tasks run in between. `saved`: an earlier gateway saved this of the terminal,
    which continues."""

    def __init__(
        self,
        name: str,
        child: TerminalChild,
        program: Program,
        clock: Clock,
        patience: StopTimeouts,
        turn: asyncio.Lock,
        saved: SavedTerminal | None = None,
    ) -> None:
        self.name = name
        self.tag = program.tag
        self.pid = child.pid
        self.started = child.started
        self.group = child.group
        self._child = child
        self._own_size = fit(program.size)
        self._shell = program.shell
        self._clock = clock
        self._patience = patience
        self._turn = turn
        self._sizes: dict[str, Size] = {}
        self._watchers: set[TerminalSubscriber] = set()
        self._recording: Recording | None = None
        self.touched = clock.monotonic()
        """When it last got input, printed, was resized or joined, on the clock's `monotonic`."""
        self.left: float | None = self.touched
        """When its last watcher left, on the clock's `monotonic`; None while it is watched."""
        self.notes: dict[str, Any] = {}
        """What its owner keeps with it: see `note`."""
        self._urls: dict[str, bool] = {}
        if saved is None:
            self._state = TerminalState(self._own_size, keeps_tail=program.shell)
            if program.recording and program.argv:
                self._recording = begin_recording(program, self._own_size, clock)
        else:
            self._restore(saved, program)
        self._quiet: Timer | None = None
        self._eased = asyncio.Event()
        self._stopping = False
        self._version = 1
        self._screen: Screen | None = None
        self._redraw: tuple[int, bytes] = (0, b"")
        self._changed = asyncio.Event()
        self.exit: Exit | None = None
        self._ended = asyncio.Event()
        child.begin(self._save)
        if saved is not None:
            # The last size may not have reached the program, and its watchers are gone.
            child.resize(self._state.size.columns, self._state.size.rows)
            self._fit()
            self._wake()
        child.save()
        self._running = asyncio.create_task(self._run())

    @property
    def running(self) -> bool:
        return self.exit is None

    @property
    def survives(self) -> bool:
        """Whether the program continues when the gateway ends."""
        return self._child.survives

    @property
    def watched(self) -> bool:
        return bool(self._watchers)

    @property
    def intact(self) -> bool:
        """Whether all output that it ever printed is kept, and was printed at its current size."""
        return self._state.intact

    @property
    def screen(self) -> Screen:
        if self._screen is None or self._screen.version != self._version:
            emulator = self._state.emulator
            self._screen = Screen(
                lines=emulator.lines(),
                row=emulator.y,
                column=min(emulator.x, emulator.columns - 1),
                size=self._state.size,
                version=self._version,
            )
        return self._screen

    async def changed(self, version: int) -> Screen:
        while self._version <= version and self.running:
            await self._changed.wait()
        return self.screen

    async def write(self, data: bytes, key: str = "") -> None:
        """Type keys. Data with a `key` is typed once, even if a gateway that was restarted types it again."""
        self._touch()
        try:
            await self._child.write(data, key)
        except PipeClosed:
            raise AgentNotRunning("The program of this terminal has ended.") from None

    def resize(self, size: Size, who: str = "") -> None:
        self._touch()
        self._sizes[who] = fit(size)
        self._fit()

    def print_notice(self, text: str) -> None:
        """Show a text to all watchers as if the program had printed it; the program does not see it."""
        self._show(text.encode())
        self._child.changed()
        self._wake()

    def note(self, **notes: Any) -> None:
        """Keep something with the terminal, as JSON: it lasts as long as the program."""
        self.notes |= notes
        self._child.save()

    async def watch(self, who: str = "", raw: bool = False) -> AsyncGenerator[TerminalOutput, None]:
        watcher = TerminalSubscriber()
        watcher.add_urls([FoundUrl(url, open) for url, open in self._urls.items()])
        self._urls = dict.fromkeys(self._urls, False)
        self._watchers.add(watcher)
        self.left = None
        self._touch()
        try:
            while True:
                watcher.wake.clear()
                if watcher.behind:
                    output = self._first(raw)
                    raw = False
                elif watcher.pieces or watcher.urls:
                    output = TerminalOutput(watcher.take())
                elif not self.running:
                    return
                else:
                    await watcher.wake.wait()
                    continue
                watcher.caught_up()
                self._eased.set()
                if watcher.urls:
                    output = msgspec.structs.replace(output, urls=watcher.take_urls())
                yield output
                await asyncio.sleep(GATHER_SECONDS)
        finally:
            self._watchers.discard(watcher)
            if not self._watchers:
                self.left = self._clock.monotonic()
                self._child.changed()
            self._eased.set()
            if self._sizes.pop(who, None) is not None:
                self._fit()

    async def wait(self) -> Exit:
        await self._ended.wait()
        return self.exit or Exit()

    async def stop(self) -> Exit:
        self._stopping = True
        self._eased.set()
        await self._child.end(self._patience)
        if not self._child.running:  # a process that hangs in the kernel survives even SIGKILL: do not wait for it
            await asyncio.wait({self._running})
        return self.exit or Exit()

    async def detach(self) -> None:
        """Leave the program running for the next gateway, which restores the terminal. It must be at the keeper."""
        self._running.cancel()
        await asyncio.wait({self._running})
        if self.running:
            self._child.save(portable=True)
            await self._close()

    async def _run(self) -> None:
        try:
            await self._child.read(self._take)
        except Exception:
            log.exception("reading a terminal's output failed", extra={"terminal": self.name, "pid": self.pid})
            await self._child.end(self._patience)
        ended = await self._child.wait()
        await self._close()
        self._child.forget()
        self._found(self._state.finder.flush())
        self.exit = ended
        self._ended.set()
        log.info("terminal ended", extra={"terminal": self.name, "pid": self.pid, "code": ended.code})
        self._wake()

    async def _close(self) -> None:
        self._child.close()
        if self._quiet is not None:
            self._quiet.cancel()
        if self._recording is not None:
            await self._recording.close()

    def _restore(self, saved: SavedTerminal, program: Program) -> None:
        self._state = TerminalState.restore(saved.state)
        self._urls |= saved.urls
        self.notes |= saved.notes
        now, now_ms = self._clock.monotonic(), self._clock.now_ms()
        self.touched = now - max(0, now_ms - saved.touched_ms) / 1000
        if saved.left_ms is not None:
            self.left = now - max(0, now_ms - saved.left_ms) / 1000
        if saved.recording is not None:
            self._recording = resume_recording(program.recording, saved.recording, self._clock)

    def _save(self, portable: bool) -> SavedTerminal:
        now, now_ms = self._clock.monotonic(), self._clock.now_ms()
        return SavedTerminal(
            state=self._state.save(portable=portable),
            urls=self._urls,
            touched_ms=now_ms - round((now - self.touched) * 1000),
            left_ms=None if self.left is None else now_ms - round((now - self.left) * 1000),
            notes=self.notes,
            recording=self._recording.mark() if self._recording is not None else None,
        )

    def _touch(self) -> None:
        self.touched = self._clock.monotonic()
        self._child.changed()

    async def _take(self, data: bytes) -> None:
        self._touch()
        # Pieces shrink as the screen grows: clearing a larger screen takes longer in proportion.
        size = self._state.size
        piece = max(LEAST_PIECE, PIECE * USUAL_CELLS // (size.columns * size.rows))
        for start in range(0, len(data), piece):
            if self._shell:
                await self._wait_for_watchers()
            async with self._turn:
                shown = data[start : start + piece]
                self._show(shown)
                self._child.processed(len(shown))
                await asyncio.sleep(0)
        self._wake()

    async def _wait_for_watchers(self) -> None:
        """Stop reading while all watchers lag: the program blocks in its own `write`, and a watcher that is only slow
        loses nothing. A watcher that takes nothing at all is waited for once."""
        while self._watchers and not self._stopping and all(watcher.lags for watcher in self._watchers):
            self._wake()
            self._eased.clear()
            if not await ends_within(self._clock, LAG_SECONDS, self._eased.wait()):
                for watcher in self._watchers:
                    watcher.given_up = True

    def _show(self, data: bytes) -> None:
        fed, urls = self._state.feed(data)
        for answer in fed.answers:
            self._child.answer(answer)
        if fed.output:
            self._version += 1
            if self._recording is not None:
                self._recording.output(fed.output)
            for watcher in self._watchers:
                watcher.give(fed.output)
            self._found(urls)

    def _found(self, urls: list[FoundUrl]) -> None:
        for one in urls:
            keep_newest(self._urls, one.url, one.open and not self._watchers, MOST_URLS)
        for watcher in self._watchers if urls else ():
            watcher.add_urls(urls)

    def _is_quiet(self) -> None:
        self._found(self._state.finder.flush())
        self._child.changed()
        self._wake()

    def _wake(self) -> None:
        """Wake all waiting watchers and callers of `changed`."""
        if self._quiet is not None:
            self._quiet.cancel()
            self._quiet = None
        if self._state.finder.waiting and self.running:
            self._quiet = self._clock.call_later(QUIET_SECONDS, self._is_quiet)
        self._changed.set()
        self._changed = asyncio.Event()
        for watcher in self._watchers:
            watcher.wake.set()

    def _first(self, raw: bool) -> TerminalOutput:
        """The first output of a watcher, or the first after it fell behind."""
        tail, size = self._state.tail, self._state.size
        if tail is not None and (raw or tail.empty):
            return TerminalOutput(tail.data(), size=size)
        return TerminalOutput(self._drawn(), redraw=True, size=size)

    def _drawn(self) -> bytes:
        version, drawn = self._redraw
        if version != self._version:
            drawn = self._state.redraw()
            self._redraw = (self._version, drawn)
        return drawn

    def _fit(self) -> None:
        """Resize to the smallest watcher that writes: unused room on a larger screen is better than a program drawn
        beyond the edge."""
        sizes = self._sizes.values() or (self._state.size if self._shell else self._own_size,)
        size = Size(min(s.columns for s in sizes), min(s.rows for s in sizes))
        if size == self._state.size or not self.running:
            return
        with contextlib.suppress(OSError):
            self._child.resize(size.columns, size.rows)
        self._state.resize(size)
        if self._recording is not None:
            self._recording.resized(size)
        # At once: further output is for the new size.
        self._child.save()
        self._version += 1
        for watcher in self._watchers:
            watcher.void()
        self._wake()
