"""The parts of an agent kind that are the same for every agent that runs on stdio alone."""

import asyncio
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agents.context import PrivateFiles
from fairlead.agents.environment import basic_environment
from fairlead.agents.links.framing import OversizeSpill
from fairlead.agents.links.kept import KeptLink, adopt_link, start_link
from fairlead.agents.links.stdio import StdioLink
from fairlead.keeper.access import KeeperAccess
from fairlead.model.agents import (
    Agent,
    AgentInfo,
    AgentSink,
    Capability,
    Exit,
    Interpreter,
    InvitedAgent,
    Launch,
    LentProcess,
    ProcessInfo,
    Record,
)
from fairlead.model.commands import Settings
from fairlead.model.content import Content
from fairlead.model.errors import AgentMissing, BadRequest
from fairlead.model.ids import MessageId, SessionId
from fairlead.model.store import StoredOutput
from fairlead.model.tools import ToolCatalogue
from fairlead.model.transcripts import Transcripts
from fairlead.model.web.requests import ServiceHandlers
from fairlead.model.web.routes import ClientProtocol
from fairlead.sessions.api.folders import FolderReport
from fairlead.system.clock import Clock
from fairlead.system.process import StopTimeouts, stop_orphan
from fairlead.system.proctable import Process
from fairlead.system.sandbox import Sandbox
from fairlead.system.spill import SpillFiles

ProcessLink = StdioLink | KeptLink
"""The link to a process that the gateway has started, itself or at the keeper."""

NO_OTHER_LINK: Final = "The agent {} runs on stdio only: set the session's link to stdio."


class StdioSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`host` is the gateway's own environment, of which the agent gets the variables that every program needs and those
    in `pass_env`. `spill` is a folder for messages that are too large to store."""

    name: str
    command: tuple[str, ...]
    host: Mapping[str, str]
    pass_env: tuple[str, ...] = ()
    spill: str = ""
    sandbox: Sandbox | None = None
    keeper: KeeperAccess | None = None
    patience: StopTimeouts = StopTimeouts()


class StdioKind(ABC):
    """Its subclasses implement `model.agents.AgentKind`. The agent keeps no file that the gateway could follow."""

    tools: ToolCatalogue = ToolCatalogue()
    capabilities: frozenset[Capability] = frozenset()
    writes_cli_records = False
    own_files: frozenset[str] = frozenset()
    reserved_controls: frozenset[str] = frozenset()

    def __init__(self, settings: StdioSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock

    @property
    def name(self) -> str:
        return self._settings.name

    # --- what a kind adds

    @abstractmethod
    def interpreter(self, session: SessionId) -> Interpreter: ...

    @abstractmethod
    def prompt(self, content: Sequence[Content], message: MessageId, agent_session: str) -> Record: ...

    @abstractmethod
    def interrupt_record(self, cause: str) -> Record: ...

    @abstractmethod
    async def _connect(
        self, link: ProcessLink, sink: AgentSink, launch: Launch, cwd: str, spill: OversizeSpill | None
    ) -> Agent:
        """The running agent, ready for a prompt. `cwd` is the real path of the session's folder."""

    @abstractmethod
    async def forget(self, agent_session: str, cwd: str) -> None: ...

    def _arguments(self, launch: Launch) -> Sequence[str]:
        """More arguments of the program."""
        return ()

    def _objection(self, launch: Launch, cwd: str) -> BadRequest | None:
        """Why the agent must not be started in this folder, if so."""
        return None

    # --- the port

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

    async def launch(self, launch: Launch, sink: AgentSink) -> Agent:
        settings = self._settings
        if launch.settings.link != "stdio":
            raise BadRequest(NO_OTHER_LINK.format(self.name))
        cwd = await asyncio.to_thread(os.path.realpath, launch.cwd)
        objection = await asyncio.to_thread(self._objection, launch, cwd)
        if objection is not None:
            raise objection
        argv = [self._program(), *settings.command[1:], *self._arguments(launch)]
        env = {**basic_environment(settings.host, settings.pass_env), **launch.env}
        link = await start_link(
            argv,
            env=env,
            cwd=cwd,
            clock=self._clock,
            patience=settings.patience,
            sandbox=settings.sandbox,
            keeper=settings.keeper,
            session=launch.session,
        )
        try:
            await sink.started(self._process(launch, link, cwd, env.get("HOME", "")))
        except BaseException:
            await link.stop()
            raise
        return await self._connect(link, sink, launch, cwd, self._spill(launch))

    async def adopt(self, child: ProcessInfo, sink: AgentSink, stored: StoredOutput) -> Agent:
        link = adopt_link(self._settings.keeper, child, stored, self._clock, self._settings.patience)
        launch = child.launch or Launch(session=child.session, cwd=child.cwd, settings=Settings())
        return await self._connect(link, sink, launch, child.cwd, self._spill(launch))

    def _spill(self, launch: Launch) -> SpillFiles | None:
        return SpillFiles(Path(self._settings.spill), launch.session) if self._settings.spill else None

    def _process(self, launch: Launch, link: ProcessLink, cwd: str, home: str) -> ProcessInfo:
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
            kept=isinstance(link, KeptLink),
            launch=msgspec.structs.replace(launch, env={}),
        )

    async def invite(self, launch: Launch, sink: AgentSink) -> InvitedAgent:
        raise BadRequest(NO_OTHER_LINK.format(self.name))

    async def attach(self, launch: Launch, process: LentProcess, sink: AgentSink) -> InvitedAgent:
        raise BadRequest(NO_OTHER_LINK.format(self.name))

    def protocol(self) -> ClientProtocol | None:
        return None

    def handlers(self) -> ServiceHandlers:
        return {}

    def transcripts(self) -> Transcripts | None:
        return None

    def describe_folder(self, folder: str) -> FolderReport | None:
        return None

    def private_files(self) -> PrivateFiles:
        return PrivateFiles()

    async def follow(self, child: ProcessInfo, sink: AgentSink, after: MessageId | None) -> None:
        """End an agent that outlived its gateway: it has no file from which its output could be read, and without a
        client it cannot ask for permission."""
        await self.end(child)
        await sink.exited(Exit())

    async def end(self, child: ProcessInfo) -> None:
        await stop_orphan(Process(child.pid, child.started), child.group, self._clock, self._settings.patience)
