"""Who asks: identities and scopes. Scopes come from the credential alone, never from the wire."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

Scope = Literal["view", "chat", "approve", "terminal", "admin"]
SCOPES: tuple[Scope, ...] = ("view", "chat", "approve", "terminal", "admin")
OWNER: Final = "owner"
"""The person whose gateway this is: a user from the first start. Sessions that only the agent's own files know are
theirs."""
EVERYBODY: Final = "*"
"""Among those with whom a session is shared: all users. No user can have this name."""


class Identity(msgspec.Struct, frozen=True):
    """`credential` names the token or device, `user` the person; `name` is what others are shown of both. `admin`
    implies every scope."""

    credential: str
    user: str
    name: str
    scopes: frozenset[Scope]
    expires: int = 0
    """When it is over by itself, in milliseconds since 1970; 0: never."""

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or "admin" in self.scopes

    @property
    def seen_by(self) -> str | None:
        """The user whose eyes it sees sessions with; None: an admin, who sees all."""
        return None if "admin" in self.scopes else self.user

    def sees(self, owner: str, shared: Sequence[str]) -> bool:
        """Whether a session of `owner`, shared with these users, exists for this one: the one rule of ownership."""
        if "admin" in self.scopes:
            return True
        return bool(self.user) and (self.user == owner or self.user in shared or EVERYBODY in shared)

    def owns(self, owner: str) -> bool:
        """Whether this one decides who else sees a session of `owner`, and whether it stays."""
        return "admin" in self.scopes or (bool(self.user) and self.user == owner)


def shown_name(user: str, device: str) -> str:
    """What others are shown of who did something: the person, and with which device or token."""
    return device if not user or device == user else f"{user} ({device})"
