"""The settings of Claude Code as an agent kind."""

from collections.abc import Mapping

import msgspec

from fairlead.agents.context import AgentContext, ShimSettings
from fairlead.system.process import StopTimeouts
from fairlead.system.sandbox import Sandbox


class ClaudeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`host` is the gateway's own environment; the agent gets only the variables named in launch.py. `spill` is a
    folder for records that are too large to store; without it they are cut off."""

    host: Mapping[str, str]
    executable: str = ""
    home: str = ""
    transcript_homes: tuple[str, ...] = ()
    pass_env: tuple[str, ...] = ()
    spill: str = ""
    gateway: str = ""
    """The address on which agents dial in to the gateway, `ws://host:port`."""
    certificate: str = ""
    """With `wss://`: the file of the gateway's certificate, which hooks trust."""
    patience: StopTimeouts = StopTimeouts()
    shim: ShimSettings = ShimSettings()
    sandbox: Sandbox | None = None
    """The agent's sandbox; with None the agent sees everything that its user can see."""


def settings_of(context: AgentContext) -> ClaudeSettings:
    return ClaudeSettings(
        host=context.host,
        executable=context.programs.get("claude", ""),
        home=context.homes.get("claude", ""),
        transcript_homes=context.transcript_homes.get("claude", ()),
        pass_env=context.pass_env,
        spill=context.spill,
        gateway=context.url.replace("http", "ws", 1),
        certificate=context.certificate,
        shim=context.shim,
        sandbox=context.sandbox,
    )
