"""Users who sign in with a name and a password: the actions on them, and what they are answered with.

A user's token is not one of the credentials that are listed: it is signed, lives for days and is good only where a
route says so (`Route.accounts`). Times are milliseconds since 1970.
"""

import msgspec

from fairlead.model.auth import Scope
from fairlead.model.errors import NotAllowed, TooMany
from fairlead.model.requests import ServiceCall

DEFAULT_SCOPES: tuple[Scope, ...] = ("view", "chat", "approve")
"""What a user may who signs in, where nothing else was said. A terminal is the whole machine: it has to be given."""


class WrongPassword(NotAllowed):
    """The same words for a user that is not there, one that has no password, and a wrong one."""

    code = "wrong_password"
    status = 401

    def __init__(self) -> None:
        super().__init__("Invalid username or password")


class BadInvitation(NotAllowed):
    """The same words for one that never was, was used, or is too old."""

    code = "bad_invitation"

    def __init__(self) -> None:
        super().__init__(
            "An account is made with an invitation that is still good: ask whoever runs this gateway for a link "
            "(fairlead user invite)."
        )


class TooManyAttempts(TooMany):
    """`seconds` until the next one is heard."""

    code = "too_many_attempts"

    def __init__(self, seconds: int) -> None:
        super().__init__(f"Too many attempts: try again in {seconds} seconds.", seconds=seconds)
        self.seconds = seconds


class SignIn(ServiceCall, frozen=True):
    """-> `SignedIn`; WrongPassword, TooManyAttempts. `peer` is the address that it is asked from."""

    name: str
    password: str
    peer: str


class AcceptInvitation(ServiceCall, frozen=True):
    """-> `SignedIn`: makes the user. The invitation is used up, whoever else has it. BadInvitation."""

    code: str
    name: str
    password: str


class RenewToken(ServiceCall, frozen=True):
    """-> `SignedIn` with a new token for the one who asks, or None: it is not a user's, or (unless `now`) less than
    half of its time is over."""

    now: bool = False


class SetPassword(ServiceCall, frozen=True):
    """-> `admin.UserView`. Whoever was signed in as that user is not any more."""

    name: str
    password: str


class RemoveUser(ServiceCall, frozen=True):
    """-> None. With all credentials of that user."""

    name: str


class CreateInvitation(ServiceCall, frozen=True):
    """-> `Invitation`: whoever has it may make one user, with these scopes."""

    scopes: tuple[Scope, ...] = DEFAULT_SCOPES


class SignedIn(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is the user's number, the same for as long as there is such a user."""

    id: int
    name: str
    token: str
    expires: int


class UserInvitation(msgspec.Struct, frozen=True, kw_only=True):
    """`url` is the page to open it on, with the code in its fragment."""

    url: str
    code: str
    expires: int
