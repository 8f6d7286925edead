"""Files and changes of a folder that sessions work in, to be looked at: nothing here writes.

Every path is inside the allowed roots, links followed, and never in a closed folder (the gateway's own). OutsideRoots
or NotFound are raised for all others.
"""

from typing import Literal

import msgspec

from fairlead.model.requests import ServiceCall


class FileEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """`children` of a folder that was looked into; one beyond the limits has none."""

    name: str
    path: str
    folder: bool = False
    size: int = 0
    modified: int = 0
    children: "tuple[FileEntry, ...]" = ()


class ReadTree(ServiceCall, frozen=True):
    """-> tuple of `FileEntry`: what is in a folder and below it, as far as the limits go."""

    folder: str


class ReadFile(ServiceCall, frozen=True):
    """-> bytes of a plain file. `path` may be relative to the folder; it need not be in there. TooLarge"""

    folder: str
    path: str


class NotRepository(msgspec.Struct, frozen=True):
    """There is no git repository of which the folder is a part and which lies inside the roots."""


class GitText(msgspec.Struct, frozen=True):
    """What git printed; `cut`: there was more than is told. `ok`: it ended well."""

    data: bytes
    ok: bool = True
    cut: bool = False


class ReadGit(ServiceCall, frozen=True):
    """-> `GitText`, or `NotRepository`. Unavailable where there is no git.

    `status`: in git's porcelain form 2, with the branch. `diff`: of one file, with what is not committed. `log`: the
    last `count` commits. `commit`: one commit's diff. `old`: a file as the last commit has it. `branches`: all of them.
    `upstream`: how far the branch and its upstream are apart."""

    folder: str
    what: Literal["status", "diff", "log", "commit", "old", "branches", "upstream", "remotes"]
    name: str = ""
    count: int = 0
