"""Paths of tool calls: where they lead, whether that is inside a folder, whether a rule's pattern covers it. Pure:
looking through symbolic links is a function that the caller gives.

A path has two readings: programs that tidy `..` away before opening, and the kernel, which follows links first.
Both are kept. To allow something all of them must be fine; to refuse it, one that is not is enough.
"""

import posixpath
import re
from collections.abc import Callable, Iterable

Resolve = Callable[[str], str]
"""The real path of an absolute path, links followed, the missing rest kept (os.path.realpath). May raise OSError."""

_WILD = re.compile(r"[*?\[{]")
_MAX_PATH = 4096  # PATH_MAX of Linux


class BadPath(ValueError):
    """A path that leads nowhere we could know: it asks."""


def absolute(path: str, cwd: str, home: str | None) -> str:
    """The path as the shell or a tool would begin to look for it, `..` still in it."""
    if not path or "\0" in path or len(path) > _MAX_PATH:
        raise BadPath(path[:80])
    if path == "~" or path.startswith("~/"):
        if home is None:
            raise BadPath(path)
        path = home + path[1:]
    elif path.startswith("~"):
        raise BadPath(path)
    return path if path.startswith("/") else f"{cwd}/{path}"


def readings(path: str, cwd: str, home: str | None, resolve: Resolve) -> tuple[str, ...]:
    """Every real place that this path can mean. Raises BadPath."""
    full = absolute(path, cwd, home)
    plain = tidy(full)
    try:
        first = tidy(resolve(plain))
        return (first,) if plain == full else tuple(dict.fromkeys((first, tidy(resolve(full)))))
    except (OSError, ValueError) as error:
        raise BadPath(path) from error


def tidy(path: str) -> str:
    """Without `.`, `..` and doubled slashes (POSIX keeps two leading ones; here they mean one)."""
    plain = posixpath.normpath(path)
    return plain[1:] if plain.startswith("//") else plain


def inside(path: str, folder: str) -> bool:
    """Whether a tidy path is the folder or below it."""
    return path == folder or path.startswith(folder if folder.endswith("/") else folder + "/")


def inside_any(path: str, folders: Iterable[str]) -> bool:
    return any(inside(path, folder) for folder in folders)


def static_part(pattern: str) -> str:
    """The folder in front of a pattern's first wildcard; the whole of it when there is none."""
    wild = _WILD.search(pattern)
    return pattern if wild is None else pattern[: wild.start()].rpartition("/")[0] or "/"


def pattern_covers(pattern: str, path: str, *, below: bool) -> bool:
    """Whether an absolute pattern matches a tidy path: `*` and `?` stay within a name, `**` crosses folders.

    `below`: what lies in a matching folder is covered too. Refusing rules want that, allowing ones do not.
    """
    names = _parts(path)
    # row[n]: whether the parts so far match the first n names. A table, not trying all ways: patterns and paths
    # come from people who may mean harm.
    row = [True] + [False] * len(names)
    for part in _parts(pattern):
        if part == "**":
            first = row.index(True) if True in row else len(row)
            row = [n >= first for n in range(len(row))]
        else:
            row = [False] + [row[n] and _match_name(part, name) for n, name in enumerate(names)]
    return any(row) if below else row[-1]


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _match_name(pattern: str, name: str) -> bool:
    """`*` and `?` within one name: after a mismatch only the last star may take one character more."""
    at = here = 0
    star: tuple[int, int] | None = None  # where pattern and name go on after the last star
    while here < len(name):
        if at < len(pattern) and pattern[at] == "*":
            at += 1
            star = (at, here)
        elif at < len(pattern) and pattern[at] in ("?", name[here]):
            at += 1
            here += 1
        elif star is not None:
            star = (star[0], star[1] + 1)
            at, here = star
        else:
            return False
    return not pattern[at:].strip("*")
