"""Credentials and users: service calls and their results. Only the results that issue a secret contain it, once.

Times are milliseconds since 1970.
"""

from typing import Literal

import msgspec

from fairlead.auth.api.accounts import DEFAULT_SCOPES
from fairlead.model.auth import Scope
from fairlead.model.web.requests import ServiceCall

CredentialKind = Literal["token", "device"]


class CreateToken(ServiceCall["NewCredential"], frozen=True):
    """-> `NewCredential`"""

    name: str
    scopes: tuple[Scope, ...]
    user: str = ""


class ListCredentials(ServiceCall["tuple[CredentialView, ...]"], frozen=True):
    """-> tuple of `CredentialView`"""

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
