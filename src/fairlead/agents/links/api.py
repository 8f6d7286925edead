"""The port for the tokens of agents that connect to the gateway instead of using pipes."""

from typing import Protocol

from fairlead.model.ids import SessionId


class DialInTokens(Protocol):
    """Credentials that grant access to the routes of one session's agent and to nothing else."""

    def issue(self, session: SessionId) -> str:
        """Return a new token; the session's previous token becomes invalid."""

    def revoke(self, session: SessionId) -> None:
        """Invalidate the session's token and end the connections that were opened with it."""
