"""Users' shells: each belongs to a user and has a name, runs in the allowed roots with an environment built from
scratch, is shared by all sockets of its user, and is stopped when it has been idle for long.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import msgspec

from fairlead.model.agents import Exit
from fairlead.model.auth import Identity
from fairlead.model.errors import BadRequest, NotFound
from fairlead.model.web.requests import ServiceHandlers
from fairlead.system.clock import Clock, ends_within
from fairlead.system.tasks import TaskSet
from fairlead.terminals.api import EndShell, JoinShell, ListShells, Program, ShareShell, ShellView, Size
from fairlead.terminals.attachment import SocketAttachment
from fairlead.terminals.launcher.programs import Provider
from fairlead.terminals.pty_session import PtySession
from fairlead.terminals.registry import TerminalRegistry

log = logging.getLogger("fairlead.terminals")

SIZE: Final = Size(80, 24)
"""The initial size, until a client sets another: that of terminals since the VT100."""
WARNING_SECONDS: Final = 60.0
WARNING: Final = "\r\n[This terminal has been idle. It is closed in {} seconds: press a key to keep it.]\r\n"
LEFT_WARNING: Final = "\r\n[No client watches this terminal. It is closed in {} seconds.]\r\n"
_PREFIX: Final = "user/"
_LAUNCHER_PREFIX: Final = "desk/"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NO_FILE_NAME = re.compile(r"[^A-Za-z0-9._-]")
_INHERITED: Final = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")
"""Variables that shells inherit: identity, place and language of the user; no token, key or address of the gateway."""


class ShellSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`recordings` is the folder for recordings; if empty, nothing is recorded. `providers`: the programs, besides the
    shell, that a client may start on a terminal, by name."""

    program: str
    env: Mapping[str, str]
    idle_s: float = 30 * 60.0
    recordings: str = ""
    providers: Mapping[str, Provider] = {}


def shell_environment(host: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a shell, from the host's environment."""
    chosen = {name: host[name] for name in _INHERITED if name in host}
    if not any("utf" in chosen.get(name, "").lower() for name in ("LC_ALL", "LC_CTYPE", "LANG")):
        chosen["LC_ALL"] = "C.UTF-8"
    return chosen | {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


@dataclass(eq=False, repr=False)
class UserShells:
    """Handlers of the service calls about shells; starts and stops users' programs. `_folder` resolves a folder inside
    the roots, or raises."""

    _terminals: TerminalRegistry
    _clock: Clock
    settings: ShellSettings
    _folder: Callable[[str], str]
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _starting: dict[str, asyncio.Task[PtySession]] = field(default_factory=dict)
    _tasks: TaskSet = field(default_factory=TaskSet)
    _watchers: dict[str, set[SocketAttachment]] = field(default_factory=dict)

    def handlers(self) -> ServiceHandlers:
        return {JoinShell: self.join, ListShells: self.list, ShareShell: self.share, EndShell: self.end}

    async def begin(self) -> None:
        """Continue the terminals of people that were restored after a restart."""
        for name in self._terminals.restored_names():
            if name.startswith((_PREFIX, _LAUNCHER_PREFIX)) and (terminal := self._terminals.adopted(name)) is not None:
                self._tasks.spawn(self._watch_idle(terminal, terminal.tag.get("by_use", True)))

    async def list(self, who: Identity, action: ListShells) -> tuple[ShellView, ...]:
        names = (name for name in self._terminals.names() if name.startswith(_PREFIX))
        running = (terminal for name in sorted(names) if (terminal := self.find(name)) is not None)
        own = _own(who.user)
        return tuple(self._view(terminal) for terminal in running if terminal.name.startswith(own) or _shared(terminal))

    async def share(self, who: Identity, action: ShareShell) -> ShellView:
        terminal = self._running(who.user, action.name)
        name = terminal.name
        terminal.note(shared=action.shared)
        if not action.shared:
            for watcher in self._watchers.pop(name, set()):
                watcher.dismiss("the terminal is no longer shared")
        log.info("shell shared", extra={"terminal": name, "shared": action.shared, "who": who.name})
        return self._view(terminal)

    async def end(self, who: Identity, action: EndShell) -> Exit:
        terminal = self._running(who.user, action.name)
        log.info("shell ended", extra={"terminal": terminal.name, "who": who.name})
        return await terminal.stop()

    def _running(self, user: str, name: str) -> PtySession:
        terminal = self.find(_named(user, name))
        if terminal is None:
            raise NotFound("terminal", name)
        return terminal

    def _view(self, terminal: PtySession) -> ShellView:
        owner, _, bare = terminal.name.removeprefix(_PREFIX).rpartition("/")
        return ShellView(
            name=bare,
            owner=owner,
            size=terminal.screen.size,
            shared=_shared(terminal),
            watched=terminal.watched,
            idle_s=round(self._clock.monotonic() - terminal.touched, 1),
        )

    async def join(self, who: Identity, action: JoinShell) -> SocketAttachment:
        if action.owner and action.owner != who.user:
            return self._watch(who, action)
        name = _named(who.user, action.name)
        begun = False
        terminal = self.find(name)
        if terminal is None and action.read_only and name not in self._starting:
            raise NotFound("terminal", action.name)
        if terminal is None:
            begun = name not in self._starting
            terminal = await self.start(name, lambda: self.program(who.user, action.name, action.folder), by_use=True)
        log.info("shell joined", extra={"terminal": name, "who": who.name, "credential": who.credential})
        return SocketAttachment(
            terminal,
            action.codec,
            f"{who.credential}/{next(self._numbers)}",
            raw=begun or action.raw,
            read_only=action.read_only,
        )

    def find(self, name: str) -> PtySession | None:
        """The running terminal of that name."""
        found = self._terminals.find(name)
        return found if found is not None and found.running else None

    async def start(self, name: str, program: Callable[[], Program], *, by_use: bool) -> PtySession:
        """Start a terminal. Callers that come while it starts get the same one; a caller that leaves does not cancel
        it.

        `by_use`: stop it when it was not used for `idle_s`, even if it has watchers; else when it had no watcher for
        that long."""
        task = self._starting.get(name)
        if task is None:
            task = self._starting[name] = self._tasks.spawn(self._start(name, program(), by_use), awaited=True)
        return await asyncio.shield(task)

    def program(
        self, user: str, name: str, folder: str, size: Size = SIZE, argv: Sequence[str] | None = None
    ) -> Program:
        """A program of this user, by default the shell. Its recording has `name` in its file name."""
        settings, recording = self.settings, ""
        if settings.recordings:
            owner = _NO_FILE_NAME.sub("_", user)
            recording = f"{settings.recordings}/{self._clock.now_ms()}-{owner}-{name}.cast"
        return Program(
            argv=(settings.program,) if argv is None else argv,
            env=settings.env,
            cwd=self._folder(folder),
            size=size,
            shell=True,
            recording=recording,
            tag={"user": user},
        )

    def _watch(self, who: Identity, action: JoinShell) -> SocketAttachment:
        """Watch another user's shell, read-only, if it is shared. Raises NotFound."""
        terminal = self._running(action.owner, action.name)
        name = terminal.name
        if not _shared(terminal):
            raise NotFound("terminal", action.name)
        log.info("shell watched", extra={"terminal": name, "who": who.name, "credential": who.credential})
        joined = SocketAttachment(terminal, action.codec, f"{who.credential}/{next(self._numbers)}", read_only=True)
        watchers = self._watchers.setdefault(name, set())
        watchers.add(joined)
        joined.left = lambda: watchers.discard(joined)
        return joined

    async def forget(self, user: str) -> None:
        """Stop all terminals of a user who was removed."""
        own = (_own(user), launcher_prefix(user))
        names = [name for name in self._terminals.names() if name.startswith(own)]
        await asyncio.gather(*(terminal.stop() for name in names if (terminal := self.find(name)) is not None))

    async def close(self) -> None:
        """Stop the idle timers; the registry stops the programs."""
        await self._tasks.close()

    async def _start(self, name: str, program: Program, by_use: bool) -> PtySession:
        try:
            tagged = msgspec.structs.replace(program, tag={**program.tag, "by_use": by_use})
            terminal = await self._terminals.open(name, tagged)
        finally:
            del self._starting[name]
        self._tasks.spawn(self._watch_idle(terminal, by_use))
        return terminal

    async def _watch_idle(self, terminal: PtySession, by_use: bool) -> None:
        try:
            await self._stop_when_idle(terminal, by_use)
        finally:
            self._watchers.pop(terminal.name, None)

    async def _stop_when_idle(self, terminal: PtySession, by_use: bool) -> None:
        """Stop a terminal that was idle for too long, after a warning: even if the gateway was away meanwhile."""
        idle = self.settings.idle_s
        ahead = min(WARNING_SECONDS, idle / 2)
        warned: float | None = None
        due = 0.0
        while terminal.running:
            now = self._clock.monotonic()
            since = terminal.touched if by_use else now if terminal.left is None else terminal.left
            if warned != since:
                due = since + idle - ahead
            if now >= due and warned == since:
                log.info("idle terminal ended", extra={"terminal": terminal.name, "pid": terminal.pid})
                await terminal.stop()
                return
            if now >= due:
                warned, due = since, now + ahead
                terminal.print_notice((WARNING if by_use else LEFT_WARNING).format(round(ahead)))
            await ends_within(self._clock, due - now, terminal.wait())


def _own(user: str) -> str:
    return f"{_PREFIX}{user}/"


def _shared(terminal: PtySession) -> bool:
    return terminal.notes.get("shared", False) is True


def launcher_prefix(user: str) -> str:
    """The name prefix of this user's programs in `launcher.service.ProgramLauncher`."""
    return f"{_LAUNCHER_PREFIX}{user}/"


def _named(user: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise BadRequest("A terminal's name has up to 64 letters, digits, dots, dashes and underscores.")
    return _own(user) + name
