"""Folders that sessions work in: browsing, inspection, trust."""

from typing import Any

import msgspec

from fairlead.model.web.requests import ServiceCall


class ListTrusted(ServiceCall["tuple[TrustedFolder, ...]"], frozen=True):
    """-> tuple of `TrustedFolder`"""


class InspectFolder(ServiceCall["FolderReport"], frozen=True):
    """-> `FolderReport`"""

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
