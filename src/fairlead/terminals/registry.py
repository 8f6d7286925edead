"""All terminals of a gateway, by name: bounded in number, all stopped when the gateway stops."""

import asyncio
import errno
import logging
from dataclasses import dataclass, field

from fairlead.model.errors import AgentMissing, BadRequest, Busy, TooMany
from fairlead.system.clock import Clock
from fairlead.system.process import StopTimeouts
from fairlead.system.pty import PtyChild, spawn_on_pty
from fairlead.system.sandbox import Sandbox
from fairlead.terminals.api import Program
from fairlead.terminals.pty_session import PtySession, fit

log = logging.getLogger("fairlead.terminals")


@dataclass(eq=False, repr=False)
class TerminalRegistry:
    """Implements `terminals.api.Terminals`. `agents` and `people` are the sandboxes of their programs."""

    _clock: Clock
    _most: int
    _patience: StopTimeouts = field(default_factory=StopTimeouts)
    agents: Sandbox | None = None
    people: Sandbox | None = None
    _terminals: dict[str, PtySession] = field(default_factory=dict)
    _opening: dict[str, asyncio.Task[PtyChild]] = field(default_factory=dict)
    _opened: asyncio.Event = field(default_factory=asyncio.Event)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def open(self, name: str, program: Program) -> PtySession:
        found = self._terminals.get(name)
        if name in self._opening or (found is not None and found.running):
            raise Busy(f"The terminal {name} exists already.", terminal=name)
        if len(self.names()) + len(self._opening) >= self._most:
            raise TooMany(
                f"{self._most} terminals are open: close one, or start the gateway with more (max_terminals)."
            )
        opening = self._opening[name] = asyncio.create_task(self._start(program))
        try:
            child = await opening
        finally:
            del self._opening[name]
        terminal = PtySession(name, child, program, self._clock, self._patience, self._turn)
        log.info("terminal opened", extra={"terminal": name, "pid": child.pid})
        self._terminals.pop(name, None)
        self._terminals[name] = terminal
        self._forget()
        self._opened.set()
        self._opened = asyncio.Event()
        return terminal

    async def opened(self, name: str) -> PtySession:
        """Wait for the next terminal that is opened under that name."""
        before = self.find(name)
        while (found := self.find(name)) is None or found is before:
            await self._opened.wait()
        return found

    def find(self, name: str) -> PtySession | None:
        return self._terminals.get(name)

    def names(self) -> tuple[str, ...]:
        """The names of the running terminals."""
        return tuple(name for name, terminal in self._terminals.items() if terminal.running)

    async def close(self) -> None:
        """Stop every program. No terminal is opened after this is called."""
        for opening in self._opening.values():
            opening.cancel()
        await asyncio.gather(*(terminal.stop() for terminal in self._terminals.values() if terminal.running))

    async def _start(self, program: Program) -> PtyChild:
        size = fit(program.size)
        try:
            return await spawn_on_pty(
                program.argv,
                env=program.env,
                cwd=program.cwd,
                columns=size.columns,
                rows=size.rows,
                clock=self._clock,
                sandbox=self.people if program.shell else self.agents,
            )
        except OSError as error:
            if error.filename == program.cwd:
                raise BadRequest(
                    f"The working folder {program.cwd} cannot be used: {error.strerror}.", path=program.cwd
                ) from error
            raise AgentMissing(
                f"{program.argv[0]} cannot be started in a terminal: {error.strerror}.",
                path=program.argv[0],
                errno=errno.errorcode.get(error.errno or 0, ""),
            ) from error

    def _forget(self) -> None:
        """Drop ended terminals above the limit, the oldest first."""
        ended = [name for name, terminal in self._terminals.items() if not terminal.running]
        for name in ended[: max(0, len(self._terminals) - self._most)]:
            del self._terminals[name]
