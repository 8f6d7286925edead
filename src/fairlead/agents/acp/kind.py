"""An ACP agent of the settings as a kind of agent: `[agents.NAME] command = [...]` starts it on stdio."""

import os.path
import shlex
from collections.abc import Sequence
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import msgspec

from fairlead.agents.acp import trust, wire
from fairlead.agents.acp.driver import AcpAgent
from fairlead.agents.acp.interpreter.interpreter import AcpInterpreter
from fairlead.agents.acp.tools import CATALOGUE, HOME_FOLDERS, OWN_FILES
from fairlead.agents.context import AgentContext, PrivateFiles
from fairlead.agents.links.framing import OversizeSpill
from fairlead.agents.stdio_kind import ProcessLink, StdioKind, StdioSettings
from fairlead.model.agents import AgentSink, Interpreter, Launch, Record
from fairlead.model.content import Content, ImageBlock, OtherBlock, TextBlock
from fairlead.model.errors import AgentRefused, BadRequest
from fairlead.model.ids import MessageId, SessionId
from fairlead.sessions.api.folders import FolderReport
from fairlead.system.clock import Clock


class AcpKind(StdioKind):
    """Implements `model.agents.AgentKind`."""

    tools = CATALOGUE
    capabilities = frozenset({"images", "questions", "plan", "resume", "cost"})
    own_files = OWN_FILES

    def __init__(self, settings: StdioSettings, clock: Clock) -> None:
        super().__init__(settings, clock)
        self._running: dict[str, AcpAgent] = {}

    def interpreter(self, session: SessionId) -> Interpreter:
        return AcpInterpreter(session)

    def prompt(self, content: Sequence[Content], message: MessageId, agent_session: str) -> Record:
        running = self._running.get(agent_session)
        if running is not None and running.busy:
            raise AgentRefused("A running turn of this agent accepts no messages: wait for its end, or interrupt it.")
        if running is not None and not running.accepts_images and any(isinstance(b, ImageBlock) for b in content):
            raise AgentRefused(f"The agent {self.name} cannot see pictures: send text.", capability="images")
        params = {"sessionId": agent_session, "prompt": [_block(block) for block in content]}
        return Record(wire.request_line(message, wire.PROMPT, params)[:-1], "gateway")

    def interrupt_record(self, cause: str) -> Record:
        return Record(wire.encode_marker(wire.CancelMarker(cause=cause)), "gateway")

    def describe_folder(self, folder: str) -> FolderReport:
        return trust.describe(folder)

    def private_files(self) -> PrivateFiles:
        home = self._settings.host.get("HOME", "/")
        return PrivateFiles(folders=tuple(os.path.join(home, name) for name in HOME_FOLDERS))

    async def forget(self, agent_session: str, cwd: str) -> None:
        """Nothing: where the agent keeps its conversations is not known."""

    def _objection(self, launch: Launch, cwd: str) -> BadRequest | None:
        found = "" if launch.trusted else trust.project_settings(cwd)
        if not found:
            return None
        return BadRequest(
            f"The folder is not trusted, and {found} may let the agent {self.name} act without asking. Look at it, "
            f"then trust the folder: fairlead trust {shlex.quote(launch.cwd)}",
            path=found,
        )

    async def _connect(
        self, link: ProcessLink, sink: AgentSink, launch: Launch, cwd: str, spill: OversizeSpill | None
    ) -> AcpAgent:
        # The same name after a restart of the gateway: the ids of the agent's requests contain it.
        process = str(uuid5(NAMESPACE_OID, f"{link.pid} {link.started}"))
        agent = AcpAgent(link, sink, self._clock, self.name, spill, process)
        await agent.start(launch, cwd)
        self._running = {name: other for name, other in self._running.items() if other.running}
        self._running[agent.agent_session] = agent
        return agent


def create_kinds(context: AgentContext) -> list[AcpKind]:
    """One kind for each agent of the settings."""
    return [
        AcpKind(
            StdioSettings(
                name=name,
                command=given.command,
                host=context.host,
                pass_env=(*context.pass_env, *given.env),
                spill=context.spill,
                sandbox=context.sandbox,
                keeper=context.keeper,
            ),
            context.clock,
        )
        for name, given in context.commands.items()
    ]


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
