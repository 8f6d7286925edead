"""Read-only access to files and git changes of a folder that sessions work in.

Every path is inside the allowed roots, links followed, and never in a closed folder (the gateway's own). OutsideRoots
or NotFound are raised for all others.
"""

from typing import Literal

import msgspec

from fairlead.model.errors import RequestRejected
from fairlead.model.web.requests import ServiceCall


class FileEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """`children` are the entries of a folder; a folder beyond the limits has none."""

    name: str
    path: str
    folder: bool = False
    size: int = 0
    modified: int = 0
    children: "tuple[FileEntry, ...]" = ()


class ReadTree(ServiceCall["tuple[FileEntry, ...]"], frozen=True):
    """-> tuple of `FileEntry`: the content of a folder and its subfolders, up to the limits."""

    folder: str
    depth: int = 12
    """Levels of subfolders whose content is listed; 0: none."""
    within: str = ""
    """The folder must be inside this one, links followed; empty: inside the roots."""


class ReadFile(ServiceCall[bytes], frozen=True):
    """-> bytes of a plain file. `path` may be relative to the folder; it need not be inside it, but inside `within`, if
    given, links followed. TooLarge"""

    folder: str
    path: str
    within: str = ""


class NotRepository(RequestRejected, code="not_repository"):
    """The folder is not part of a git repository inside the roots."""

    def __init__(self) -> None:
        super().__init__("This folder is not in a git repository.")


class GitText(msgspec.Struct, frozen=True):
    """Output of git; `cut`: the output was truncated. `ok`: git succeeded."""

    data: bytes
    ok: bool = True
    cut: bool = False


class ReadGit(ServiceCall["GitText"], frozen=True):
    """-> `GitText`. Raises NotRepository; Unavailable where git is not installed.

    `status`: in git's porcelain format 2, with the branch. `diff`: uncommitted changes of one file. `log`: the last
    `count` commits. `commit`: one commit's diff. `old`: a file as in the last commit. `branches`: all branches.
    `upstream`: the commits by which the branch and its upstream differ."""

    folder: str
    what: Literal["status", "diff", "log", "commit", "old", "branches", "upstream", "remotes"]
    name: str = ""
    count: int = 0
