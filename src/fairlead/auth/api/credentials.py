"""Credentials and users: service calls and their results. Only the results that issue a secret contain it, once.

The token of a user who signs in with a name and a password is not one of the listed credentials: it is signed, lives
for days and is valid only for routes that accept it (`Route.accounts`). Times are milliseconds since 1970.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from fairlead.model.auth import Scope
from fairlead.model.errors import NotAllowed, TooMany
from fairlead.model.web.requests import ServiceCall

CredentialKind = Literal["token", "device"]
DEFAULT_SCOPES: tuple[Scope, ...] = ("view", "chat", "approve")
"""Default scopes of a user who signs in. A terminal gives access to the whole machine: it has to be granted."""


class WrongPassword(NotAllowed, code="wrong_password", status=401):
    """The same message for an unknown user, a user without a password, and a wrong password."""

    def __init__(self) -> None:
        super().__init__("Invalid username or password")


class BadInvitation(NotAllowed, code="bad_invitation"):
    """The same message for an invitation that never existed, was used, or has expired."""

    def __init__(self) -> None:
        super().__init__(
            "An account is made with an invitation that is still good: ask whoever runs this gateway for a link "
            "(fairlead user invite)."
        )


class TooManyAttempts(TooMany, code="too_many_attempts"):
    """`seconds` until the next attempt is accepted."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"Too many attempts: try again in {seconds} seconds.", seconds=seconds)
        self.seconds = seconds


class CreateToken(ServiceCall["NewCredential"], frozen=True):
    name: str
    scopes: tuple[Scope, ...]
    user: str = ""


class ListCredentials(ServiceCall["tuple[CredentialView, ...]"], frozen=True):
    kind: CredentialKind


class RevokeCredential(ServiceCall["CredentialView"], frozen=True):
    """-> `CredentialView`. Closes the credential's sockets."""

    kind: CredentialKind
    id: str


class CreateLoginCode(ServiceCall["LoginCode"], frozen=True):
    """-> `LoginCode`. Scopes and user default to the caller's."""

    name: str = ""
    scopes: tuple[Scope, ...] | None = None
    user: str = ""


class Login(ServiceCall["NewCredential"], frozen=True):
    """-> `NewCredential` of a device. The code is then spent for everyone."""

    code: str
    name: str = ""


class IssueTicket(ServiceCall["Ticket"], frozen=True):
    """-> `Ticket` for one socket of the caller."""


class SignDownload(ServiceCall["SignedUrl"], frozen=True):
    """-> `SignedUrl`: the path with a signature that gives the caller's access to it for a short time."""

    path: str


class AddUser(ServiceCall["UserView"], frozen=True):
    """-> `UserView`. With a password, the user can sign in and has these scopes."""

    name: str
    password: str = ""
    scopes: tuple[Scope, ...] = DEFAULT_SCOPES


class ListUsers(ServiceCall["tuple[UserView, ...]"], frozen=True):
    """-> tuple of `UserView`"""


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


class SetPassword(ServiceCall["UserView"], frozen=True):
    """-> `UserView`. Ends all sign-ins of that user."""

    name: str
    password: str


class RemoveUser(ServiceCall[Sequence[str]], frozen=True):
    """-> ids of the credentials that became invalid. Revokes all credentials of that user."""

    name: str


class CreateInvitation(ServiceCall["UserInvitation"], frozen=True):
    """-> `UserInvitation`: its holder may create one user, with these scopes."""

    scopes: tuple[Scope, ...] = DEFAULT_SCOPES


class CredentialView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kind: CredentialKind
    name: str
    user: str
    scopes: tuple[Scope, ...]
    created: int
    last_used: int = 0
    revoked: int = 0


class NewCredential(msgspec.Struct, frozen=True, kw_only=True):
    """`secret` is shown only this once."""

    secret: str
    credential: CredentialView


class LoginCode(msgspec.Struct, frozen=True, kw_only=True):
    code: str
    expires: int


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    ticket: str
    expires: int


class SignedUrl(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    expires: int


class UserView(msgspec.Struct, frozen=True, kw_only=True):
    """`password`: the user has a password to sign in with, and gets `scopes` by it."""

    name: str
    created: int
    password: bool = False
    scopes: tuple[Scope, ...] = ()


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
