"""Claude Code as a kind of agent: finds and starts the CLI, and follows a process that outlived the gateway."""

import asyncio
import os
import shlex
import shutil
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fairlead.agents.claude.dialin.link import ClaudeDialIn
from fairlead.agents.claude.dialin.routes import SOCKET, DialInRoutes
from fairlead.agents.claude.interpreter.interpreter import ClaudeInterpreter
from fairlead.agents.claude.launch import TOKEN_VARIABLE, arguments, check_sdk_url, environment
from fairlead.agents.claude.probe import Installed, VersionProbe, find_executable, ways
from fairlead.agents.claude.stdio.driver import ClaudeAgent
from fairlead.agents.claude.transcripts import recovery as following
from fairlead.agents.claude.tui.driver import ClaudeTerminal, no_steering
from fairlead.agents.claude.tui.hook_server import HookServer
from fairlead.agents.claude.tui.launcher import TuiLaunch
from fairlead.agents.claude.versions import abilities
from fairlead.agents.claude.wire.encode import user_line
from fairlead.agents.claude.wire.markers import InterruptMarker, TypedPrompt, encode_marker
from fairlead.agents.links.api import DialInTokens
from fairlead.agents.links.dialin import DialInLimits, DialInLink
from fairlead.agents.links.stdio import StdioLink, start_child
from fairlead.model.agents import (
    AgentInfo,
    AgentInvitation,
    AgentSink,
    ChildRecorder,
    Interpreter,
    Launch,
    ProcessInfo,
    Record,
)
from fairlead.model.auth import Identity
from fairlead.model.content import Content, to_wire
from fairlead.model.errors import AgentMissing, AgentNotRunning, BadRequest
from fairlead.model.ids import MessageId, SessionId, is_uuid
from fairlead.model.web.requests import ServiceCall
from fairlead.model.web.routes import ClientProtocol
from fairlead.system.clock import Clock
from fairlead.system.process import ChildProcess, StopTimeouts
from fairlead.system.sandbox import Sandbox
from fairlead.system.spill import SpillFiles
from fairlead.terminals.api import Terminal, Terminals

WRITING_TRIES = 10
WRITING_SECONDS = 0.1
"""A transcript lags behind the wire by up to a tenth of a second (measured); if it is not there after ten times that,
it does not exist."""


class ClaudeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`host` is the gateway's own environment; the agent gets only the variables named in launch.py. `spill` is a
    folder for records that are too large to store; without it they are cut off."""

    host: Mapping[str, str]
    executable: str = ""
    home: str = ""
    pass_env: tuple[str, ...] = ()
    spill: str = ""
    gateway: str = ""
    """The address on which agents dial in to the gateway, `ws://host:port`."""
    certificate: str = ""
    """With `wss://`: the file of the gateway's certificate, which hooks trust."""
    patience: StopTimeouts = StopTimeouts()
    sandbox: Sandbox | None = None
    """The agent's sandbox; with None the agent sees everything that its user can see."""


class _Ready(msgspec.Struct, frozen=True):
    """Everything that is known before the process starts."""

    launch: Launch
    found: Installed
    env: dict[str, str]
    cwd: str
    agent_session: str
    transcript: Path

    def child(self, agent: str, link: "StdioLink | ClaudeDialIn | Terminal", at: int) -> ProcessInfo:
        return ProcessInfo(
            session=self.launch.session,
            pid=link.pid,
            started=link.started,
            group=link.group,
            agent=agent,
            agent_session=self.agent_session,
            cwd=self.cwd,
            home=self.env.get("HOME", ""),
            transcript=str(self.transcript),
            at=at,
            dials_in=isinstance(link, ClaudeDialIn),
            in_terminal=not isinstance(link, StdioLink | ClaudeDialIn),
        )


class ClaudeKind:
    """Implements `model.agents.AgentKind`."""

    def __init__(
        self,
        settings: ClaudeSettings,
        clock: Clock,
        tokens: DialInTokens | None = None,
        terminals: Terminals | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._prober = VersionProbe(clock, settings.sandbox)
        self._tokens = tokens
        self._doors = DialInRoutes()
        self._terminals = terminals
        self._in_terminals: dict[str, ClaudeTerminal] = {}
        address = settings.gateway.replace("ws", "http", 1)
        self._hooks = None if tokens is None else HookServer(tokens, address, clock, settings.certificate)

    @property
    def name(self) -> str:
        return "claude"

    def command(self) -> tuple[str, ...]:
        """The command that starts the CLI. Raises AgentMissing."""
        return (find_executable(self._settings.executable, self._settings.host.get("PATH", os.defpath)),)

    async def installed(self) -> Installed:
        """The CLI that would be started now. Raises AgentMissing."""
        return await self._prober.ask(self.command(), self._environment())

    async def info(self) -> AgentInfo:
        try:
            found = await self.installed()
        except AgentMissing as missing:
            return AgentInfo(name=self.name, path=missing.data.get("path", ""), problem=missing.message)
        version = ".".join(map(str, found.version))
        return AgentInfo(name=self.name, path=found.command[0], version=version, ways=ways(found.version))

    def interpreter(self, session: SessionId) -> Interpreter:
        return ClaudeInterpreter(session)

    def prompt(self, content: Sequence[Content], message: MessageId, agent_session: str) -> Record:
        typed = self._in_terminals.get(agent_session)
        if typed is None or not typed.running:
            return Record(user_line(to_wire(tuple(content)), agent_session, message)[:-1], "gateway")
        if typed.is_busy:
            raise no_steering()
        return Record(encode_marker(TypedPrompt(uuid=message, content=to_wire(tuple(content)))), "gateway")

    def interrupt_record(self, cause: str) -> Record:
        return Record(encode_marker(InterruptMarker(cause=cause)), "gateway")

    async def launch(
        self, launch: Launch, sink: AgentSink, record_child: ChildRecorder
    ) -> ClaudeAgent | ClaudeTerminal:
        """Start the agent and wait until it accepts prompts.

        Once the process was recorded, `sink.exited` is called even if this fails."""
        ready = await self._prepare(launch)
        if launch.settings.link != "dial-in":
            await self._check_history(ready)
        if launch.settings.link == "terminal":
            return await self._in_terminal(ready, sink, record_child)
        if launch.settings.link == "stdio":
            argv = [*ready.found.command, *arguments(launch, ready.found.version, ready.agent_session)]
            child = self._start(argv, ready.env, ready.cwd)
            stdio = StdioLink(child, self._clock, self._settings.patience)
            return await self._drive(ready, stdio, sink, record_child)
        try:
            return await self._drive(ready, self._dialed(ready), sink, record_child)
        except AgentNotRunning as error:
            if abilities(ready.found.version).dial_in:
                raise
            advice = "This version does not dial in to a gateway of one's own: set the session's link to stdio."
            raise AgentNotRunning(f"{error.message} {advice}", **error.data) from error

    async def _prepare(self, launch: Launch) -> _Ready:
        found = await self.installed()
        env = self._environment()
        config = following.config_folder(env)
        cwd = _real(launch.cwd)
        agent_session = self._conversation(launch, config, cwd)
        transcript = following.transcript_path(config, cwd, agent_session)
        return _Ready(launch, found, env, cwd, agent_session, transcript)

    async def _check_history(self, ready: _Ready) -> None:
        """Raise AgentNotRunning if there is no conversation to resume, instead of starting the CLI for nothing.

        In a terminal the CLI is ready before it has printed or written anything. With dial-in this check is not
        needed: the CLI prints the error itself, and sends nothing over its socket."""
        resume, config = ready.launch.resume, following.config_folder(ready.env)
        if not is_uuid(resume):
            return
        for _ in range(WRITING_TRIES):
            if ready.transcript.exists():
                return
            if await asyncio.to_thread(following.find_transcript, config, resume) is not None:
                return
            await self._clock.sleep(WRITING_SECONDS)
        raise AgentNotRunning(f"No conversation found with session ID: {resume}")

    async def _drive(
        self, ready: _Ready, link: StdioLink | ClaudeDialIn, sink: AgentSink, record_child: ChildRecorder
    ) -> ClaudeAgent:
        try:
            await record_child.started(ready.child(self.name, link, self._clock.now_ms()))
        except BaseException:
            await link.stop()
            raise
        spill = SpillFiles(Path(self._settings.spill), ready.launch.session) if self._settings.spill else None
        agent = ClaudeAgent(link, sink, self._clock, ready.found.version, spill, ready.transcript)
        if isinstance(link, ClaudeDialIn):
            link.deliver, link.open_calls = agent.deliver, agent.open_calls
        await agent.start(ready.launch)
        return agent

    # --- in a terminal

    async def _in_terminal(self, ready: _Ready, sink: AgentSink, record_child: ChildRecorder) -> ClaudeTerminal:
        if self._terminals is None or self._hooks is None:
            raise BadRequest(f"The agent {self.name} has no terminals here: set the session's link to stdio.")
        spill = SpillFiles(Path(self._settings.spill), ready.launch.session) if self._settings.spill else None
        stage = TuiLaunch(
            launch=ready.launch,
            version=ready.found.version,
            command=ready.found.command,
            env=ready.env,
            cwd=ready.cwd,
            agent_session=ready.agent_session,
            transcript=ready.transcript,
            spill=spill,
        )
        playing = await stage.open(self._terminals, self._hooks, sink, self._clock)
        try:
            await record_child.started(ready.child(self.name, playing.terminal, self._clock.now_ms()))
        except BaseException:
            await playing.give_up()
            raise
        agent = await playing.start()
        self._enter(agent, ready.agent_session)
        return agent

    def _enter(self, agent: ClaudeTerminal, agent_session: str) -> None:
        """Type this conversation's prompts into the terminal from now on, also after a person switches to another
        conversation there."""
        self._in_terminals = {name: other for name, other in self._in_terminals.items() if other.running}
        self._in_terminals[agent_session] = agent
        agent.moved = lambda conversation: self._enter(agent, conversation)

    # --- dial-in

    def protocol(self) -> ClientProtocol | None:
        if self._hooks is None:
            return None
        doors = self._doors.protocol()
        return msgspec.structs.replace(doors, routes=(*doors.routes, *self._hooks.routes()))

    def performers(self) -> Mapping[type[ServiceCall], Callable[[Identity, Any], Awaitable[Any]]]:
        """The handlers of the service calls that the routes of `protocol` make."""
        return {} if self._hooks is None else {**self._doors.performers(), **self._hooks.performers()}

    async def invite(self, launch: Launch, sink: AgentSink, record_child: ChildRecorder) -> "_DialInInvitation":
        """Expect a CLI that a person starts. It is assumed to have the version that is installed here."""
        ready = await self._prepare(launch)
        url, token = self._dialing(launch.session)
        link = DialInLink(self._clock, self._terms(ready), None, lambda: self._shut(launch.session, link))
        link.expect()
        self._doors.open(launch.session, link)
        words = [*ready.found.command, *arguments(launch, ready.found.version, ready.agent_session, url)]
        line = f"cd {shlex.quote(ready.cwd)} && {TOKEN_VARIABLE}={token} {shlex.join(words)}"

        async def drive() -> ClaudeAgent:
            return await self._drive(ready, self._around(ready, link), sink, record_child)

        return _DialInInvitation(AgentInvitation(url=url, token=token, command=line), link, drive)

    def _dialed(self, ready: _Ready) -> ClaudeDialIn:
        """Start the CLI with the gateway's address and a new token."""
        launch = ready.launch
        url, token = self._dialing(launch.session)
        argv = [*ready.found.command, *arguments(launch, ready.found.version, ready.agent_session, url)]
        child = self._start(argv, {**ready.env, TOKEN_VARIABLE: token}, ready.cwd)
        link = DialInLink(self._clock, self._terms(ready), child, lambda: self._shut(launch.session, link))
        link.expect()
        self._doors.open(launch.session, link)
        return self._around(ready, link)

    def _start(self, argv: list[str], env: Mapping[str, str], cwd: str) -> ChildProcess:
        return start_child(argv, env=env, cwd=cwd, clock=self._clock, sandbox=self._settings.sandbox)

    def _dialing(self, session: SessionId) -> tuple[str, str]:
        if self._tokens is None:
            raise BadRequest(f"The agent {self.name} does not dial in: set the session's link to stdio.")
        url = check_sdk_url(self._settings.gateway + SOCKET.format(session=session))
        return url, self._tokens.issue(session)

    def _terms(self, ready: _Ready) -> DialInLimits:
        known = abilities(ready.found.version)
        return DialInLimits(tries_s=known.reconnect_s, close_code=known.close_code, patience=self._settings.patience)

    def _around(self, ready: _Ready, link: DialInLink) -> ClaudeDialIn:
        return ClaudeDialIn(link, ready.found.version, self._clock, ready.transcript)

    def _shut(self, session: SessionId, link: DialInLink) -> None:
        if self._doors.close(session, link) and self._tokens is not None:
            self._tokens.revoke(session)

    # --- processes and files of earlier runs

    async def follow(self, child: ProcessInfo, sink: AgentSink, after: MessageId | None) -> None:
        config = self._config_of(child)
        await following.follow(child, config, sink, after, self._clock, self._settings.patience)

    async def forget(self, agent_session: str, cwd: str) -> None:
        """Delete the CLI's own files of a session: its transcript and the subagents' files next to it."""
        if is_uuid(agent_session):
            config = following.config_folder(self._environment())
            await asyncio.to_thread(_remove, config, _real(cwd), agent_session)

    async def end(self, child: ProcessInfo) -> None:
        await following.end(child, self._clock, self._settings.patience)

    def _environment(self) -> dict[str, str]:
        return environment(self._settings.host, home=self._settings.home, passed=self._settings.pass_env)

    def _conversation(self, launch: Launch, config: Path, cwd: str) -> str:
        """The agent's id for a new or resumed conversation: our session id, unless the CLI has a file of that name.

        It has one if it was killed before it wrote anything that can be resumed; it then rejects the id."""
        if launch.resume and not launch.fork:
            return launch.resume
        if following.transcript_path(config, cwd, launch.session).exists():
            return str(uuid.uuid4())
        return launch.session

    def _config_of(self, child: ProcessInfo) -> Path:
        # The file's folder is <config>/projects/<cwd>. Not from the settings: they may have changed since the start.
        return Path(child.transcript).parent.parent.parent


class _DialInInvitation:
    """Implements `model.agents.InvitedAgent`."""

    def __init__(
        self, invitation: AgentInvitation, link: DialInLink, drive: Callable[[], Awaitable[ClaudeAgent]]
    ) -> None:
        self.invitation = invitation
        self._link = link
        self._drive = drive

    async def arrival(self) -> ClaudeAgent:
        await self._link.connected()
        if not self._link.running:
            raise AgentNotRunning("The agent that was to dial in is not expected any more.")
        return await self._drive()

    async def cancel(self) -> None:
        await self._link.stop()


def _remove(config: Path, cwd: str, agent_session: str) -> None:
    expected = following.transcript_path(config, cwd, agent_session)
    transcript = expected if expected.exists() else following.find_transcript(config, agent_session) or expected
    transcript.unlink(missing_ok=True)
    shutil.rmtree(transcript.with_suffix(""), ignore_errors=True)


def _real(folder: str) -> str:
    """The folder as the CLI sees it: the CLI names its files by the folder with symbolic links resolved."""
    return os.path.realpath(folder)
