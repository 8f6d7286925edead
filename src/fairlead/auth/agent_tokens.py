"""Tokens of agents that dial in: each is valid for the agent routes of one session and nothing else. In memory, never
listed.

A restarted gateway knows none of them: an agent that outlived it is followed, not admitted.
"""

import hmac
from collections.abc import Callable

from fairlead.auth.tokens import Random, digest, mint
from fairlead.model.auth import Identity


class AgentTokens:
    """Implements `agents.links.DialInTokens`. `ended` closes a credential's connections."""

    def __init__(self, random: Random, ended: Callable[[str], object]) -> None:
        self._random = random
        self._ended = ended
        self._open: dict[str, tuple[str, Identity]] = {}

    def issue(self, session: str) -> str:
        """Create a new token for a session; the previous one becomes invalid."""
        self.revoke(session)
        name, secret = mint(self._random)
        # No scopes: every route that requires one rejects it.
        identity = Identity(credential=f"agent:{name}", user="", name="agent", scopes=frozenset())
        self._open[session] = (digest(secret), identity)
        return secret

    def revoke(self, session: str) -> None:
        found = self._open.pop(session, None)
        if found is not None:
            self._ended(found[1].credential)

    def identity(self, secret: str, session: str) -> Identity | None:
        found = self._open.get(session)
        return found[1] if found is not None and hmac.compare_digest(found[0], digest(secret)) else None
