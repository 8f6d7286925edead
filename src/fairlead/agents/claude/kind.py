"""Claude Code as a kind of agent: finds the installed CLI, starts it for a session, follows one that outlived us."""

import asyncio
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from fairlead.agents.claude import follow as following
from fairlead.agents.claude.agent import ClaudeAgent
from fairlead.agents.claude.interpreter import ClaudeInterpreter
from fairlead.agents.claude.launch import arguments, environment
from fairlead.agents.claude.probe import Installed, Prober, find_executable, ways
from fairlead.agents.claude.records import interrupt_marker
from fairlead.agents.claude.sending import user_line
from fairlead.agents.links.stdio import StdioLink
from fairlead.model.agents import AgentInfo, AgentSink, Child, ChildRecorder, Interpreter, Launch, Record
from fairlead.model.content import Content, to_wire
from fairlead.model.errors import AgentMissing
from fairlead.model.ids import MessageId, SessionId, is_uuid
from fairlead.system.clock import Clock
from fairlead.system.process import Patience
from fairlead.system.spill import SpillFiles


class ClaudeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`host` is the gateway's own environment, of which the agent gets only what is named (see launch.py); `spill`
    is a folder for records that are too large to keep, which are cut where there is none."""

    host: Mapping[str, str]
    executable: str = ""
    home: str = ""
    pass_env: tuple[str, ...] = ()
    spill: str = ""
    patience: Patience = Patience()


class ClaudeKind:
    """Implements `model.agents.AgentKind`."""

    def __init__(self, settings: ClaudeSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._prober = Prober(clock)

    @property
    def name(self) -> str:
        return "claude"

    def command(self) -> tuple[str, ...]:
        """The words that start the CLI. AgentMissing."""
        return (find_executable(self._settings.executable, self._settings.host.get("PATH", os.defpath)),)

    async def installed(self) -> Installed:
        """What would be started now. AgentMissing."""
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
        return Record(user_line(to_wire(tuple(content)), agent_session, message)[:-1], "gateway")

    def interrupting(self, cause: str) -> Record:
        return Record(interrupt_marker(cause), "gateway")

    async def launch(self, launch: Launch, sink: AgentSink, record_child: ChildRecorder) -> ClaudeAgent:
        """Start it and wait until it takes prompts. Once it was recorded, `sink.exited` comes even if this fails."""
        found = await self.installed()
        env = self._environment()
        config = following.config_folder(env)
        cwd = _real(launch.cwd)
        agent_session = self._conversation(launch, config, cwd)
        argv = [*found.command, *arguments(launch, found.version, agent_session)]
        link = StdioLink.open(argv, env=env, cwd=cwd, clock=self._clock, patience=self._settings.patience)
        child = Child(
            session=launch.session,
            pid=link.pid,
            started=link.started,
            group=link.group,
            agent=self.name,
            agent_session=agent_session,
            cwd=cwd,
            home=env.get("HOME", ""),
            transcript=str(following.transcript_path(config, cwd, agent_session)),
            at=self._clock.now_ms(),
        )
        try:
            await record_child.started(child)
        except BaseException:
            await link.stop()
            raise
        spill = SpillFiles(Path(self._settings.spill), launch.session) if self._settings.spill else None
        agent = ClaudeAgent(link, sink, self._clock, found.version, spill)
        await agent.start(launch)
        return agent

    async def follow(self, child: Child, sink: AgentSink, after: MessageId | None) -> None:
        await following.follow(child, self._config_of(child), sink, after, self._clock)

    async def forget(self, agent_session: str, cwd: str) -> None:
        """Delete the CLI's own files of a session: its transcript and, beside it, its subagents'."""
        if is_uuid(agent_session):
            config = following.config_folder(self._environment())
            await asyncio.to_thread(_remove, config, _real(cwd), agent_session)

    async def end(self, child: Child) -> None:
        await following.end(child, self._clock, self._settings.patience)

    def _environment(self) -> dict[str, str]:
        return environment(self._settings.host, home=self._settings.home, passed=self._settings.pass_env)

    def _conversation(self, launch: Launch, config: Path, cwd: str) -> str:
        """The agent's id of what begins or goes on: ours, unless the CLI has a file of that name already.

        It has one when it was killed before it wrote anything that could be resumed, and then refuses the name."""
        if launch.resume and not launch.fork:
            return launch.resume
        if following.transcript_path(config, cwd, launch.session).exists():
            return str(uuid.uuid4())
        return launch.session

    def _config_of(self, child: Child) -> Path:
        # The file's folder is <config>/projects/<cwd>: the settings may have changed since the child was started.
        return Path(child.transcript).parent.parent.parent


def _remove(config: Path, cwd: str, agent_session: str) -> None:
    expected = following.transcript_path(config, cwd, agent_session)
    transcript = expected if expected.exists() else following.find_transcript(config, agent_session) or expected
    transcript.unlink(missing_ok=True)
    shutil.rmtree(transcript.with_suffix(""), ignore_errors=True)


def _real(folder: str) -> str:
    """As the CLI sees it: it names its files by the folder with its links followed."""
    return os.path.realpath(folder)
