"""Reads folders that sessions work in: files, and their git data. Implements `sessions.api.workspace`.

Rule: a path is checked after its symbolic links are followed, and exactly the checked file is opened.
"""

import asyncio
import os
import re
from collections.abc import Callable
from typing import Final

from fairlead.model.auth import Identity
from fairlead.model.errors import BadRequest, NotFound, TooLarge, Unavailable
from fairlead.model.scopes import require_scope
from fairlead.model.web.requests import ServiceHandlers
from fairlead.sessions.api.workspace import FileEntry, GitText, NotRepository, ReadFile, ReadGit, ReadTree
from fairlead.sessions.permissions.policy.paths import inside
from fairlead.system import git
from fairlead.system.readable_paths import SECRET, ReadablePaths
from fairlead.system.regular_files import open_regular

ENTRIES: Final = 5000
"""Maximum number of files and folders in one tree."""
DEPTH: Final = 12
FILE: Final = 10 << 20
COMMITS: Final = 100
LEFT_OUT: Final = frozenset({".git", "node_modules", "__pycache__", ".venv"})
"""Folders whose content is not listed."""
_COMMIT: Final = re.compile(r"[0-9a-f]{7,64}")
_WILD: Final = re.compile(r"[][*?\\]")
_ESCAPED: Final = r"\\\g<0>"
_DIFF: Final = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--no-color")
_STATUS: Final = ("status", "--porcelain=v2", "--branch", "-z", "--ignore-submodules=all", "--untracked-files=all")
_SHOW: Final = ("--no-show-signature", *_DIFF, "--format=")
_LOG: Final = "--format=%H%x00%an%x00%ae%x00%aI%x00%s%x00"


class WorkspaceReader:
    """`resolve` turns a folder from the wire into one inside the roots, or raises."""

    def __init__(self, paths: ReadablePaths, resolve: Callable[[str], str]) -> None:
        self._paths = paths
        self._resolve = resolve

    def handlers(self) -> ServiceHandlers:
        return {ReadTree: self._read_tree, ReadFile: self._read_file, ReadGit: self._read_git}

    # --- files

    async def _read_tree(self, who: Identity, action: ReadTree) -> tuple[FileEntry, ...]:
        folder = self._folder(who, action.folder)
        within = self._folder(who, action.within) if action.within else ""
        if within and not inside(folder, within):
            raise NotFound("folder", action.folder)
        return await asyncio.to_thread(self._below, folder, min(action.depth, DEPTH), [ENTRIES], within)

    async def _read_file(self, who: Identity, action: ReadFile) -> bytes:
        folder = self._folder(who, action.folder)
        within = self._folder(who, action.within) if action.within else ""
        return await asyncio.to_thread(self._file, os.path.join(folder, action.path), action.path, within)

    def _folder(self, who: Identity, path: str) -> str:
        require_scope(who, "view")
        folder = self._resolve(path)
        if not self._paths.allows(folder):
            raise NotFound("folder", path)
        return folder

    def _below(self, folder: str, depth: int, left: list[int], within: str) -> tuple[FileEntry, ...]:
        """The content of a folder. `left`: the number of entries that may still be listed. Links that lead out of
        `within` are left out."""
        found: list[tuple[bool, str, str, os.stat_result]] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if left[0] <= 0:
                        break
                    if (real := self._shown(entry)) is not None and (not within or inside(real, within)):
                        left[0] -= 1
                        found.append((entry.is_dir(), entry.name, entry.path, os.stat(real)))
        except OSError:
            return ()
        found.sort(key=lambda one: (not one[0], one[1].casefold()))
        listed = []
        for is_folder, name, path, about in found:
            deeper = is_folder and depth > 0 and not os.path.islink(path) and name not in LEFT_OUT
            children = self._below(path, depth - 1, left, within) if deeper else ()
            size, modified = (0 if is_folder else about.st_size), int(about.st_mtime * 1000)
            listed.append(FileEntry(_text(name), _text(path), is_folder, size, modified, children))
        return tuple(listed)

    def _shown(self, entry: "os.DirEntry[str]") -> str | None:
        """The real path of a plain file or folder, if it may be shown; else None."""
        try:
            real = os.path.realpath(entry.path, strict=True)
            return real if self._paths.allows(real) and (entry.is_dir() or entry.is_file()) else None
        except OSError:
            return None

    def _file(self, path: str, named: str, within: str) -> bytes:
        if "\0" in path:
            raise BadRequest("A path has no NUL character.")
        try:
            real = os.path.realpath(path, strict=True)
            # Files below `.git` are read only through git, which leaves out closed folders.
            allowed = self._paths.allows(real) and (not within or inside(real, within))
            if not allowed or ".git" in real.split("/") or not os.path.isfile(real):
                raise NotFound("file", named)
            with open_regular(real) as opened:
                about = os.fstat(opened.fileno())
                # A folder on the path may have become a link since: the opened file must be the checked one.
                again = os.path.realpath(real, strict=True)
                if again != real or not os.path.samestat(about, os.stat(again)):
                    raise NotFound("file", named)
                if about.st_size > FILE:
                    raise TooLarge("file", about.st_size, FILE)
                return opened.read(FILE)
        except OSError:
            raise NotFound("file", named) from None

    # --- git

    async def _read_git(self, who: Identity, action: ReadGit) -> GitText:
        folder = self._folder(who, action.folder)
        found = await asyncio.to_thread(self._paths.find_repository, folder)
        if found is None:
            raise NotRepository
        if not await asyncio.to_thread(git.installed):
            raise Unavailable("git is not installed on this machine.")
        output = await git.run_readonly(found.git_dir, found.top, self._arguments(action, folder, found.top))
        return GitText(output.data, output.code == 0, output.cut)

    def _arguments(self, action: ReadGit, folder: str, top: str) -> tuple[str, ...]:
        match action.what:
            case "status":
                return (*_STATUS, "--", *self._below_top(top, "."))
            case "diff":
                return ("diff", *_DIFF, "HEAD", "--", *self._below_top(top, self._inside(folder, top, action.name)))
            case "log":
                count = max(1, min(action.count, COMMITS))
                return ("log", f"-{count}", "--no-show-signature", _LOG, "--shortstat", *_DIFF)
            case "commit":
                return ("show", *_SHOW, _commit(action.name), "--", *self._below_top(top, "."))
            case "old":
                return ("cat-file", "blob", f"HEAD:{self._inside(folder, top, action.name)}")
            case "branches":
                return ("for-each-ref", "--format=%(refname)%00%(HEAD)", "refs/heads", "refs/remotes")
            case "upstream":
                return ("rev-list", "--left-right", "--count", "HEAD...@{upstream}", "--")
            case "remotes":
                return ("remote",)

    def _inside(self, folder: str, top: str, name: str) -> str:
        """A file's path relative to the top of the repository, as git uses it."""
        path = os.path.normpath(os.path.join(folder, name))
        if "\0" in name or not name or not inside(path, top) or not self._paths.allows(path):
            raise NotFound("file", name)
        return os.path.relpath(path, top)

    def _below_top(self, top: str, name: str) -> tuple[str, ...]:
        """Pathspecs for `name` (`.` is everything), excluding closed and secret files inside the repository."""
        closed = [
            f":(top,exclude,literal){os.path.relpath(folder, top)}"
            for folder in self._paths.closed
            if inside(folder, top)
        ]
        begun = [
            f":(top,exclude,glob){_WILD.sub(_ESCAPED, os.path.relpath(path, top))}*"
            for path in self._paths.beginnings
            if inside(path, top)
        ]
        secret = [f":(top,exclude,glob)**/{word}{below}" for word in sorted(SECRET) for below in ("", "/**")]
        return (":(top)" if name == "." else f":(top,literal){name}", *closed, *begun, *secret)


def _commit(name: str) -> str:
    if not _COMMIT.fullmatch(name):
        raise BadRequest("A commit is named by its hash.")
    return f"{name}^{{commit}}"


def _text(name: str) -> str:
    return os.fsencode(name).decode(errors="replace")
