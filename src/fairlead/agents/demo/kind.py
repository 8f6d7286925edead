"""The demo agent as an agent kind: Claude's driver on a scripted process, with a separate HOME."""

import os
import sys

import msgspec

from fairlead.agents.claude.kind import ClaudeKind, ClaudeSettings, settings_of
from fairlead.agents.context import AgentContext
from fairlead.agents.environment import BASIC_VARIABLES
from fairlead.model.agents import AgentInfo
from fairlead.system.clock import Clock


class DemoKind(ClaudeKind):
    """`home` in the settings is the demo's own folder, so that it never touches the user's files of Claude Code."""

    def __init__(self, settings: ClaudeSettings, clock: Clock) -> None:
        if not settings.home:
            raise ValueError("the demo agent needs a home of its own")
        os.makedirs(settings.home, mode=0o700, exist_ok=True)
        # No credentials of the user's account: the demo calls no model.
        host = {name: settings.host[name] for name in BASIC_VARIABLES if name in settings.host}
        super().__init__(msgspec.structs.replace(settings, host=host, pass_env=()), clock)

    @property
    def name(self) -> str:
        return "demo"

    def command(self) -> tuple[str, ...]:
        return (sys.executable, "-m", "fairlead.agents.demo")

    async def info(self) -> AgentInfo:
        return msgspec.structs.replace(await super().info(), ways={"stdio": "yes"})


def create_kinds(context: AgentContext) -> list[DemoKind]:
    home = f"{context.data}/demo-home"
    sandbox = context.sandbox and context.sandbox.showing(writable=(home,))
    settings = msgspec.structs.replace(settings_of(context), executable="", home=home, sandbox=sandbox)
    return [DemoKind(settings, context.clock)]
