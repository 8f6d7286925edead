"""Claude Code as a kind of agent: finds and starts the CLI, and follows a process that outlived the gateway."""

import asyncio
import os
import shlex
import shutil
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from fairlead.agents.claude import trust
from fairlead.agents.claude.dialin.invitation import DialInInvitation
from fairlead.agents.claude.dialin.link import ClaudeDialIn
from fairlead.agents.claude.dialin.routes import SOCKET, DialInRoutes
from fairlead.agents.claude.interpreter.interpreter import ClaudeInterpreter
from fairlead.agents.claude.launch import TOKEN_VARIABLE, PreparedLaunch, arguments, check_sdk_url, environment
from fairlead.agents.claude.probe import VersionProbe, find_executable, ways
from fairlead.agents.claude.settings import ClaudeSettings, settings_of
from fairlead.agents.claude.shim.attach import SHIM_RECONNECT_S, drive_lent, shim_version
from fairlead.agents.claude.stdio.driver import ClaudeAgent
from fairlead.agents.claude.tools import OWN_FILES, RESERVED_CONTROLS, TOOLS
from fairlead.agents.claude.transcripts import recovery
from fairlead.agents.claude.transcripts.paths import config_folder, existing_transcript, transcript_path
from fairlead.agents.claude.transcripts.source import ClaudeTranscripts, default_homes, settings_files
from fairlead.agents.claude.tui.driver import ClaudeTerminal
from fairlead.agents.claude.tui.hook_server import HookServer
from fairlead.agents.claude.tui.launcher import TerminalAgents
from fairlead.agents.claude.versions import Abilities, Version, dotted, parse_version
from fairlead.agents.claude.wire.control import user_line
from fairlead.agents.claude.wire.markers import InterruptMarker, TypedPrompt, encode_marker
from fairlead.agents.context import AgentContext, PrivateFiles
from fairlead.agents.links import DialInTokens
from fairlead.agents.links.dialin import DialInLimits, DialInLink
from fairlead.agents.links.kept import KeptLink, adopt_link, start_link
from fairlead.agents.links.stdio import StdioLink, start_child
from fairlead.keeper.access import KeeperAccess
from fairlead.model.agents import (
    CAPABILITIES,
    AgentInfo,
    AgentInvitation,
    AgentSink,
    Interpreter,
    Launch,
    LentProcess,
    ProcessInfo,
    Record,
    ShimInvitation,
)
from fairlead.model.content import Content, to_wire
from fairlead.model.errors import AgentMissing, AgentNotRunning, AgentRefused, BadRequest, HistoryMissing, NotFound
from fairlead.model.ids import MessageId, SessionId, is_uuid
from fairlead.model.store import StoredOutput
from fairlead.model.web.requests import ServiceHandlers
from fairlead.model.web.routes import ClientProtocol
from fairlead.sessions.api.folders import FolderReport
from fairlead.system.clock import Clock
from fairlead.system.process import ChildProcess, wait_orphan
from fairlead.system.proctable import Process
from fairlead.system.spill import SpillFiles
from fairlead.terminals.api import Terminal, Terminals

WRITING_TRIES = 10
WRITING_SECONDS = 0.1
"""A transcript lags behind the wire by up to a tenth of a second (measured); if it is not there after ten times that,
it does not exist."""


class ClaudeKind:
    """Implements `model.agents.AgentKind`."""

    tools = TOOLS
    capabilities = CAPABILITIES
    writes_cli_records = True
    own_files = OWN_FILES
    reserved_controls = RESERVED_CONTROLS

    def __init__(
        self,
        settings: ClaudeSettings,
        clock: Clock,
        tokens: DialInTokens | None = None,
        terminals: Terminals | None = None,
        keeper: KeeperAccess | None = None,
    ) -> None:
        self._keeper = keeper
        self._settings = settings
        self._clock = clock
        self._prober = VersionProbe(clock, settings.sandbox)
        self._tokens = tokens
        self._dial_in_routes = DialInRoutes()
        address = settings.gateway.replace("ws", "http", 1)
        self._hooks = None if tokens is None else HookServer(tokens, address, clock, settings.certificate)
        self._in_terminals = (
            None if terminals is None or self._hooks is None else TerminalAgents(terminals, self._hooks, clock)
        )

    @property
    def name(self) -> str:
        return "claude"

    def command(self) -> tuple[str, ...]:
        return (find_executable(self._settings.executable, self._settings.host.get("PATH", os.defpath)),)

    async def version(self) -> Version:
        """The version of the CLI that would be started now. Raises AgentMissing."""
        return await self._prober.ask(self.command(), self._environment())

    async def info(self) -> AgentInfo:
        try:
            version = await self.version()
        except AgentMissing as missing:
            return AgentInfo(name=self.name, path=missing.data.get("path", ""), problem=missing.message)
        return AgentInfo(name=self.name, path=self.command()[0], version=dotted(version), ways=ways(version))

    def interpreter(self, session: SessionId) -> Interpreter:
        return ClaudeInterpreter(session)

    def prompt(self, content: Sequence[Content], message: MessageId, agent_session: str) -> Record:
        typed = None if self._in_terminals is None else self._in_terminals.find(agent_session)
        if typed is None:
            return Record(user_line(to_wire(tuple(content)), agent_session, message)[:-1], "gateway")
        if typed.is_busy:
            # The CLI would put the message into its own queue, which we do not control.
            raise AgentRefused("A running turn in a terminal accepts no messages: wait for its end, or interrupt it.")
        return Record(encode_marker(TypedPrompt(uuid=message, content=to_wire(tuple(content)))), "gateway")

    def interrupt_record(self, cause: str) -> Record:
        return Record(encode_marker(InterruptMarker(cause=cause)), "gateway")

    async def launch(self, launch: Launch, sink: AgentSink) -> ClaudeAgent | ClaudeTerminal:
        """Start the agent and wait until it accepts prompts.

        Once the process was recorded, `sink.exited` is called even if this fails."""
        prepared = await self._prepare(launch)
        if launch.settings.link != "dial-in":
            await self._check_history(prepared)
        if launch.settings.link == "terminal":
            return await self._in_terminal(prepared, sink)
        if launch.settings.link == "stdio":
            return await self._drive(prepared, await self._start_link(prepared), sink)
        try:
            return await self._drive(prepared, self._start_dial_in(prepared), sink)
        except AgentNotRunning as error:
            if Abilities(prepared.version).dial_in:
                raise
            advice = "This version does not dial in to other hosts than its vendor's: set the session's link to stdio."
            raise type(error)(f"{error.message} {advice}", **error.data) from error

    async def _prepare(self, launch: Launch) -> PreparedLaunch:
        version = await self.version()
        env = {**self._environment(), **launch.env}
        config = config_folder(env)
        cwd = _real(launch.cwd)
        agent_session = self._conversation(launch, config, cwd)
        return PreparedLaunch(
            launch=launch,
            version=version,
            command=self.command(),
            env=env,
            cwd=cwd,
            agent_session=agent_session,
            transcript=transcript_path(config, cwd, agent_session),
            spill=self._spill(launch),
        )

    async def _start_link(self, prepared: PreparedLaunch) -> StdioLink | KeptLink:
        return await start_link(
            _argv(prepared),
            env=prepared.env,
            cwd=prepared.cwd,
            clock=self._clock,
            patience=self._settings.patience,
            sandbox=self._settings.sandbox,
            keeper=self._keeper,
            session=prepared.launch.session,
        )

    async def adopt(self, child: ProcessInfo, sink: AgentSink, stored: StoredOutput) -> ClaudeAgent | ClaudeTerminal:
        """Connect again to a CLI at the keeper. It was initialized by the gateway that started it."""
        version = parse_version(child.version)
        if version is None or child.launch is None:
            raise NotFound("process", str(child.pid))
        spill = self._spill(child.launch)
        if child.in_terminal:
            if self._in_terminals is None:
                raise NotFound("terminal", child.session)
            return await self._in_terminals.adopt(child, child.launch, version, spill, sink, stored)
        link = adopt_link(self._keeper, child, stored, self._clock, self._settings.patience)
        agent = ClaudeAgent(link, sink, self._clock, version, spill, Path(child.transcript))
        await agent.start(child.launch)
        return agent

    def _process(self, prepared: PreparedLaunch, link: StdioLink | KeptLink | ClaudeDialIn | Terminal) -> ProcessInfo:
        return ProcessInfo(
            session=prepared.launch.session,
            pid=link.pid,
            started=link.started,
            group=link.group,
            agent=self.name,
            agent_session=prepared.agent_session,
            cwd=prepared.cwd,
            home=prepared.env.get("HOME", ""),
            transcript=str(prepared.transcript),
            at=self._clock.now_ms(),
            dials_in=isinstance(link, ClaudeDialIn),
            in_terminal=not isinstance(link, StdioLink | KeptLink | ClaudeDialIn),
            kept=isinstance(link, KeptLink) or (not isinstance(link, StdioLink | ClaudeDialIn) and link.survives),
            version=dotted(prepared.version),
            launch=msgspec.structs.replace(prepared.launch, env={}),
        )

    async def _check_history(self, prepared: PreparedLaunch) -> None:
        """Raise HistoryMissing if there is no conversation to resume, instead of starting the CLI for nothing.

        In a terminal the CLI is ready before it has printed or written anything. With dial-in this check is not
        needed: the CLI prints the error itself, and sends nothing over its socket."""
        resume, config = prepared.launch.resume, config_folder(prepared.env)
        if not is_uuid(resume):
            return
        expected = prepared.transcript.with_name(f"{resume}.jsonl")
        for _ in range(WRITING_TRIES):
            if (await asyncio.to_thread(existing_transcript, config, expected)).exists():
                return
            await self._clock.sleep(WRITING_SECONDS)
        raise HistoryMissing(f"No conversation found with session ID: {resume}")

    async def _drive(
        self, prepared: PreparedLaunch, link: StdioLink | KeptLink | ClaudeDialIn, sink: AgentSink
    ) -> ClaudeAgent:
        try:
            await sink.started(self._process(prepared, link))
        except BaseException:
            await link.stop()
            raise
        agent = ClaudeAgent(link, sink, self._clock, prepared.version, prepared.spill, prepared.transcript)
        if isinstance(link, ClaudeDialIn):
            link.deliver, link.open_calls = agent.deliver, agent.open_calls
        await agent.start(prepared.launch)
        return agent

    # --- in a terminal

    async def _in_terminal(self, prepared: PreparedLaunch, sink: AgentSink) -> ClaudeTerminal:
        if self._in_terminals is None:
            raise BadRequest(f"The agent {self.name} has no terminals here: set the session's link to stdio.")
        return await self._in_terminals.start(prepared, sink, partial(self._process, prepared))

    # --- dial-in

    def protocol(self) -> ClientProtocol | None:
        if self._hooks is None:
            return None
        dial_in = self._dial_in_routes.protocol()
        return msgspec.structs.replace(dial_in, routes=(*dial_in.routes, *self._hooks.routes()))

    def handlers(self) -> ServiceHandlers:
        """The handlers of the service calls that the routes of `protocol` make."""
        return {} if self._hooks is None else {**self._dial_in_routes.handlers(), **self._hooks.handlers()}

    def transcripts(self) -> ClaudeTranscripts:
        settings = self._settings
        homes = [Path(home).expanduser() for home in settings.transcript_homes]
        return ClaudeTranscripts(homes or default_homes(settings.host, settings.home), self._clock, settings.spill)

    def describe_folder(self, folder: str) -> FolderReport:
        return trust.describe(folder, self._settings.home or self._settings.host.get("HOME", ""))

    def private_files(self) -> PrivateFiles:
        host, home = self._settings.host, self._settings.home
        homes = (*default_homes(host, home), *default_homes(host, ""), *self._settings.transcript_homes)
        folders = tuple(os.path.expanduser(str(folder)) for folder in homes)
        return PrivateFiles(folders, tuple(settings_files(host, home)))

    async def invite(self, launch: Launch, sink: AgentSink) -> DialInInvitation:
        """Expect a CLI that a person starts. It is assumed to have the version that is installed here."""
        prepared = await self._prepare(launch)
        url, token = self._open_access(launch.session)
        link = self._expect(prepared, None)
        line = f"cd {shlex.quote(prepared.cwd)} && {TOKEN_VARIABLE}={token} {shlex.join(_argv(prepared, url))}"

        async def drive() -> ClaudeAgent:
            return await self._drive(prepared, link, sink)

        return DialInInvitation(AgentInvitation(url=url, token=token, command=line), link.link, drive)

    async def attach(self, launch: Launch, process: LentProcess, sink: AgentSink) -> DialInInvitation:
        """Expect the shim of a process that its caller has started, with the caller's own version and settings."""
        version = shim_version(process)
        url, token = self._open_access(launch.session)
        link = self._open_link(launch.session, DialInLimits(tries_s=SHIM_RECONNECT_S), None)
        cwd = _real(launch.cwd)
        prepared = PreparedLaunch(
            launch=launch,
            version=version,
            command=(),
            env={},
            cwd=cwd,
            agent_session=process.agent_session,
            transcript=transcript_path(config_folder(self._environment()), cwd, process.agent_session),
            spill=self._spill(launch),
        )

        async def drive() -> ClaudeAgent:
            observes = self._settings.shim.observe
            return await drive_lent(prepared, process, link, sink, self._clock, observes=observes)

        invitation = ShimInvitation(url=url, token=token, approvals=self._settings.shim.approvals)
        return DialInInvitation(invitation, link, drive)

    def _spill(self, launch: Launch) -> SpillFiles | None:
        return SpillFiles(Path(self._settings.spill), launch.session) if self._settings.spill else None

    def _start_dial_in(self, prepared: PreparedLaunch) -> ClaudeDialIn:
        """Start the CLI with the gateway's address and a new token."""
        url, token = self._open_access(prepared.launch.session)
        child = self._start(prepared, _argv(prepared, url), {**prepared.env, TOKEN_VARIABLE: token})
        return self._expect(prepared, child)

    def _expect(self, prepared: PreparedLaunch, child: ChildProcess | None) -> ClaudeDialIn:
        session, known = prepared.launch.session, Abilities(prepared.version)
        limits = DialInLimits(tries_s=known.reconnect_s, close_code=known.close_code, patience=self._settings.patience)
        link = self._open_link(session, limits, child)
        return ClaudeDialIn(link, prepared.version, self._clock, prepared.transcript)

    def _open_link(self, session: SessionId, limits: DialInLimits, child: ChildProcess | None) -> DialInLink:
        link = DialInLink(self._clock, limits, child, lambda: self._stop_expecting(session, link))
        link.expect()
        self._dial_in_routes.open(session, link)
        return link

    def _start(self, prepared: PreparedLaunch, argv: list[str], env: Mapping[str, str]) -> ChildProcess:
        return start_child(argv, env=env, cwd=prepared.cwd, clock=self._clock, sandbox=self._settings.sandbox)

    def _open_access(self, session: SessionId) -> tuple[str, str]:
        if self._tokens is None:
            raise BadRequest(f"The agent {self.name} does not dial in: set the session's link to stdio.")
        url = check_sdk_url(self._settings.gateway + SOCKET.format(session=session))
        return url, self._tokens.issue(session)

    def _stop_expecting(self, session: SessionId, link: DialInLink) -> None:
        if self._dial_in_routes.close(session, link) and self._tokens is not None:
            self._tokens.revoke(session)

    # --- processes and files of earlier runs

    async def follow(self, child: ProcessInfo, sink: AgentSink, after: MessageId | None) -> None:
        # The file's folder is <config>/projects/<cwd>. Not from the settings: they may have changed since the start.
        config = Path(child.transcript).parent.parent.parent
        if child.lent:
            # Its shim, once it reconnects, has all records, in order. The transcript is for a shim that is gone.
            await wait_orphan(Process(child.pid, child.started), self._clock)
        await recovery.follow(child, config, sink, after, self._clock, self._settings.patience)

    async def forget(self, agent_session: str, cwd: str) -> None:
        """Delete the CLI's own files of a session: its transcript and the subagents' files next to it."""
        if is_uuid(agent_session):
            config = config_folder(self._environment())
            await asyncio.to_thread(_remove, config, _real(cwd), agent_session)

    async def end(self, child: ProcessInfo) -> None:
        await recovery.end(child, self._clock, self._settings.patience)

    def _environment(self) -> dict[str, str]:
        return environment(self._settings.host, home=self._settings.home, passed=self._settings.pass_env)

    def _conversation(self, launch: Launch, config: Path, cwd: str) -> str:
        """The agent's id for a new or resumed conversation: our session id, unless the CLI has a file of that name.

        It has one if it was killed before it wrote anything that can be resumed; it then rejects the id."""
        if launch.resume and not launch.fork:
            return launch.resume
        if transcript_path(config, cwd, launch.session).exists():
            return str(uuid.uuid4())
        return launch.session


def _argv(prepared: PreparedLaunch, sdk_url: str = "") -> list[str]:
    return [*prepared.command, *arguments(prepared.launch, prepared.version, prepared.agent_session, sdk_url)]


def _remove(config: Path, cwd: str, agent_session: str) -> None:
    transcript = existing_transcript(config, transcript_path(config, cwd, agent_session))
    transcript.unlink(missing_ok=True)
    shutil.rmtree(transcript.with_suffix(""), ignore_errors=True)


def _real(folder: str) -> str:
    """The folder as the CLI sees it: the CLI names its files by the folder with symbolic links resolved."""
    return os.path.realpath(folder)


def create_kinds(context: AgentContext) -> list[ClaudeKind]:
    return [ClaudeKind(settings_of(context), context.clock, context.tokens, context.terminals, context.keeper)]
