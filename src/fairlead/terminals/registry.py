"""All terminals of a gateway, by name: bounded in number. Where there is a keeper, their programs run there, and the
next gateway continues the terminals; other programs are stopped when the gateway stops.
"""

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from fairlead.keeper.client import KeeperLost, ProcessSpec
from fairlead.model.errors import AgentMissing, BadRequest, Busy, TooMany
from fairlead.system.clock import Clock
from fairlead.system.process import StopTimeouts
from fairlead.system.pty import spawn_on_pty
from fairlead.system.sandbox import Sandbox
from fairlead.terminals.api import Program
from fairlead.terminals.children import DirectChild, KeptChild, KeptProgram, TerminalChild
from fairlead.terminals.memo import TerminalTag, decode_memo, read_tag
from fairlead.terminals.pty_session import PtySession, fit

log = logging.getLogger("fairlead.terminals")


class TerminalKeeper(Protocol):
    """The part of `keeper.client.Keeper` that is used here."""

    async def spawn(self, spec: ProcessSpec) -> KeptProgram: ...


@dataclass(eq=False, repr=False)
class TerminalRegistry:
    """Implements `terminals.api.Terminals`. `agents` and `people` are the sandboxes of their programs. `keeper` returns
    the connection to the keeper, and is called for every program; without it the programs are children of the gateway.
    """

    _clock: Clock
    _most: int
    _patience: StopTimeouts = field(default_factory=StopTimeouts)
    agents: Sandbox | None = None
    people: Sandbox | None = None
    keeper: Callable[[], Awaitable[TerminalKeeper]] | None = None
    _terminals: dict[str, PtySession] = field(default_factory=dict)
    _opening: dict[str, asyncio.Task[TerminalChild]] = field(default_factory=dict)
    _opened: asyncio.Event = field(default_factory=asyncio.Event)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _unadopted: dict[str, PtySession] = field(default_factory=dict)
    _unwanted: list[KeptProgram] = field(default_factory=list)

    async def open(self, name: str, program: Program) -> PtySession:
        found = self._terminals.get(name)
        if name in self._opening or (found is not None and found.running):
            raise Busy(f"The terminal {name} exists already.", terminal=name)
        if len(self.names()) + len(self._opening) >= self._most:
            raise TooMany(
                f"{self._most} terminals are open: close one, or start the gateway with more (max_terminals)."
            )
        opening = self._opening[name] = asyncio.create_task(self._start(name, program))
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

    def restore(self, found: Iterable[KeptProgram], is_user: Callable[[str], bool]) -> None:
        """Continue the terminals of an earlier gateway, whose programs the keeper has. Each of them waits for its
        owner, who calls `adopted`. A program whose tag has a `user` who does not exist any more is not continued."""
        for process in reversed(tuple(found)):  # the newest first: an older one of that name is left over
            tag = read_tag(process.tag)
            if tag is None:
                continue
            user = tag.more.get("user")
            if tag.name in self._terminals or (user is not None and not is_user(user)):
                self._unwanted.append(process)
                continue
            memo = decode_memo(process.memo)
            if memo is None:
                log.warning("the screen of a terminal is not restored", extra={"terminal": tag.name})
            terminal = PtySession(
                tag.name,
                KeptChild(process, self._clock, memo),
                Program(argv=(), env={}, cwd="", size=tag.size, shell=tag.shell, recording=tag.recording, tag=tag.more),
                self._clock,
                self._patience,
                self._turn,
                memo.saved if memo is not None else None,
            )
            log.info("terminal restored", extra={"terminal": tag.name, "pid": process.pid})
            self._terminals[tag.name] = self._unadopted[tag.name] = terminal

    def adopted(self, name: str) -> PtySession | None:
        """The restored terminal of that name, for its owner: it is not ended by `end_unadopted`."""
        return self._unadopted.pop(name, None)

    def restored_names(self) -> tuple[str, ...]:
        """The names of the restored terminals that were not adopted yet."""
        return tuple(self._unadopted)

    async def end_unadopted(self) -> None:
        """End the restored programs that have no owner any more."""
        left = list(self._unadopted.values())
        self._unadopted.clear()
        for terminal in left:
            log.info("terminal without an owner ended", extra={"terminal": terminal.name, "pid": terminal.pid})
            if self._terminals.get(terminal.name) is terminal:
                del self._terminals[terminal.name]
        unwanted = [self._end(process) for process in self._unwanted]
        self._unwanted.clear()
        await asyncio.gather(*(terminal.stop() for terminal in left), *unwanted)

    async def close(self, detach: bool = False) -> None:
        """Stop every program; `detach`: programs at the keeper continue. No terminal is opened after this is called."""
        for opening in self._opening.values():
            opening.cancel()
        running = [terminal for terminal in self._terminals.values() if terminal.running]
        await asyncio.gather(
            *(terminal.detach() if detach and terminal.survives else terminal.stop() for terminal in running)
        )

    async def _start(self, name: str, program: Program) -> TerminalChild:
        size = fit(program.size)
        sandbox = self.people if program.shell else self.agents
        try:
            kept = await self._start_at_keeper(name, program, sandbox)
            if kept is not None:
                return KeptChild(kept, self._clock)
            return DirectChild(
                await spawn_on_pty(
                    program.argv,
                    env=program.env,
                    cwd=program.cwd,
                    columns=size.columns,
                    rows=size.rows,
                    clock=self._clock,
                    sandbox=sandbox,
                )
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

    async def _start_at_keeper(self, name: str, program: Program, sandbox: Sandbox | None) -> KeptProgram | None:
        """Start a program at the keeper. None if there is no keeper, or if it does not answer: a person gets a shell
        anyway. Raises OSError as `spawn_on_pty`."""
        if self.keeper is None:
            return None
        size = fit(program.size)
        tag = TerminalTag(
            name=name, size=size, shell=program.shell, recording=program.recording, more=dict(program.tag)
        )
        try:
            keeper = await self.keeper()
        except OSError as error:
            log.error("no keeper answers: a terminal will end with the gateway", extra={"error": str(error)})
            return None
        try:
            return await keeper.spawn(
                ProcessSpec(
                    argv=program.argv,
                    env=program.env,
                    cwd=program.cwd,
                    tag=msgspec.to_builtins(tag),
                    sandbox=sandbox,
                    size=(size.columns, size.rows),
                )
            )
        except KeeperLost as error:
            log.error("the keeper is gone: a terminal will end with the gateway", extra={"error": str(error)})
            return None

    async def _end(self, process: KeptProgram) -> None:
        await process.end(self._patience)
        process.forget()

    def _forget(self) -> None:
        """Drop ended terminals above the limit, the oldest first."""
        ended = [name for name, terminal in self._terminals.items() if not terminal.running]
        for name in ended[: max(0, len(self._terminals) - self._most)]:
            del self._terminals[name]
