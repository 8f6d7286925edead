"""Compares two trees of a session: the list of changed files, and the diff of one of them."""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Final, Literal

from fairlead.model.errors import BadRequest, NotFound
from fairlead.review import formats
from fairlead.review.api import ChangedFile, FileDiff, ReadFileDiff
from fairlead.review.formats import DiffRow, RawChange
from fairlead.review.private_repository import LARGE, MARKER, GitFailed, PrivateRepository

RENAMES: Final = "-l400"
"""Above this number of candidates only files that were moved unchanged are found: the others are compared in pairs."""
DIFF_BYTES: Final = 32 << 20
_TREE: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_DIFF: Final = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty", "-M", RENAMES)
MARKER_BYTES: Final = 200
"""No text that stands for a file is longer."""


def tree_name(text: str) -> str:
    if not _TREE.fullmatch(text):
        raise BadRequest("A tree is named by its hash, from the list of changes.")
    return f"{text}^{{tree}}"


async def changed_files(repository: PrivateRepository, before: str, after: str) -> list[RawChange]:
    """All changes between two trees, by path."""
    trees = (tree_name(before), tree_name(after))
    output = await repository.git("diff-tree", "-r", "-z", "--raw", *_DIFF, *trees, most=DIFF_BYTES)
    return formats.raw_changes(output)


async def described(
    repository: PrivateRepository, before: str, after: str, changes: Sequence[RawChange]
) -> list[ChangedFile]:
    """Some changes with the numbers of their lines."""
    if not changes:
        return []
    paths = [path for change in changes for path in dict.fromkeys((change.old_path, change.path))]
    trees = (tree_name(before), tree_name(after))
    output = await repository.git("diff-tree", "-r", "-z", "--numstat", *_DIFF, *trees, "--", *paths, most=DIFF_BYTES)
    counts = formats.line_counts(output)
    return [_described(change, counts.get(change.path, formats.LineCount()), repository.markers) for change in changes]


def _described(change: RawChange, count: formats.LineCount, markers: set[str]) -> ChangedFile:
    modes = (change.old_mode, change.new_mode)
    if not markers.isdisjoint((change.old_hash, change.new_hash)):
        key, path = formats.file_key(change.path), formats.shown_path(change.path)
        return ChangedFile(key=key, path=path, status=change.status, kind="large")
    moved = change.old_path != change.path
    executable = modes[1] == "100755" if set(modes) == {"100644", "100755"} else None
    return ChangedFile(
        key=formats.file_key(change.path),
        path=formats.shown_path(change.path),
        status=change.status,
        old_path=formats.shown_path(change.old_path) if moved else "",
        old_key=formats.file_key(change.old_path) if moved else "",
        kind=_kind(modes),
        added=count.added,
        removed=count.removed,
        binary=count.binary,
        executable=executable,
    )


def _kind(modes: tuple[str, str]) -> Literal["file", "link", "submodule"]:
    mode = modes[1] if modes[1].strip("0") else modes[0]
    return "submodule" if mode == "160000" else "link" if mode == "120000" else "file"


class DiffReader:
    """Reads diffs of single files, and keeps the last ones: a long diff is read page by page."""

    KEPT: Final = 4

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], tuple[list[DiffRow], FileDiff]] = {}

    async def read(
        self, repository: PrivateRepository, action: ReadFileDiff, allows: Callable[[bytes], bool]
    ) -> tuple[list[DiffRow], FileDiff]:
        """The rows of a diff, and what is known besides. NotFound for a file that may not be shown."""
        path = formats.path_of(action.key)
        old = formats.path_of(action.old_key) if action.old_key else path
        if not allows(path) or not allows(old):
            raise NotFound("file", action.key)
        name = (action.session, action.before, action.after, path, old, action.context)
        found = self._kept.pop(name, None) or await self._read(repository, action, path, old)
        self._kept[name] = found
        while len(self._kept) > self.KEPT:
            del self._kept[next(iter(self._kept))]
        return found

    async def _read(
        self, repository: PrivateRepository, action: ReadFileDiff, path: bytes, old: bytes
    ) -> tuple[list[DiffRow], FileDiff]:
        trees = (tree_name(action.before), tree_name(action.after))
        names = dict.fromkeys((old, path))
        raw = formats.raw_changes(await repository.git("diff-tree", "-r", "-z", "--raw", *_DIFF, *trees, "--", *names))
        change = next((one for one in raw if one.path == path), None)
        if change is None:
            return [], FileDiff(key=action.key, path=formats.shown_path(path), total=0, note="unchanged")
        about = await _contents(repository, change)
        if about.note:
            return [], about
        try:
            context = f"-U{action.context}"
            data = await repository.git("diff-tree", "-r", "-p", context, *_DIFF, *trees, "--", *names, most=DIFF_BYTES)
        except GitFailed:
            return [], FileDiff(key=about.key, path=about.path, total=0, note="large")
        # A hundred thousand lines take a while: other requests go on meanwhile.
        rows = await asyncio.to_thread(formats.diff_rows, data)
        binary = not rows and b"\nBinary files " in data
        note = "binary" if binary else ("" if rows else "mode" if change.old_mode != change.new_mode else "renamed")
        return rows, FileDiff(
            key=about.key,
            path=about.path,
            total=len(rows),
            note=note,
            old_size=about.old_size,
            new_size=about.new_size,
        )


async def _contents(repository: PrivateRepository, change: RawChange) -> FileDiff:
    """The sizes of both versions; with a note if their lines are not shown."""
    key, path = formats.file_key(change.path), formats.shown_path(change.path)
    if "160000" in (change.old_mode, change.new_mode):
        commits = [name[:12] if name.strip("0") else "none" for name in (change.old_hash, change.new_hash)]
        return FileDiff(key=key, path=path, total=0, note=f"submodule {commits[0]} {commits[1]}")
    present = [name for name in (change.old_hash, change.new_hash) if name.strip("0")]
    asked = "".join(f"{name}\n" for name in present).encode()
    lines = (await repository.git("cat-file", "--batch-check=%(objectsize)", stdin=asked)).decode().split()
    sizes = {name: int(line) if line.isdigit() else 0 for name, line in zip(present, lines, strict=False)}
    marked = False
    for name in [name for name in present if sizes.get(name, 0) < MARKER_BYTES]:
        text = await repository.git("cat-file", "blob", name)
        if text.startswith(MARKER):
            marked = True
            found = re.search(rb"it has (\d+) bytes", text)
            sizes[name] = int(found[1]) if found else 0
    large = marked or any(size > LARGE for size in sizes.values())
    old_size, new_size = sizes.get(change.old_hash), sizes.get(change.new_hash)
    return FileDiff(key=key, path=path, total=0, note="large" if large else "", old_size=old_size, new_size=new_size)
