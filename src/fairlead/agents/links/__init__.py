"""Links: transports that carry bytes to and from an agent. A link does not parse messages; the wire modules do."""

from typing import Protocol

from fairlead.agents.links.kept_output import KeptOutput
from fairlead.model.agents import Exit
from fairlead.model.ids import SessionId
from fairlead.system.pipes import Take


class Link(Protocol):
    """The byte stream of one running agent. `send` raises AgentNotRunning once the agent has stopped reading."""

    @property
    def pid(self) -> int: ...

    @property
    def running(self) -> bool: ...

    @property
    def output(self) -> KeptOutput | None:
        """The stored part of the output, if the keeper holds the agent."""

    async def receive(self, take: Take) -> None:
        """Pass the agent's output to `take`, awaiting each batch before reading more; return when the output ends."""

    async def send(self, data: bytes, key: str = "") -> None:
        """Return when the bytes are on their way. A kept agent gets bytes with the same key only once. Raises
        AgentNotRunning, AgentTimeout."""

    async def stop(self) -> Exit:
        """Stop the agent within a bounded time and return its exit; if it has already ended, return that exit."""


class DialInTokens(Protocol):
    """Credentials of agents that connect to the gateway: each grants access to the routes of one session's agent and
    to nothing else."""

    def issue(self, session: SessionId) -> str:
        """Return a new token; the session's previous token becomes invalid."""

    def revoke(self, session: SessionId) -> None:
        """Invalidate the session's token and end the connections that were opened with it."""
