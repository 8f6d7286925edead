"""Tokens of the agents that the gateway runs, with which they reach the other sessions of their user: one for each
session, in memory, valid only on routes for agents.

A token gives less than its user has: at most the scopes view and chat, never admin. A restarted gateway knows only
those of the agents that it takes over, from the digest that is stored with their processes.
"""

import hmac
from collections.abc import Callable, Sequence

from fairlead.auth.tokens import Random, digest, mint, parse_token_id
from fairlead.model.auth import Identity, Scope


class SessionAgentTokens:
    """`ended` closes a credential's connections."""

    def __init__(self, random: Random, ended: Callable[[str], object]) -> None:
        self._random = random
        self._ended = ended
        self._open: dict[str, tuple[str, Identity]] = {}
        self._of_session: dict[str, str] = {}

    def issue(self, session: str, user: str, scopes: Sequence[Scope]) -> str:
        """Create a new token for the agent of a user's session; the session's previous one becomes invalid."""
        self.revoke(session)
        key, secret = mint(self._random)
        self._accept(session, user, scopes, key, digest(secret))
        return secret

    def save(self, session: str) -> str:
        """The id and the digest of the session's token, without the token itself; empty if it has none."""
        key = self._of_session.get(session)
        return "" if key is None else f"{key} {self._open[key][0]}"

    def restore(self, session: str, user: str, scopes: Sequence[Scope], saved: str) -> None:
        """Accept a token again that an earlier gateway has issued; `saved` comes from `save`."""
        key, _, known = saved.partition(" ")
        if key and known:
            self.revoke(session)
            self._accept(session, user, scopes, key, known)

    def _accept(self, session: str, user: str, scopes: Sequence[Scope], key: str, known: str) -> None:
        identity = Identity(
            credential=f"session:{key}",
            user=user,
            name=f"agent of session {session[:8]}",
            scopes=frozenset(scopes),
            agent=True,
            session=session,
        )
        self._open[key] = (known, identity)
        self._of_session[session] = key

    def revoke(self, session: str) -> None:
        key = self._of_session.pop(session, None)
        if key is not None:
            _, identity = self._open.pop(key)
            self._ended(identity.credential)

    def identity(self, secret: str) -> Identity | None:
        found = self._open.get(parse_token_id(secret) or "")
        return found[1] if found is not None and hmac.compare_digest(found[0], digest(secret)) else None
