"""Folders that sessions work in: browsing, inspection, trust; and the folders and modes with which a session may be
opened, for clients that offer a choice."""

from typing import Any, Final

import msgspec

from fairlead.model.web.requests import ServiceCall


class ListTrusted(ServiceCall["tuple[TrustedFolder, ...]"], frozen=True):
    """-> tuple of `TrustedFolder`"""


class InspectFolder(ServiceCall["FolderReport"], frozen=True):
    path: str


class ListFolders(ServiceCall["FolderPage"], frozen=True):
    """-> `FolderPage`. Empty: the allowed roots themselves. OutsideRoots, NotFound"""

    path: str = ""


class Folder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`repository`: it has a `.git`."""

    name: str
    path: str
    repository: bool = False


class FolderPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The folders inside a folder, by name, without hidden ones. `parent` is set if it is inside the roots, too.
    `more`: the list was cut."""

    path: str
    folders: tuple[Folder, ...]
    parent: str = ""
    more: bool = False


class TrustFolder(ServiceCall["TrustedFolder"], frozen=True):
    """-> `TrustedFolder`. `digest` is the report's: only the shown content is trusted; Stale if it has changed."""

    path: str
    digest: str


class UntrustFolder(ServiceCall[bool], frozen=True):
    """-> bool: whether it was trusted."""

    path: str


class TrustedFolder(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    digest: str
    at: int = 0
    by: str = ""


class FolderReport(msgspec.Struct, frozen=True, kw_only=True):
    """The effects of a project's own settings, shown before it is trusted. `digest` identifies exactly this content."""

    path: str
    digest: str
    trusted: bool = False
    files: tuple[str, ...] = ()
    hooks: tuple[dict[str, Any], ...] = ()
    mcp_servers: tuple[dict[str, Any], ...] = ()
    environment: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()
    other: tuple[str, ...] = ()


class FolderMarks(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user's display settings of a folder. `name`: shown in place of the folder's name if not empty."""

    name: str = ""
    starred: bool = False
    archived: bool = False


UNMARKED: Final = FolderMarks()


class SessionChoices(msgspec.Struct, frozen=True):
    """`roots` are the allowed folders, `folders` are folders inside them that users have added, `marks` are the calling
    user's."""

    roots: tuple[str, ...]
    folders: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    marks: dict[str, FolderMarks] = {}


class ReadSessionChoices(ServiceCall["SessionChoices"], frozen=True):
    """-> `SessionChoices`"""


class ListFolder(ServiceCall[str], frozen=True):
    """-> str: the added folder as it is listed, links followed. OutsideRoots, NotFound."""

    path: str


class MarkFolder(ServiceCall[None], frozen=True):
    """-> None. Replaces the calling user's marks of a folder."""

    path: str
    marks: FolderMarks
