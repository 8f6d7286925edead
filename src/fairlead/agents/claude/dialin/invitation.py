"""An invitation to an agent that dials in: how it connects, and the driver once it has."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fairlead.agents.claude.stdio.driver import ClaudeAgent
from fairlead.agents.links.dialin import DialInLink
from fairlead.model.agents import AgentInvitation, ShimInvitation
from fairlead.model.errors import AgentNotRunning


@dataclass(eq=False, repr=False)
class DialInInvitation:
    """Implements `model.agents.InvitedAgent`."""

    invitation: AgentInvitation | ShimInvitation
    _link: DialInLink
    _drive: Callable[[], Awaitable[ClaudeAgent]]

    async def arrival(self) -> ClaudeAgent:
        await self._link.connected()
        if not self._link.running:
            raise AgentNotRunning("The gateway does not expect this agent to dial in any more.")
        return await self._drive()

    async def cancel(self) -> None:
        await self._link.stop()
