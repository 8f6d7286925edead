"""Who asks: identities and scopes. Scopes come from the credential alone, never from the wire."""

from typing import Literal

import msgspec

Scope = Literal["view", "chat", "approve", "terminal", "admin"]
SCOPES: tuple[Scope, ...] = ("view", "chat", "approve", "terminal", "admin")


class Identity(msgspec.Struct, frozen=True):
    """`credential` names the token or device, `user` the person; `admin` implies every scope."""

    credential: str
    user: str
    name: str
    scopes: frozenset[Scope]
    expires: int = 0
    """When it is over by itself, in milliseconds since 1970; 0: never."""

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or "admin" in self.scopes
