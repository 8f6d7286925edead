"""The paths that the gateway shows to its users: inside the roots, but neither its own files nor keys."""

import os
from collections.abc import Sequence
from typing import Final

import msgspec

SECRET: Final = frozenset({".ssh", ".gnupg", ".aws", ".netrc", ".git-credentials"})
"""Names of files and folders that hold keys: neither they nor their content is shown, wherever they are."""


class Repository(msgspec.Struct, frozen=True):
    """A git repository inside the roots: its git folder, the one with its objects and branches (another one in a
    worktree), and the top of its working tree. All are real paths."""

    git_dir: str
    common_dir: str
    top: str


class ReadablePaths:
    """`closed` are folders of the gateway and of the agents: reading conversations there would bypass their owners.
    `beginnings` are path prefixes of such files."""

    def __init__(self, roots: Sequence[str], closed: Sequence[str], beginnings: Sequence[str] = ()) -> None:
        self.roots = tuple(os.path.realpath(root) for root in roots)
        self.closed = tuple(os.path.realpath(folder) for folder in closed)
        self.beginnings = tuple(
            os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)) for path in beginnings
        )

    def allows(self, real: str) -> bool:
        """Return whether a real path may be shown."""
        return (
            _inside_any(real, self.roots)
            and not _inside_any(real, self.closed)
            and not real.startswith(self.beginnings)
            and not SECRET.intersection(real.split("/"))
            and not _inside_any(real, ("/proc",))
        )

    def find_repository(self, folder: str) -> Repository | None:
        """Return the repository that encloses a real folder, if it and its git folder are inside the roots."""
        top = folder
        while self.allows(top):
            marker = os.path.join(top, ".git")
            if os.path.lexists(marker):
                git_dir = os.path.realpath(_git_dir(marker))
                common_dir = _common_dir(git_dir)
                allowed = all(self.allows(path) and os.path.isdir(path) for path in (git_dir, common_dir))
                return Repository(git_dir, common_dir, top) if allowed else None
            top = os.path.dirname(top)
        return None


def _inside_any(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _git_dir(marker: str) -> str:
    """The git folder of a `.git` marker; in a worktree the marker is a file that names the folder."""
    if os.path.isdir(marker):
        return marker
    words = _first_words(marker)
    named = words.removeprefix("gitdir:").strip()
    return os.path.join(os.path.dirname(marker), named) if words.startswith("gitdir:") else ""


def _common_dir(git_dir: str) -> str:
    named = _first_words(os.path.join(git_dir, "commondir")).strip()
    return os.path.realpath(os.path.join(git_dir, named)) if named else git_dir


def _first_words(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as opened:
            return opened.read(4096)
    except (OSError, ValueError):
        return ""
