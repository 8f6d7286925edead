"""Tokens of agents that dial in: each is valid for the agent routes of one session and nothing else. In memory, never
listed.

A restarted gateway knows only those of the agents that it takes over, from the digest that is stored with their
processes.
"""

import hmac
from collections.abc import Callable
from typing import Final

from fairlead.auth.tokens import Random, digest, mint
from fairlead.model.auth import Identity

_PREFIX: Final = "agent:"


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
        self._accept(session, name, digest(secret))
        return secret

    def save(self, session: str) -> str:
        """The id and the digest of the session's token, without the token itself; empty if it has none."""
        found = self._open.get(session)
        return "" if found is None else f"{found[1].credential.removeprefix(_PREFIX)} {found[0]}"

    def restore(self, session: str, saved: str) -> None:
        """Accept a token again that an earlier gateway has issued; `saved` comes from `save`."""
        name, _, known = saved.partition(" ")
        if name and known:
            self.revoke(session)
            self._accept(session, name, known)

    def _accept(self, session: str, name: str, known: str) -> None:
        # No scopes: every route that requires one rejects it.
        identity = Identity(credential=f"{_PREFIX}{name}", user="", name="agent", scopes=frozenset())
        self._open[session] = (known, identity)

    def revoke(self, session: str) -> None:
        found = self._open.pop(session, None)
        if found is not None:
            self._ended(found[1].credential)

    def identity(self, secret: str, session: str) -> Identity | None:
        found = self._open.get(session)
        return found[1] if found is not None and hmac.compare_digest(found[0], digest(secret)) else None
