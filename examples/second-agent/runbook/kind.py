"""The agent kind: what the core must know of this agent, and how it is started. Found by its entry point."""

import sys
from collections.abc import Sequence
from pathlib import Path

from fairlead.agents.context import AgentContext
from fairlead.agents.links.framing import OversizeSpill
from fairlead.agents.stdio_kind import ProcessLink, StdioKind, StdioSettings
from fairlead.model.agents import AgentSink, Interpreter, Launch, Record
from fairlead.model.content import Content, TextBlock
from fairlead.model.errors import AgentRefused
from fairlead.model.ids import MessageId, SessionId
from fairlead.model.tools import Tool, ToolCatalogue
from runbook import wire
from runbook.driver import RunbookAgent
from runbook.interpreter import TOOL, RunbookInterpreter

PROGRAM = Path(__file__).with_name("program.py")


class RunbookKind(StdioKind):
    """Implements `model.agents.AgentKind`. Without capabilities: no pictures, no fork, no messages into a turn."""

    tools = ToolCatalogue(tools={TOOL: Tool(effect="shell", argument="command")})

    def interpreter(self, session: SessionId) -> Interpreter:
        return RunbookInterpreter(session)

    def prompt(self, content: Sequence[Content], message: MessageId, agent_session: str) -> Record:
        texts = [block.text for block in content if isinstance(block, TextBlock)]
        if len(texts) != len(content):
            raise AgentRefused("A runbook is text: this agent reads no images or files.")
        return Record(wire.encode(wire.Prompt(id=message, text="\n".join(texts))), "gateway")

    def interrupt_record(self, cause: str) -> Record:
        return Record(wire.encode(wire.Cancel()), "gateway")

    async def forget(self, agent_session: str, cwd: str) -> None:
        """Nothing: the program keeps no file."""

    async def _connect(
        self, link: ProcessLink, sink: AgentSink, launch: Launch, cwd: str, spill: OversizeSpill | None
    ) -> RunbookAgent:
        agent = RunbookAgent(link, sink, self._clock, self.name, spill)
        await agent.start(launch)
        return agent


def create_kinds(context: AgentContext) -> list[RunbookKind]:
    settings = StdioSettings(
        name="runbook",
        command=(sys.executable, "-I", str(PROGRAM)),
        host=context.host,
        spill=context.spill,
        sandbox=context.sandbox,
        keeper=context.keeper,
    )
    return [RunbookKind(settings, context.clock)]
