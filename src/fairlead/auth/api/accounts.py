"""Users who sign in with a name and a password: service calls and their results.

A user's token is not one of the listed credentials: it is signed, lives for days and is valid only for routes that
accept it (`Route.accounts`). Times are milliseconds since 1970.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from fairlead.model.auth import Scope
from fairlead.model.errors import NotAllowed, TooMany
from fairlead.model.web.requests import ServiceCall

DEFAULT_SCOPES: tuple[Scope, ...] = ("view", "chat", "approve")
"""Default scopes of a user who signs in. A terminal gives access to the whole machine: it has to be granted."""


class WrongPassword(NotAllowed):
    """The same message for an unknown user, a user without a password, and a wrong password."""

    code = "wrong_password"
    status = 401

    def __init__(self) -> None:
        super().__init__("Invalid username or password")


class BadInvitation(NotAllowed):
    """The same message for an invitation that never existed, was used, or has expired."""

    code = "bad_invitation"

    def __init__(self) -> None:
        super().__init__(
            "An account is made with an invitation that is still good: ask whoever runs this gateway for a link "
            "(fairlead user invite)."
        )


class TooManyAttempts(TooMany):
    """`seconds` until the next attempt is accepted."""

    code = "too_many_attempts"

    def __init__(self, seconds: int) -> None:
        super().__init__(f"Too many attempts: try again in {seconds} seconds.", seconds=seconds)
        self.seconds = seconds


class SignIn(ServiceCall["SignedIn"], frozen=True):
    """-> `SignedIn`. Raises WrongPassword or TooManyAttempts. `peer` is the caller's address."""

    name: str
    password: str
    peer: str


class AcceptInvitation(ServiceCall["SignedIn"], frozen=True):
    """-> `SignedIn`: creates the user. The invitation is then used up for everyone. Raises BadInvitation."""

    code: str
    name: str
    password: str


class RenewToken(ServiceCall["SignedIn | None"], frozen=True):
    """-> `SignedIn` with a new token for the caller, or None if the caller's token is not a user's or (unless `now`)
    less than half of its lifetime has passed."""

    now: bool = False


class SetPassword(ServiceCall[Any], frozen=True):
    """-> `credentials.UserView`. Ends all sign-ins of that user."""

    name: str
    password: str


class RemoveUser(ServiceCall[Sequence[str]], frozen=True):
    """-> ids of the credentials that became invalid. Revokes all credentials of that user."""

    name: str


class CreateInvitation(ServiceCall["UserInvitation"], frozen=True):
    """-> `UserInvitation`: its holder may create one user, with these scopes."""

    scopes: tuple[Scope, ...] = DEFAULT_SCOPES


class SignedIn(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is the user's number, which stays the same as long as the user exists."""

    id: int
    name: str
    token: str
    expires: int


class UserInvitation(msgspec.Struct, frozen=True, kw_only=True):
    """`url` is the page that opens the invitation, with the code in its fragment."""

    url: str
    code: str
    expires: int
