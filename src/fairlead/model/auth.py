"""Identities and scopes of callers. Scopes come from the credential alone, never from the wire."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

Scope = Literal["view", "chat", "approve", "terminal", "metrics", "admin"]
SCOPES: tuple[Scope, ...] = ("view", "chat", "approve", "terminal", "metrics", "admin")
OWNER: Final = "owner"
"""The owner of the gateway, a user from the first start. Sessions that are known only from the agent's files belong to
this user."""
EVERYBODY: Final = "*"
"""In the list of users with whom a session is shared: all users. No user can have this name."""


class Identity(msgspec.Struct, frozen=True):
    """`credential` names the token or device, `user` the person; `name` is the display name of both. `admin` implies
    every scope."""

    credential: str
    user: str
    name: str
    scopes: frozenset[Scope]
    expires: int = 0
    """Expiry time in milliseconds since 1970; 0: never."""
    agent: bool = False
    """The caller is an agent, not a person: the core marks its messages and limits how far they go."""
    session: str = ""
    """The session whose agent this is, as its own token proves; empty: a person, or an agent outside the gateway."""

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or "admin" in self.scopes

    @property
    def seen_by(self) -> str | None:
        """The user whose sessions this identity sees; None: an admin, who sees all."""
        return None if "admin" in self.scopes else self.user

    def sees(self, owner: str, shared: Sequence[str]) -> bool:
        """Whether a session of `owner`, shared with these users, is visible to this identity. The only such rule."""
        if "admin" in self.scopes:
            return True
        return bool(self.user) and (self.user == owner or self.user in shared or EVERYBODY in shared)

    def owns(self, owner: str) -> bool:
        """Whether this identity may share and delete a session of `owner`."""
        return "admin" in self.scopes or (bool(self.user) and self.user == owner)


def display_name(user: str, device: str) -> str:
    """The display name of an actor: the person, and the device or token."""
    return device if not user or device == user else f"{user} ({device})"
