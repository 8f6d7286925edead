"""Links: how bytes reach an agent and come back. A link knows no message; the wires split and read what it carries."""

from typing import Protocol

from fairlead.model.agents import Exit
from fairlead.system.pipes import Take


class Link(Protocol):
    """The bytes of one running agent. `send` raises AgentGone once nobody reads any more."""

    @property
    def pid(self) -> int: ...

    @property
    def running(self) -> bool: ...

    async def receive(self, take: Take) -> None:
        """Hand on what the agent says, each batch awaited before more is read; returns when it says no more."""
        ...

    async def send(self, data: bytes) -> None:
        """Return when the bytes are on their way. AgentGone, AgentTimeout."""
        ...

    async def stop(self) -> Exit:
        """End the agent, bounded; how it ended. Of one that has ended, how that was."""
        ...
