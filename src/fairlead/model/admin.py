"""Actions on what is beside the sessions: credentials, users, trusted folders; and the port for trust.

An action is data; who performs it is the wiring's business (`server.steps.Performers`). Times are milliseconds
since 1970. No view here ever holds a secret except the two whose purpose is to hand one out, once.
"""

from typing import Any, Literal, Protocol

import msgspec

from fairlead.model.accounts import DEFAULT_SCOPES
from fairlead.model.auth import Identity, Scope
from fairlead.model.requests import ServiceCall

# --- credentials ----------------------------------------------------------------------------------


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


# --- trusted folders --------------------------------------------------------------------------------


class ListTrusted(ServiceCall, frozen=True):
    """-> tuple of `TrustedFolder`"""


class InspectFolder(ServiceCall, frozen=True):
    """-> `FolderReport`"""

    path: str


class ListFolders(ServiceCall, frozen=True):
    """-> `FolderPage`. Empty: the allowed roots themselves. OutsideRoots, NotFound"""

    path: str = ""


class Folder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`repository`: it has a `.git`."""

    name: str
    path: str
    repository: bool = False


class FolderPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The folders inside one, by name; hidden ones are left out. `parent` where that is inside the roots, too. `more`:
    there are more than are told."""

    path: str
    folders: tuple[Folder, ...]
    parent: str = ""
    more: bool = False


class TrustFolder(ServiceCall, frozen=True):
    """-> `TrustedFolder`. `digest` is the report's: what was shown is what is trusted, Stale if it has changed."""

    path: str
    digest: str


class UntrustFolder(ServiceCall, frozen=True):
    """-> bool: it was trusted."""

    path: str


class TrustedFolder(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    digest: str
    at: int = 0
    by: str = ""


class FolderReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a project's own settings would do, shown before it is trusted. `digest` names exactly this content."""

    path: str
    digest: str
    trusted: bool = False
    files: tuple[str, ...] = ()
    hooks: tuple[dict[str, Any], ...] = ()
    mcp_servers: tuple[dict[str, Any], ...] = ()
    environment: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()
    other: tuple[str, ...] = ()


# --- transcripts ------------------------------------------------------------------------------------


class ImportTranscript(ServiceCall, frozen=True):
    """-> `Imported`. By its id a session that is listed, by its path a file anywhere inside the homes or the roots."""

    session: str = ""
    path: str = ""


class ArchiveTranscripts(ServiceCall, frozen=True):
    """-> `ArchiveView`. May sessions be copied into our own store before the agent deletes them? None only asks."""

    on: bool | None = None


class AnnounceSession(ServiceCall, frozen=True):
    """-> `Announced`. An agent that a person started tells of its session: its file, inside the agent's own homes."""

    session: str
    path: str


class Announced(msgspec.Struct, frozen=True, kw_only=True):
    """`listed`: something was said in it already. Else it is when its file has come."""

    session: str
    listed: bool


class DamageView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A kind of damage that was found, in which file, and how often."""

    kind: str
    path: str
    count: int = 1
    detail: str = ""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What an import came to. `events` are new in the log: 0 if all of it was there before."""

    session: str
    title: str = ""
    events: int = 0
    bytes: int = 0
    problems: tuple[DamageView, ...] = ()


class ArchiveView(msgspec.Struct, frozen=True, kw_only=True):
    """`on` null: nobody was asked yet. How many sessions are archived, and the bytes of their files: at most `limit`,
    the oldest go first."""

    on: bool | None = None
    sessions: int = 0
    bytes: int = 0
    limit: int = 0


class Admin(Protocol):
    """What the core does about trust."""

    async def trusted(self, who: Identity) -> tuple[TrustedFolder, ...]: ...
    async def inspect(self, who: Identity, path: str) -> FolderReport: ...
    async def trust(self, who: Identity, path: str, digest: str) -> TrustedFolder: ...
    async def untrust(self, who: Identity, path: str) -> bool: ...
