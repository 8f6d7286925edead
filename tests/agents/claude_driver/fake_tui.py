"""A fake terminal whose program behaves like the interactive CLI, as far as its driver can see."""

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

from fairlead.model.agents import Exit
from fairlead.model.errors import AgentNotRunning, Busy
from fairlead.terminals.api import Program, Screen, Size, Terminal, TerminalOutput
from fairlead_testing.clock import ManualClock

RULE = "─" * 60


class FakeTui:
    """Implements `terminals.api.Terminal`. Submitted text is written to `transcript` and added to `submitted`."""

    def __init__(self, transcript: Path, name: str = "session/x") -> None:
        self.name = name
        self.pid, self.started, self.group = 4711, "1", 4711
        self.tag: dict[str, Any] = {}
        self.transcript = transcript
        self.writes: list[bytes] = []
        self.submitted: list[str] = []
        self.up = False
        self.box = ""
        self.working = False
        self.dialog: tuple[str, ...] = ()
        self.deaf = 0
        """How many Enter keys to ignore."""
        self.blind = False
        """Do not show typed text."""
        self.silent = False
        """Do not write submitted text to the transcript."""
        self.survives = False
        self.on_escape: Callable[[], None] = lambda: None
        self.exit: Exit | None = None
        self._version = 1
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()

    # --- the port

    @property
    def running(self) -> bool:
        return self.exit is None

    @property
    def watched(self) -> bool:
        return False

    @property
    def touched(self) -> float:
        return 0.0

    @property
    def screen(self) -> Screen:
        return Screen(self._lines(), 0, 0, Size(), self._version)

    async def changed(self, version: int) -> Screen:
        while self._version <= version and self.running:
            await self._changed.wait()
        return self.screen

    async def write(self, data: bytes) -> None:
        if not self.running:
            raise AgentNotRunning("ended")
        self.writes.append(data)
        self._take(data)
        self.draw()

    def resize(self, size: Size, who: str = "") -> None:
        pass

    async def watch(self, who: str = "", raw: bool = False) -> AsyncGenerator[TerminalOutput, None]:
        yield TerminalOutput(b"")

    def print_notice(self, text: str) -> None:
        pass

    async def wait(self) -> Exit:
        await self._ended.wait()
        assert self.exit is not None
        return self.exit

    async def stop(self) -> Exit:
        self.end(Exit(signal=1))
        return await self.wait()

    # --- for tests

    def end(self, exit: Exit) -> None:
        self.exit = self.exit or exit
        self._ended.set()
        self.draw()

    def draw(self, **changes: Any) -> None:
        for name, value in changes.items():
            setattr(self, name, value)
        self._version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def row(self, kind: str, content: Any, **fields: Any) -> str:
        """Append a row to the transcript and return its uuid."""
        name = str(uuid.uuid4())
        message = {"role": kind, "content": content, **fields.pop("message", {})}
        line = {"type": kind, "uuid": name, "message": message, "isSidechain": False, "version": "2.1.325", **fields}
        self.transcript.parent.mkdir(parents=True, exist_ok=True)
        with self.transcript.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return name

    def answer(self, words: str = "done", **fields: Any) -> str:
        content = [{"type": "text", "text": words}]
        return self.row("assistant", content, message={"id": words, "stop_reason": "end_turn"}, **fields)

    # --- private

    def _lines(self) -> tuple[str, ...]:
        if not self.up:
            return ("Welcome",)
        if self.dialog:
            return (RULE, *self.dialog, " ❯ 1. Yes", "   2. No", " Enter to confirm · Esc to cancel")
        first, *rest = ("" if self.blind else self.box).split("\n")
        hints = "  esc to interrupt" if self.working else "" if first or rest else "  ? for shortcuts"
        return ("● hello", RULE, f"❯ {first}".rstrip(), *(f"  {line}" for line in rest), RULE, hints)

    def _take(self, data: bytes) -> None:
        if data == b"\r":
            if self.deaf:
                self.deaf -= 1
            elif self.box:
                self._submit()
        elif data == b"\x1b":
            self.on_escape()
        elif data == b"\x15":
            head, mark, _ = self.box.rpartition("\n")
            self.box = head + mark
        elif data == b"\x7f":
            self.box = self.box[:-1]
        else:
            self.box += data.removeprefix(b"\x1b[200~").removesuffix(b"\x1b[201~").decode()

    def _submit(self) -> None:
        self.submitted.append(self.box)
        if not self.silent:
            self.row("user", self.box)
        self.box = ""


class FakeTerminals:
    """Implements `terminals.api.Terminals`: `make` creates the terminal of each program."""

    def __init__(self, make: Callable[[Program], FakeTui]) -> None:
        self.make = make
        self.opened: list[tuple[str, Program, FakeTui]] = []
        self.restored: dict[str, FakeTui] = {}
        """Terminals of an earlier gateway."""

    async def open(self, name: str, program: Program) -> Terminal:
        if any(other == name and tui.running for other, _, tui in self.opened):
            raise Busy("There is one.", terminal=name)
        tui = self.make(program)
        self.opened.append((name, program, tui))
        return tui

    def find(self, name: str) -> Terminal | None:
        return next((tui for other, _, tui in reversed(self.opened) if other == name), None)

    def adopted(self, name: str) -> Terminal | None:
        return self.restored.pop(name, None)

    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _, tui in self.opened if tui.running)


async def passing(clock: ManualClock, reached: Callable[[], object], most: float = 300.0) -> None:
    """Advance the clock and run the event loop until a condition holds."""
    end = clock.monotonic() + most
    while not reached():
        assert clock.monotonic() < end, "it did not come about"
        await clock.advance(0.05)
        await asyncio.sleep(0.001)
