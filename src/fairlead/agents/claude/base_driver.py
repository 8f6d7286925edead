"""The parts of a driver of Claude Code that are the same for every link: its version, its modes, a missing history."""

from abc import ABC
from typing import Final

from fairlead.agents.claude.versions import Abilities, Version, dotted
from fairlead.agents.driver import AgentDriver
from fairlead.agents.links import Link
from fairlead.model.agents import AgentSink, Exit
from fairlead.model.errors import AgentFailed, HistoryMissing
from fairlead.system.clock import Clock
from fairlead.terminals.api import Terminal

NO_HISTORY: Final = "No conversation found"
"""The CLI's error when it is to resume a conversation that it never stored."""


class ClaudeDriver(AgentDriver, ABC):
    """A running Claude."""

    def __init__(self, process: Link | Terminal, sink: AgentSink, clock: Clock, version: Version) -> None:
        super().__init__(process, sink, clock)
        self._version = version

    @property
    def version(self) -> str:
        return dotted(self._version)

    @property
    def modes(self) -> tuple[str, ...]:
        return Abilities(self._version).modes

    def _failure(self, error: AgentFailed, ended: Exit) -> AgentFailed:
        failed = super()._failure(error, ended)
        return HistoryMissing(failed.message, **failed.data) if NO_HISTORY in failed.message else failed
