"""Attaches users to the programs that they request: shells, configured programs, and the gateway's sessions.

A program belongs to a user and is identified by its key. A session's agent is never started a second time: the session
is handed over to a terminal, so that its conversation has one writer, and back when the program has ended there.
"""

import asyncio
import contextlib
import logging
import os
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec

from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.agents import Exit
from fairlead.model.auth import Identity
from fairlead.model.errors import AgentFailed, BadId, FairleadError, NotFound, RequestRejected, StoreError
from fairlead.model.gateway import Gateway
from fairlead.model.ids import SessionId
from fairlead.model.store import Documents
from fairlead.model.web.requests import ServiceHandlers
from fairlead.system.clock import Clock, ends_within
from fairlead.system.tasks import TaskSet
from fairlead.terminals.api import (
    OpenLauncher,
    Program,
    ProgramAttached,
    ProgramRequest,
    session_of_terminal,
    session_terminal,
)
from fairlead.terminals.launcher.attachment_switch import AttachTarget, ProgramSwitch
from fairlead.terminals.launcher.programs import command_keys, key, resumes, words
from fairlead.terminals.pty_session import PtySession
from fairlead.terminals.registry import TerminalRegistry
from fairlead.terminals.shells import UserShells, launcher_prefix

log = logging.getLogger("fairlead.terminals")

LINKS: Final = "desk-links"
"""Documents with the link that a session returns to from the terminal."""
KEYS: Final = "launcher-keys"
"""The note of a session's terminal with the keys of the requests that led to it."""
TYPED: Final = "typed"
"""The note of a shell whose command was typed."""
ITSELF: Final = Identity("", "", "fairlead", frozenset({"admin"}))
PROMPT_SECONDS: Final = 2.0
"""How long to wait for a shell's prompt before its command is typed anyway."""
RESUME_SECONDS: Final = 10.0
"""A program that fails within this time could not resume its conversation: it is started again without it."""


async def _no_request(exit: Exit) -> None:
    return None


@dataclass(eq=False, repr=False)
class ProgramLauncher:
    """Handler of `OpenLauncher`. `_folder` resolves a folder inside the roots, or raises."""

    _terminals: TerminalRegistry
    _shells: UserShells
    _gateway: Gateway
    _documents: Documents
    _clock: Clock
    _folder: Callable[[str], str]
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    _sessions: dict[str, tuple[SessionId, PtySession]] = field(default_factory=dict)
    _beginning: dict[str, asyncio.Task[PtySession]] = field(default_factory=dict)
    _tasks: TaskSet = field(default_factory=TaskSet)

    def handlers(self) -> ServiceHandlers:
        return {OpenLauncher: self.open}

    async def open(self, who: Identity, action: OpenLauncher) -> ProgramSwitch:
        def enter(wanted: ProgramRequest, lost: str) -> Awaitable[AttachTarget]:
            return self._enter(who, wanted, lost, action.agents)

        return ProgramSwitch(action.codec, f"{who.credential}/launcher{next(self._numbers)}", enter)

    async def start(self) -> None:
        """Continue with the programs of an earlier gateway, and restore the link of sessions whose terminal ended with
        it."""
        for name in self._terminals.names():
            terminal = self._shells.find(name)
            if terminal is None:
                continue
            for known in terminal.notes.get(KEYS, ()):
                self._attend(known, SessionId(session_of_terminal(name)), "terminal", terminal)
            if "command" in terminal.tag and not terminal.notes.get(TYPED):
                self._begin(name, partial(self._type, terminal, terminal.tag["command"]))
        for stored, link in (await self._documents.list(LINKS)).items():
            session = SessionId(stored)
            terminal = self._shells.find(session_terminal(session))
            waits = self._put_back(session, link) if terminal is None else self._after("", session, link, terminal)
            self._tasks.spawn(waits)

    async def close(self) -> None:
        """Cancel the background tasks; the registry stops the programs."""
        await self._tasks.close()

    async def _enter(self, who: Identity, wanted: ProgramRequest, lost: str, agents: frozenset[str]) -> AttachTarget:
        folder = _real(wanted.folder) if wanted.folder else self._folder("")
        name = key(who.user, folder, wanted)
        async with self._lock(name):
            if wanted.provider in agents:
                place = await self._session(who, name, folder, wanted, lost)
            else:
                place = await self._program(who, name, folder, wanted, lost)
        extra = {"terminal": place.terminal.name, "who": who.name, "credential": who.credential}
        log.info("shell joined", extra=extra)
        return place

    def _lock(self, name: str) -> asyncio.Lock:
        """The lock of a key, or of a session's terminal."""
        return self._locks.setdefault(name, asyncio.Lock())

    # --- a shell, or a configured program

    async def _program(self, who: Identity, name: str, folder: str, wanted: ProgramRequest, lost: str) -> AttachTarget:
        name = launcher_prefix(who.user) + name
        terminal = self._shells.find(name)
        if terminal is not None and wanted.restart:
            await terminal.stop()
            self._beginning.pop(name, None)
            terminal = None
        if terminal is not None:
            return AttachTarget(terminal, _attached(folder, wanted, again=True), False, _no_request)
        argv = words(self._shells.settings.providers, wanted) if wanted.provider else None
        program = self._shells.program(who.user, name.rpartition("/")[2][:16], folder, wanted.size, argv)
        if wanted.command:
            program = msgspec.structs.replace(program, tag={**program.tag, "command": wanted.command})
        begun = await asyncio.shield(self._begin(name, partial(self._started, name, program)))
        resumed = wanted.session if resumes(self._shells.settings.providers, wanted) else ""
        at = self._clock.monotonic()

        async def again(exit: Exit) -> tuple[ProgramRequest, str] | None:
            if not resumed or not exit.code or self._clock.monotonic() - at > RESUME_SECONDS:
                return None
            return msgspec.structs.replace(wanted, resume=False), f"it ended at once with code {exit.code}"

        return AttachTarget(begun, _attached(folder, wanted, resumed=resumed, lost=lost), True, again)

    def _begin(self, name: str, start: Callable[[], Coroutine[Any, Any, PtySession]]) -> asyncio.Task[PtySession]:
        """Start a program once: a client that comes while it starts for one that has left gets the same."""
        task = self._beginning.get(name)
        if task is None:
            task = self._beginning[name] = self._tasks.spawn(start(), awaited=True)
            task.add_done_callback(lambda ended: self._beginning.get(name) is ended and self._beginning.pop(name))
        return task

    async def _started(self, name: str, program: Program) -> PtySession:
        """Start a program, and type its command. A caller that leaves meanwhile cancels neither."""
        terminal = await self._shells.start(name, lambda: program, by_use=False)
        return await self._type(terminal, program.tag["command"]) if "command" in program.tag else terminal

    async def _type(self, terminal: PtySession, command: str) -> PtySession:
        """Type a command after the prompt, so that it is shown once."""
        await ends_within(self._clock, PROMPT_SECONDS, terminal.changed(1))
        with contextlib.suppress(AgentFailed):
            # With a key: a gateway that is restarted before the note would type it again.
            await terminal.write(command_keys(self._shells.settings.program, command), "command")
        terminal.note(**{TYPED: True})
        return terminal

    # --- one of the gateway's sessions

    async def _session(self, who: Identity, name: str, folder: str, wanted: ProgramRequest, lost: str) -> AttachTarget:
        known = self._sessions.get(name)
        if known is not None and known[1].running:
            # Check access again: the session may no longer be shared with this user.
            await self._gateway.ask(who, q.GetSession(session=known[0]))
            if not wanted.restart:
                return AttachTarget(known[1], _attached(folder, wanted, again=True), False, _no_request)
            await self._gateway.command(who, cmd.Close(session=known[0]))
        real = self._folder(folder)
        if wanted.resume and wanted.session:
            try:
                return await self._resumed(who, name, wanted)
            except (AgentFailed, NotFound, BadId) as error:
                if "capability" in error.data:
                    raise  # no agent of this kind has a terminal
                lost = error.message
                extra = {"session": wanted.session, "error": lost}
                log.info("a session could not be resumed in a terminal", extra=extra)
        session = SessionId(str(uuid.uuid4()))
        await self._gateway.command(who, cmd.Create(session=session, cwd=real, agent=wanted.provider))
        try:
            terminal, _ = await self._tasks.shield(self._move(who, name, session, "stdio"))
        except FairleadError:
            with contextlib.suppress(FairleadError):
                await self._gateway.command(who, cmd.Delete(session=session))
            raise
        return AttachTarget(terminal, _attached(real, wanted, lost=lost), False, _no_request)

    async def _resumed(self, who: Identity, name: str, wanted: ProgramRequest) -> AttachTarget:
        view: q.SessionView = await self._gateway.ask(who, q.GetSession(session=SessionId(wanted.session)))
        session = view.summary.session
        there = self._shells.find(session_terminal(session))
        if there is not None and wanted.restart:
            await self._gateway.command(who, cmd.Close(session=session))
            there = None
        async with self._lock(session_terminal(session)):
            # Not while its link is being restored.
            view = await self._gateway.ask(who, q.GetSession(session=session))
            back = await self._documents.get(LINKS, session) or msgspec.convert(view.settings, cmd.Settings).link
        terminal, moving = await self._tasks.shield(self._move(who, name, session, back))

        async def start_new(exit: Exit) -> tuple[ProgramRequest, str] | None:
            """Start a new conversation if the handover failed, because the program ended before it was ready."""
            try:
                with contextlib.suppress(RequestRejected, StoreError):
                    await asyncio.shield(moving)
            except AgentFailed as error:
                return msgspec.structs.replace(wanted, resume=False), error.message
            return None

        cwd, conversation = view.summary.cwd, view.summary.agent_session or session
        attached = _attached(cwd, wanted, again=there is terminal, resumed=conversation)
        return AttachTarget(terminal, attached, False, start_new)

    async def _move(
        self, who: Identity, name: str, session: SessionId, back: cmd.Link
    ) -> tuple[PtySession, "asyncio.Task[cmd.Reply]"]:
        """The session's terminal, as soon as it is open: the agent's questions at its start are answered there. Raises
        Busy while a turn runs. `back`: the link to restore afterwards."""
        place = session_terminal(session)
        async with self._lock(place):
            terminal = self._shells.find(place)
            opened = self._tasks.spawn(self._terminals.opened(place), awaited=True)
            handover = cmd.StartHandover(session=session, link="terminal", wait=False)
            moving = self._tasks.spawn(self._gateway.command(who, handover), awaited=True)
            if terminal is None:
                await asyncio.wait({moving, opened}, return_when=asyncio.FIRST_COMPLETED)
                terminal = opened.result() if opened.done() else None
            opened.cancel()
            if terminal is None:
                await moving
                terminal = self._shells.find(place)
            if terminal is None:
                raise NotFound("terminal", place)
            if back != "terminal":
                await self._documents.put(LINKS, session, back)
            if self._sessions.get(name) != (session, terminal):
                terminal.note(**{KEYS: [*terminal.notes.get(KEYS, ()), name]})
                self._attend(name, session, back, terminal)
        return terminal, moving

    def _attend(self, name: str, session: SessionId, back: cmd.Link, terminal: PtySession) -> None:
        """Find the session's terminal by this key from now on, and restore the session's link at its end."""
        self._sessions[name] = (session, terminal)
        self._tasks.spawn(self._after(name, session, back, terminal))

    async def _after(self, name: str, session: SessionId, back: cmd.Link, terminal: PtySession) -> None:
        """Restore the session's link when its program has ended, even if the client is gone: a later message must not
        start the agent in the terminal again."""
        await terminal.wait()
        if self._sessions.get(name) == (session, terminal):
            del self._sessions[name]
        if back != "terminal":
            await self._put_back(session, back)

    async def _put_back(self, session: SessionId, link: cmd.Link) -> None:
        place = session_terminal(session)
        async with self._lock(place):
            if self._shells.find(place) is not None:
                return  # it runs in a terminal again, and its link is restored when that ends
            try:
                view: q.SessionView = await self._gateway.ask(ITSELF, q.GetSession(session=session))
                settings = msgspec.convert(view.settings, cmd.Settings)
                if settings.link == "terminal":
                    changed = msgspec.structs.replace(settings, link=link)
                    await self._gateway.command(ITSELF, cmd.Configure(session=session, settings=changed))
            except NotFound:
                pass  # the session was deleted
            except FairleadError as error:
                log.warning(
                    "the link of a session was not restored", extra={"session": session, "error": error.message}
                )
                return
            await self._documents.delete(LINKS, session)


def _real(folder: str) -> str:
    return os.path.realpath(folder)


def _attached(
    folder: str, wanted: ProgramRequest, *, again: bool = False, resumed: str = "", lost: str = ""
) -> ProgramAttached:
    return ProgramAttached(folder=folder, provider=wanted.provider, again=again, resumed=resumed, lost=lost)
