"""An ACP agent of the settings as a kind of agent: `[agents.NAME] command = [...]` starts it on stdio."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fairlead.agents.acp import wire
from fairlead.agents.acp.driver import AcpAgent
from fairlead.agents.acp.interpreter.interpreter import AcpInterpreter
from fairlead.agents.acp.tools import CATALOGUE, OWN_FILES
from fairlead.agents.context import AgentContext
from fairlead.agents.links.framing import OversizeSpill
from fairlead.agents.links.stdio import StdioLink
from fairlead.agents.stdio_kind import StdioKind, StdioSettings
from fairlead.model.agents import AgentSink, Interpreter, Launch, Record
from fairlead.model.content import Content, ImageBlock, OtherBlock, TextBlock
from fairlead.model.errors import AgentRefused, BadRequest
from fairlead.model.ids import MessageId, SessionId
from fairlead.system.clock import Clock


class AcpKind(StdioKind):
    """Implements `model.agents.AgentKind`."""

    tools = CATALOGUE
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
        params = {"sessionId": agent_session, "prompt": [_block(block) for block in content]}
        return Record(wire.request_line(message, wire.PROMPT, params)[:-1], "gateway")

    def interrupt_record(self, cause: str) -> Record:
        return Record(wire.encode_marker(wire.CancelMarker(cause=cause)), "gateway")

    async def forget(self, agent_session: str, cwd: str) -> None:
        """Nothing: where the agent keeps its conversations is not known."""

    def _objection(self, launch: Launch, cwd: str) -> BadRequest | None:
        found = "" if launch.trusted else project_settings(cwd)
        if not found:
            return None
        return BadRequest(
            f"The folder is not trusted, and {found} may let the agent {self.name} act without asking. Look at it, "
            f"then trust the folder: fairlead trust {shlex.quote(launch.cwd)}",
            path=found,
        )

    async def _connect(
        self, link: StdioLink, sink: AgentSink, launch: Launch, cwd: str, spill: OversizeSpill | None
    ) -> AcpAgent:
        agent = AcpAgent(link, sink, self._clock, self.name, spill)
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
            ),
            context.clock,
        )
        for name, given in context.commands.items()
    ]


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
