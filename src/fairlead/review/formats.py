"""Parses the output of git's plumbing commands, all of them NUL-terminated, and unified diffs. Pure.

Paths are bytes: git does not know their encoding. `file_key` is their form in URLs and JSON.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec

from fairlead.model.errors import BadRequest

LINE_CHARACTERS: Final = 2000
"""A longer line (of a minified file, for example) is cut."""

_HUNK: Final = re.compile(rb"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)")
_STATUS: Final[dict[str, Literal["added", "deleted", "modified", "renamed", "copied", "retyped"]]] = {
    "A": "added",
    "D": "deleted",
    "M": "modified",
    "R": "renamed",
    "C": "copied",
    "T": "retyped",
}

ChangeStatus = Literal["added", "deleted", "modified", "renamed", "copied", "retyped", "unmerged"]


class RawChange(msgspec.Struct, frozen=True):
    """One entry of `--raw -z`. `old_path` differs from `path` for a rename or a copy."""

    status: ChangeStatus
    path: bytes
    old_path: bytes
    old_mode: str
    new_mode: str
    old_hash: str
    new_hash: str


class LineCount(msgspec.Struct, frozen=True):
    """Numbers of added and removed lines; `binary` instead of both."""

    added: int = 0
    removed: int = 0
    binary: bool = False


class TreeEntry(msgspec.Struct, frozen=True):
    mode: str
    hash: str
    path: bytes


class DiffRow(msgspec.Struct, frozen=True, array_like=True):
    """A line of a diff. `sign`: `+`, `-`, a blank, `@` for the heading of a hunk, a backslash for a note.
    `old` and `new` are line numbers; 0: the line is not in that file."""

    sign: str
    old: int
    new: int
    text: str


class DiffPair(msgspec.Struct, frozen=True, array_like=True):
    """A row of a diff in two columns."""

    left: DiffRow | None
    right: DiffRow | None


def file_key(path: bytes) -> str:
    """Return a path as ASCII text, percent-encoded: it survives URLs and JSON whatever its bytes are."""
    return quote_from_bytes(path, safe="/")


def path_of(key: str) -> bytes:
    """Return the path of a key. Raises BadRequest for one that leaves the repository or that git does not track."""
    path = unquote_to_bytes(key)
    parts = path.split(b"/")
    if not path or b"\0" in path or any(part in (b"", b".", b"..") or part.lower() == b".git" for part in parts):
        raise BadRequest("A file is named by its key from the list of changes.", key=key[:200])
    return path


def shown_path(path: bytes) -> str:
    return path.decode(errors="replace")


def raw_changes(data: bytes) -> list[RawChange]:
    """Parse `diff-tree -r --raw -z` (and diff-index, diff-files)."""
    found = []
    fields = iter(data.split(b"\0"))
    for field in fields:
        if not field.startswith(b":"):
            continue
        old_mode, new_mode, old_hash, new_hash, status = field[1:].decode("ascii", "replace").split(" ")[:5]
        old_path = path = next(fields, b"")
        if status[:1] in ("R", "C"):
            path = next(fields, b"")
        known: ChangeStatus = _STATUS.get(status[:1], "unmerged")
        found.append(RawChange(known, path, old_path, old_mode, new_mode, old_hash, new_hash))
    return found


def line_counts(data: bytes) -> dict[bytes, LineCount]:
    """Parse `--numstat -z`; the counts of a rename are those of its new path."""
    found = {}
    fields = iter(data.split(b"\0"))
    for field in fields:
        added, tab, rest = field.partition(b"\t")
        removed, tab, path = rest.partition(b"\t")
        if not tab:
            continue
        if not path:
            next(fields, b"")
            path = next(fields, b"")
        binary = added == b"-"
        found[path] = LineCount(binary=True) if binary else LineCount(int(added), int(removed))
    return found


def tree_entries(data: bytes) -> list[TreeEntry]:
    """Parse `ls-tree -r -z`, or `ls-files -s -z`, whose third field is a stage instead of a hash."""
    found = []
    for field in data.split(b"\0"):
        about, tab, path = field.partition(b"\t")
        words = about.decode("ascii", "replace").split(" ")
        if tab and len(words) == 3:
            mode, kind, name = words
            found.append(TreeEntry(mode, name if len(name) > 1 else kind, path))
    return found


def names(data: bytes) -> list[bytes]:
    return [name for name in data.split(b"\0") if name]


def flagged_entries(data: bytes) -> tuple[list[bytes], list[bytes]]:
    """Parse `ls-files -v -z`: the paths that git is to assume unchanged, and those that it is to skip."""
    assumed, skipped = [], []
    for field in names(data):
        tag, path = field[:1], field[2:]
        if tag.islower():
            assumed.append(path)
        if tag in (b"S", b"s"):
            skipped.append(path)
    return assumed, skipped


def worktrees(data: bytes) -> list[tuple[str, str, str]]:
    """Parse `worktree list --porcelain -z`: path, commit and branch of each, the main one first."""
    found = []
    for block in data.split(b"\0\0"):
        fields = {name: value for name, _, value in (line.partition(b" ") for line in block.split(b"\0") if line)}
        if b"worktree" in fields:
            branch = fields.get(b"branch", b"").removeprefix(b"refs/heads/")
            path, head = os_text(fields[b"worktree"]), fields.get(b"HEAD", b"")
            found.append((path, head.decode("ascii", "replace"), branch.decode(errors="replace")))
    return found


def os_text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def attributes(data: bytes) -> dict[bytes, str]:
    """Parse `check-attr -z` of one attribute: the value by path, without the paths that do not have it."""
    fields = data.split(b"\0")
    triples = zip(fields[0::3], fields[2::3], strict=False)
    return {path: value.decode(errors="replace") for path, value in triples if value not in (b"unspecified", b"unset")}


def quoted(path: bytes) -> bytes:
    """Return a path as git reads it in a list that is separated by colons or lines."""
    plain = b"".join(
        b"\\%03o" % byte if byte < 0x20 or byte >= 0x7F or byte in b'"\\' else bytes((byte,)) for byte in path
    )
    return b'"' + plain + b'"'


def diff_rows(data: bytes) -> list[DiffRow]:
    """Parse the hunks of one file's unified diff. The lines before the first hunk have only names and hashes."""
    found: list[DiffRow] = []
    old = new = 0
    inside = False
    for line in data.split(b"\n"):
        if heading := _HUNK.match(line):
            old, new, inside = int(heading[1]), int(heading[2]), True
            found.append(DiffRow("@", old, new, _text(heading[3].strip())))
        elif inside and line:
            sign = line[:1]
            text = _text(line[1:])
            if sign == b"+":
                found.append(DiffRow("+", 0, new, text))
                new += 1
            elif sign == b"-":
                found.append(DiffRow("-", old, 0, text))
                old += 1
            elif sign == b" ":
                found.append(DiffRow(" ", old, new, text))
                old, new = old + 1, new + 1
            elif sign == b"\\":
                found.append(DiffRow("\\", 0, 0, "No newline at end of file"))
            else:
                # The next file begins.
                inside = False
    return found


def pairs(rows: Iterable[DiffRow]) -> Iterator[DiffPair]:
    """Pair each removed line with the added line that replaces it, for two columns."""
    removed: list[DiffRow] = []
    added: list[DiffRow] = []

    def flush() -> Iterator[DiffPair]:
        for place in range(max(len(removed), len(added))):
            yield DiffPair(
                removed[place] if place < len(removed) else None, added[place] if place < len(added) else None
            )
        removed.clear()
        added.clear()

    for row in rows:
        match row.sign:
            case "-":
                if added:
                    yield from flush()
                removed.append(row)
            case "+":
                added.append(row)
            case "\\":
                # It belongs to the line before it.
                if added or removed:
                    (added or removed).append(row)
                else:
                    yield DiffPair(row, row)
            case _:
                yield from flush()
                yield DiffPair(row, row)
    yield from flush()


def _text(line: bytes) -> str:
    text = line.removesuffix(b"\r").decode(errors="replace")
    return text if len(text) <= LINE_CHARACTERS else f"{text[:LINE_CHARACTERS]} …"
