"""The demo agent as an agent kind: a scripted process that needs no model, for trying Fairlead and for tests."""

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fairlead.agents.context import AgentContext
from fairlead.agents.demo.driver import DemoProcess
from fairlead.agents.demo.history import file_of, last_lines
from fairlead.agents.demo.interpreter import DemoInterpreter
from fairlead.agents.demo.tools import CATALOGUE
from fairlead.agents.demo.wire import DemoMessage, encode
from fairlead.agents.links.framing import OversizeSpill
from fairlead.agents.stdio_kind import ProcessLink, StdioKind, StdioSettings
from fairlead.model.agents import CAPABILITIES, AgentInfo, AgentSink, Exit, Interpreter, Launch, ProcessInfo, Record
from fairlead.model.content import Content, OtherBlock
from fairlead.model.ids import MessageId, SessionId
from fairlead.system.proctable import is_alive

POLL_SECONDS: Final = 0.2
"""How often the end of a process that outlived its gateway is checked."""


class DemoKind(StdioKind):
    """Implements `model.agents.AgentKind`. HOME in the settings is the demo's own folder."""

    tools = CATALOGUE
    capabilities = CAPABILITIES - {"variables", "terminal", "transcripts"}

    async def info(self) -> AgentInfo:
        os.makedirs(self._settings.host["HOME"], mode=0o700, exist_ok=True)
        return await super().info()

    def interpreter(self, session: SessionId) -> Interpreter:
        return DemoInterpreter(session)

    def prompt(self, content: Sequence[Content], message: MessageId, agent_session: str) -> Record:
        data = {"message": message, "content": [_block(block) for block in content]}
        return Record(encode(DemoMessage("prompt", data=data)), "gateway")

    def interrupt_record(self, cause: str) -> Record:
        return Record(encode(DemoMessage("interrupt")), "gateway")

    def _arguments(self, launch: Launch) -> Sequence[str]:
        return (launch.session,)

    async def _connect(
        self, link: ProcessLink, sink: AgentSink, launch: Launch, cwd: str, spill: OversizeSpill | None
    ) -> DemoProcess:
        agent = DemoProcess(link, sink, self._clock, self.name, spill)
        await agent.start(launch)
        return agent

    async def follow(self, child: ProcessInfo, sink: AgentSink, after: MessageId | None) -> None:
        """A process that outlived its gateway finishes its turn: what it did is in its file."""
        while is_alive(child.pid, child.started):
            await self._clock.sleep(POLL_SECONDS)
        path = file_of(child.home, child.agent_session or child.session)
        lines = await asyncio.to_thread(last_lines, path)
        if lines:
            await sink.records([Record(line, "transcript") for line in lines])
        await sink.exited(Exit())

    async def forget(self, agent_session: str, cwd: str) -> None:
        file_of(self._settings.host["HOME"], agent_session).unlink(missing_ok=True)


def _block(block: Content) -> Any:
    return block.data if isinstance(block, OtherBlock) else msgspec.to_builtins(block)


def create_kinds(context: AgentContext) -> list[DemoKind]:
    home = f"{context.data}/demo-home"
    settings = StdioSettings(
        name="demo",
        command=(sys.executable, "-m", "fairlead.agents.demo"),
        # No credentials of the user: the demo calls no model.
        host={**context.host, "HOME": home},
        spill=context.spill,
        sandbox=context.sandbox and context.sandbox.showing(writable=(home,)),
        keeper=context.keeper,
    )
    return [DemoKind(settings, context.clock)]
