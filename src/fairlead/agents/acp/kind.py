"""An ACP agent of the settings as a kind of agent: `[agents.NAME] command = [...]` starts it on stdio."""

import asyncio
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fairlead.agents.acp import wire
from fairlead.agents.acp.driver import AcpAgent
from fairlead.agents.acp.interpreter.interpreter import AcpInterpreter
from fairlead.agents.acp.tools import CATALOGUE, OWN_FILES
from fairlead.agents.environment import basic_environment
from fairlead.agents.links.stdio import StdioLink, start_child
from fairlead.model.agents import (
    AgentInfo,
    AgentSink,
    Capability,
    Exit,
    Interpreter,
    InvitedAgent,
    Launch,
    ProcessInfo,
    Record,
)
from fairlead.model.content import Content, ImageBlock, OtherBlock, TextBlock
from fairlead.model.errors import AgentMissing, AgentRefused, BadRequest
from fairlead.model.ids import MessageId, SessionId
from fairlead.model.web.requests import ServiceHandlers
from fairlead.model.web.routes import ClientProtocol
from fairlead.system.clock import Clock
from fairlead.system.process import StopTimeouts, stop_orphan
from fairlead.system.proctable import Process
from fairlead.system.sandbox import Sandbox
from fairlead.system.spill import SpillFiles

NO_OTHER_LINK: Final = "The agent {} runs on stdio only: set the session's link to stdio."


class AcpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`host` is the gateway's own environment, of which the agent gets the variables that every program needs and those
    in `pass_env`. `spill` is a folder for messages that are too large to store."""

    name: str
    command: tuple[str, ...]
    host: Mapping[str, str]
    pass_env: tuple[str, ...] = ()
    spill: str = ""
    sandbox: Sandbox | None = None
    patience: StopTimeouts = StopTimeouts()


class AcpKind:
    """Implements `model.agents.AgentKind`."""

    tools = CATALOGUE
    capabilities: frozenset[Capability] = frozenset()
    writes_cli_records = False
    own_files = OWN_FILES
    reserved_controls: frozenset[str] = frozenset()

    def __init__(self, settings: AcpSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._running: dict[str, AcpAgent] = {}

    @property
    def name(self) -> str:
        return self._settings.name

    async def info(self) -> AgentInfo:
        try:
            program = self._program()
        except AgentMissing as missing:
            return AgentInfo(name=self.name, path=self._settings.command[0], problem=missing.message)
        return AgentInfo(name=self.name, path=program, ways={"stdio": "yes"})

    def _program(self) -> str:
        wanted = self._settings.command[0]
        found = shutil.which(wanted, path=self._settings.host.get("PATH", os.defpath))
        if found is None:
            raise AgentMissing(
                f"The agent {self.name} cannot be started: {wanted} is not installed. Install it, or change "
                f"[agents.{self.name}] in the settings.",
                path=wanted,
            )
        return found

    def interpreter(self, session: SessionId) -> Interpreter:
        return AcpInterpreter(session)

    def prompt(self, content: Sequence[Content], message: MessageId, agent_session: str) -> Record:
        running = self._running.get(agent_session)
        if running is not None and running.busy:
            raise AgentRefused("A running turn of this agent accepts no messages: wait for its end, or interrupt it.")
        params = {"sessionId": agent_session, "prompt": [_block(block) for block in content]}
        return Record(wire.request_line(message, wire.PROMPT, params)[:-1], "gateway")

    def interrupt_record(self, cause: str) -> Record:
        return Record(wire.encode_marker(wire.CancelMarker(cause=cause)), "gateway")

    async def launch(self, launch: Launch, sink: AgentSink) -> AcpAgent:
        settings = self._settings
        if launch.settings.link != "stdio":
            raise BadRequest(NO_OTHER_LINK.format(self.name))
        cwd = await asyncio.to_thread(os.path.realpath, launch.cwd)
        found = "" if launch.trusted else await asyncio.to_thread(project_settings, cwd)
        if found:
            raise BadRequest(
                f"The folder is not trusted, and {found} may let the agent {self.name} act without asking. Look at it, "
                f"then trust the folder: fairlead trust {shlex.quote(launch.cwd)}",
                path=found,
            )
        argv = [self._program(), *settings.command[1:]]
        env = basic_environment(settings.host, settings.pass_env)
        child = start_child(argv, env=env, cwd=cwd, clock=self._clock, sandbox=settings.sandbox)
        link = StdioLink(child, self._clock, settings.patience)
        try:
            await sink.started(self._process(launch, link, cwd, env.get("HOME", "")))
        except BaseException:
            await link.stop()
            raise
        spill = SpillFiles(Path(settings.spill), launch.session) if settings.spill else None
        agent = AcpAgent(link, sink, self._clock, self.name, spill)
        await agent.start(launch, cwd)
        self._running = {name: other for name, other in self._running.items() if other.running}
        self._running[agent.agent_session] = agent
        return agent

    def _process(self, launch: Launch, link: StdioLink, cwd: str, home: str) -> ProcessInfo:
        return ProcessInfo(
            session=launch.session,
            pid=link.pid,
            started=link.started,
            group=link.group,
            agent=self.name,
            agent_session=launch.resume,
            cwd=cwd,
            home=home,
            at=self._clock.now_ms(),
        )

    async def invite(self, launch: Launch, sink: AgentSink) -> InvitedAgent:
        raise BadRequest(NO_OTHER_LINK.format(self.name))

    def protocol(self) -> ClientProtocol | None:
        return None

    def handlers(self) -> ServiceHandlers:
        return {}

    async def follow(self, child: ProcessInfo, sink: AgentSink, after: MessageId | None) -> None:
        """End an agent that outlived its gateway: it has no file from which its output could be read, and without a
        client it cannot ask for permission."""
        await self.end(child)
        await sink.exited(Exit())

    async def forget(self, agent_session: str, cwd: str) -> None:
        """Nothing: where the agent keeps its conversations is not known."""

    async def end(self, child: ProcessInfo) -> None:
        await stop_orphan(Process(child.pid, child.started), child.group, self._clock, self._settings.patience)


PROJECT_SETTINGS: Final = (".gemini", ".codex", ".opencode", "opencode.json", "opencode.jsonc", ".goose", ".qwen")
"""Files with which a project configures agents: what they ask for, which programs they start."""


def project_settings(cwd: str) -> str:
    """The first such file in a folder or above it, up to the root of its repository, or an empty string."""
    folder = Path(cwd)
    places = [folder, *folder.parents]
    roots = [place for place in places if (place / ".git").exists()]
    for place in places[: places.index(roots[0]) + 1] if roots else places[:1]:
        for name in PROJECT_SETTINGS:
            if (place / name).exists():
                return str(place / name)
    return ""


def _block(block: Content) -> dict[str, Any]:
    """A block of a prompt in ACP's form. Blocks of other kinds are sent as they are: the agent rejects what it does not
    know."""
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text}
        case ImageBlock() if block.source.get("type") == "base64":
            data, media = block.source.get("data"), block.source.get("media_type")
            return {"type": "image", "data": data, "mimeType": media}
        case OtherBlock() if isinstance(block.data, dict):
            return dict(block.data)
        case _:
            given: dict[str, Any] = msgspec.to_builtins(block)
            return given
