"""The port for the tokens of agents that connect to us instead of being spoken to through pipes."""

from typing import Protocol

from fairlead.model.ids import SessionId


class DialInTokens(Protocol):
    """Credentials that open the doors of one session's agent and nothing else."""

    def issue(self, session: SessionId) -> str:
        """A new one; the one before is over."""
        ...

    def revoke(self, session: SessionId) -> None:
        """What was opened with it ends."""
        ...
