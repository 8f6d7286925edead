"""Credentials and users: what can be asked of them. No view holds a secret except the two that hand one out, once.

Times are milliseconds since 1970.
"""

from typing import Literal

import msgspec

from fairlead.auth.api.accounts import DEFAULT_SCOPES
from fairlead.model.auth import Scope
from fairlead.model.requests import ServiceCall


class CreateToken(ServiceCall, frozen=True):
    """-> `NewCredential`"""

    name: str
    scopes: tuple[Scope, ...]
    user: str = ""


class ListCredentials(ServiceCall, frozen=True):
    """-> tuple of `CredentialView`"""

    kind: Literal["token", "device"]


class RevokeCredential(ServiceCall, frozen=True):
    """-> `CredentialView`. Its sockets are closed with it."""

    kind: Literal["token", "device"]
    id: str


class CreateLoginCode(ServiceCall, frozen=True):
    """-> `LoginCode`. Without scopes or user: those of the one who asks."""

    name: str = ""
    scopes: tuple[Scope, ...] | None = None
    user: str = ""


class Login(ServiceCall, frozen=True):
    """-> `NewCredential` of a device. The code is spent, whoever else has it."""

    code: str
    name: str = ""


class IssueTicket(ServiceCall, frozen=True):
    """-> `Ticket` for one socket of the one who asks."""


class SignDownload(ServiceCall, frozen=True):
    """-> `SignedUrl`: the path with a signature that opens it for a short time, as the one who asks."""

    path: str


class AddUser(ServiceCall, frozen=True):
    """-> `UserView`. With a password, that user can sign in and has these scopes."""

    name: str
    password: str = ""
    scopes: tuple[Scope, ...] = DEFAULT_SCOPES


class ListUsers(ServiceCall, frozen=True):
    """-> tuple of `UserView`"""


class CredentialView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kind: Literal["token", "device"]
    name: str
    user: str
    scopes: tuple[Scope, ...]
    created: int
    last_used: int = 0
    revoked: int = 0


class NewCredential(msgspec.Struct, frozen=True, kw_only=True):
    """`secret` is shown this once."""

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
    """`password`: there is one to sign in with, and `scopes` are what that allows."""

    name: str
    created: int
    password: bool = False
    scopes: tuple[Scope, ...] = ()
