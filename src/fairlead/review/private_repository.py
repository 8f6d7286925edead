"""A repository of the gateway's own next to a user's: it has its own configuration, index and objects, and uses the
working tree and the objects of the user's repository.

Rule: a git that reads or writes files of a working tree runs with this configuration, never with that of the user's
repository, which can name programs (filters, monitors, hooks, merge and diff drivers). It runs in the sandbox of
agents, if there is one: a link that an agent puts into the way of git leads nowhere that the agent cannot go itself.
"""

import asyncio
import contextlib
import hashlib
import os
import shutil
import stat
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fairlead.model.errors import Unavailable
from fairlead.review import formats
from fairlead.system import git
from fairlead.system.readable_paths import Repository
from fairlead.system.regular_files import open_regular
from fairlead.system.sandbox import Sandbox
from fairlead.system.tasks import all_of

MARKER: Final = b"fairlead: this file is not in the snapshot"
"""Begins the text that stands in a snapshot for a file that is too large or cannot be read."""
LARGE: Final = 5 << 20
"""Files above this size are not stored: only their size and time."""
SNAPSHOT_BYTES: Final = 256 << 20
"""Limit of the new content of one snapshot."""
SESSION_BYTES: Final = 1 << 30
"""Limit of all snapshots of a session; above it the sizes and times of changed files stand for their content."""
SNAPSHOT_FILES: Final = 50_000
PACKED: Final = 300
"""From this number of files on they are stored in one pack: that takes half the time of as many single files."""
WORKTREES: Final = ".worktrees"
"""The folder of a repository's worktrees, in the folder of the repository."""
UNTRACKED: Final = ("ls-files", "-o", "--exclude-standard", f"--exclude=/{WORKTREES}/", "-z")
_COPIED: Final = ("core.filemode", "core.symlinks", "core.ignorecase", "core.autocrlf", "core.eol", "core.excludesfile")
"""The settings of a repository that decide how its files are compared. None of them names a program."""
_OBJECTS: Final = "objects"


class GitFailed(Unavailable, code="git_failed"):
    """git could not do it; the message has git's own words."""


class GitAccess(msgspec.Struct, frozen=True):
    """How git is run. `settings_file`: the git settings of the user whom the gateway runs as; empty: none."""

    sandbox: Sandbox | None = None
    settings_file: str = ""


class PrivateRepository:
    """`folder` is in the data folder; a sandbox shows it to git, and to nothing else."""

    def __init__(self, folder: Path, user: Repository, access: GitAccess) -> None:
        self.folder = folder
        self.user = user
        self._access = access
        self._sandbox = None if access.sandbox is None else access.sandbox.showing(writable=(str(folder),))
        self._format = "sha1"
        self._stored = 0
        self.markers: set[str] = set()
        """The hashes of the texts that stand for files, as far as this gateway has stored them."""

    # --- running git

    async def git(
        self,
        *arguments: str | bytes,
        stdin: bytes = b"",
        most: int = git.MOST,
        own_index: bool = True,
        write: bool = False,
        seconds: float = git.SECONDS,
    ) -> bytes:
        """Run git with our configuration on the user's working tree. `own_index` false: with the user's index. `write`:
        new objects go to the user's repository. Raises GitFailed."""
        objects = os.path.join(self.user.common_dir, _OBJECTS)
        # A path is a path, whatever characters it has.
        env = {"GIT_DIR": str(self.folder), "GIT_WORK_TREE": self.user.top, "GIT_LITERAL_PATHSPECS": "1"}
        if not own_index:
            env["GIT_INDEX_FILE"] = os.path.join(self.user.git_dir, "index")
        if write:
            env["GIT_OBJECT_DIRECTORY"] = objects
        else:
            env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = os.fsdecode(formats.quoted(os.fsencode(objects)))
        words = [os.fsdecode(word) for word in arguments]
        output = await git.run(
            words, top=self.user.top, env=env, stdin=stdin, most=most, seconds=seconds, sandbox=self._sandbox
        )
        return _checked(output, words)

    async def users_git(self, *arguments: str, stdin: bytes = b"", check: bool = True) -> bytes:
        """Run a command on the user's repository that reads and writes only its references and settings."""
        env = {"GIT_DIR": self.user.git_dir, "GIT_WORK_TREE": self.user.top}
        output = await git.run(arguments, top=self.user.top, env=env, stdin=stdin, sandbox=self._sandbox)
        return _checked(output, arguments) if check or output.code == 0 else b""

    async def settings(self) -> dict[str, str]:
        """The settings of the user's repository together with those of the user whom the gateway runs as. Reading them
        starts no program."""
        env = {"GIT_DIR": self.user.git_dir, "GIT_CONFIG_GLOBAL": self._access.settings_file or os.devnull}
        output = await git.run(("config", "--list", "-z"), top=self.user.top, env=env, sandbox=self._sandbox)
        found = {}
        for item in _checked(output, ("config",)).decode(errors="surrogateescape").split("\0"):
            name, _, value = item.partition("\n")
            found[name.lower()] = value
        return found

    # --- set-up

    async def create(self) -> None:
        """Make the folder, unless it is there; write the configuration in any case: the user's may have changed."""
        for name in ("objects/info", "objects/pack", "refs", "info"):
            (self.folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        found = await self.settings()
        self._format = found.get("extensions.objectformat", "sha1")
        if self._format not in ("sha1", "sha256"):
            raise Unavailable("This repository has a format that is not known here.")
        self._stored = await asyncio.to_thread(_size, self.folder / _OBJECTS)
        (self.folder / "HEAD").write_text("ref: refs/heads/none\n")
        (self.folder / "config").write_text(_configuration(found, self._format), errors="surrogateescape")
        for name in ("exclude", "attributes"):
            _copy(os.path.join(self.user.common_dir, "info", name), self.folder / "info" / name)
        if not (self.folder / "index").exists():
            await self._seed()

    async def _seed(self) -> None:
        """Begin with a copy of the user's index: it has the times of the files, so that only changed ones are read. Its
        flags that hide changes are removed."""
        _copy(os.path.join(self.user.git_dir, "index"), self.folder / "index")
        self.copy_shared_index()
        try:
            assumed, skipped = formats.flagged_entries(await self.git("ls-files", "-v", "-z", most=64 << 20))
        except GitFailed:
            # An index that this git cannot read: begin with an empty one.
            (self.folder / "index").unlink(missing_ok=True)
            return
        present = await asyncio.to_thread(self._present, skipped)
        for option, paths in (("--no-assume-unchanged", assumed), ("--no-skip-worktree", present)):
            if paths:
                await self.git("update-index", option, "-z", "--stdin", stdin=_lines(paths))

    def _present(self, paths: Sequence[bytes]) -> list[bytes]:
        return [path for path in paths if os.path.lexists(os.path.join(os.fsencode(self.user.top), path))]

    def copy_shared_index(self) -> None:
        """Copy the files that a split index consists of, where git looks for them."""
        for path in Path(self.user.git_dir).glob("sharedindex.*"):
            if not (self.folder / path.name).exists():
                _copy(str(path), self.folder / path.name)

    # --- snapshots

    async def snapshot(self) -> str:
        """Store the working tree as it is now; return the hash of its tree. Ignored files are not part of it."""
        outputs = await all_of(
            self.git("diff-files", "--name-only", "-z", "--ignore-submodules=dirty", most=32 << 20),
            self.git(*UNTRACKED, most=32 << 20),
        )
        changed, untracked = map(formats.names, outputs)
        if len(changed) + len(untracked) > SNAPSHOT_FILES:
            raise Unavailable(f"More than {SNAPSHOT_FILES} files have changed: no snapshot is made of so many.")
        # A folder with a repository of its own ends with a slash.
        nested = [path.rstrip(b"/") for path in untracked if path.endswith(b"/")]
        single = [path for path in untracked if not path.endswith(b"/")]
        plain, marked = await asyncio.to_thread(self._sorted_out, [*changed, *single])
        marked |= await self._nested(nested)
        await self.update_index(plain)
        if marked:
            entries = b"".join(b"100644 %s\t%s\0" % (self._store(text).encode(), path) for path, text in marked.items())
            await self.git("update-index", "--replace", "-z", "--index-info", stdin=entries)
        return (await self.git("write-tree")).decode().strip()

    async def update_index(self, paths: Sequence[bytes], *, users: bool = False) -> None:
        """Make the index (`users`: that of the user) equal to the working tree at these paths."""
        gone = await asyncio.to_thread(self._gone, paths)
        if gone:
            # By entry, because git refuses a path below a folder that has become a link.
            nothing = b"0" * hashlib.new(self._format, usedforsecurity=False).digest_size * 2
            entries = b"".join(b"0 %s\t%s\0" % (nothing, path) for path in gone)
            await self.git("update-index", "-z", "--index-info", stdin=entries, own_index=not users, write=users)
        present = [path for path in paths if path not in gone]
        if present:
            packed = ("-c", "core.bigFileThreshold=1") if len(present) > PACKED else ()
            words = (*packed, "update-index", "--add", "--remove", "--replace", "-z", "--stdin")
            await self.git(*words, stdin=_lines(present), own_index=not users, write=users)

    def _gone(self, paths: Sequence[bytes]) -> set[bytes]:
        """The paths that do not exist, or only beyond a link."""
        top = os.fsencode(self.user.top)
        folders: dict[bytes, bool] = {b"": True}

        def is_folder(path: bytes) -> bool:
            if path not in folders:
                place = os.path.join(top, path)
                above = is_folder(os.path.dirname(path))
                folders[path] = above and os.path.isdir(place) and not os.path.islink(place)
            return folders[path]

        return {
            path
            for path in paths
            if not is_folder(os.path.dirname(path)) or not os.path.lexists(os.path.join(top, path))
        }

    async def _nested(self, paths: Sequence[bytes]) -> dict[bytes, bytes]:
        """Store repositories inside of this one as git does, by their commit; return the texts for those without."""
        without = {}
        for path in paths:
            try:
                await self.git("update-index", "--add", "--replace", "-z", "--stdin", stdin=_lines([path]))
            except GitFailed:
                without[path] = b"%s: it is a repository of its own\n" % MARKER
        return without

    def _sorted_out(self, paths: Sequence[bytes]) -> tuple[list[bytes], dict[bytes, bytes]]:
        """The paths whose content is stored, and those for which a text stands."""
        plain: list[bytes] = []
        marked: dict[bytes, bytes] = {}
        room = min(SNAPSHOT_BYTES, SESSION_BYTES - self._stored)
        for path in dict.fromkeys(paths):
            place = os.path.join(os.fsencode(self.user.top), path)
            try:
                about = os.lstat(place)
            except OSError:
                plain.append(path)  # It was deleted.
                continue
            size = about.st_size
            if stat.S_ISLNK(about.st_mode) or stat.S_ISDIR(about.st_mode):
                plain.append(path)
            elif not stat.S_ISREG(about.st_mode):
                continue
            elif size > min(LARGE, room) or not os.access(place, os.R_OK):
                marked[path] = b"%s: it has %d bytes, changed at %d\n" % (MARKER, size, about.st_mtime_ns)
            else:
                plain.append(path)
                room -= size
                self._stored += size
        return plain, marked

    def _store(self, text: bytes) -> str:
        """Write a loose object."""
        data = b"blob %d\0%s" % (len(text), text)
        name = hashlib.new(self._format, data, usedforsecurity=False).hexdigest()
        self.markers.add(name)
        path = self.folder / _OBJECTS / name[:2] / name[2:]
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            path.write_bytes(zlib.compress(data, 1))
        return name

    # --- reading

    async def head_tree(self) -> str:
        """The tree of the last commit; before the first one, the empty tree."""
        found = await self.users_git("rev-parse", "--verify", "--quiet", "HEAD^{tree}", check=False)
        return found.decode().strip() or (await self.git("mktree")).decode().strip()


def _lines(paths: Sequence[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)


def _checked(output: git.GitOutput, words: Sequence[str]) -> bytes:
    name = next((word for word in words if not word.startswith("-") and "=" not in word), "")
    if output.code == -1:
        raise GitFailed(f"git {name} took longer than {git.SECONDS:.0f} seconds in this repository.")
    if output.cut:
        raise GitFailed(f"git {name} printed more than the gateway reads: there are too many changes.")
    if output.code != 0:
        lines = output.error.splitlines() or [f"exit code {output.code}"]
        reason = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[0])
        raise GitFailed(f"git {name} failed: {reason}")
    return output.data


def _configuration(found: Mapping[str, str], object_format: str) -> str:
    """The text of our configuration file."""
    lines = ["[core]", "bare = false", f"repositoryformatversion = {0 if object_format == 'sha1' else 1}"]
    # A snapshot that a crash of the machine damages is made again.
    lines += ["fsync = none", "compression = 1", "untrackedCache = false", "splitIndex = false"]
    lines += [f"{name.removeprefix('core.')} = {_value(found[name])}" for name in _COPIED if name in found]
    lines += ["[gc]", "auto = 0", "[index]", "skipHash = false"]
    if object_format != "sha1":
        lines += ["[extensions]", f"objectFormat = {object_format}"]
    return "\n".join(lines) + "\n"


def _value(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{plain}"'


def _copy(source: str, target: Path) -> None:
    """Copy a plain file, if there is one; a link is not followed."""
    with contextlib.suppress(OSError), open_regular(source) as opened, target.open("wb") as made:
        shutil.copyfileobj(opened, made)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
