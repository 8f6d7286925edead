"""Paths of tool calls: where they lead, whether that is inside a folder, whether a rule's pattern covers it. Pure:
looking through symbolic links is a function that the caller gives.

A path has two readings: programs that tidy `..` away before opening, and the kernel, which follows links first.
Both are kept. To allow something all of them must be fine; to refuse it, one that is not is enough.
"""

import posixpath
import re
from collections.abc import Callable, Iterable
from functools import lru_cache

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
    try:
        return tuple(dict.fromkeys((tidy(resolve(tidy(full))), tidy(resolve(full)))))
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
    expression = _expression(pattern)
    if expression.fullmatch(path):
        return True
    while below and path not in ("/", ""):
        path = path.rpartition("/")[0]
        if expression.fullmatch(path or "/"):
            return True
    return False


@lru_cache(maxsize=512)
def _expression(pattern: str) -> re.Pattern[str]:
    out: list[str] = []
    for part in pattern.split("/"):
        if part == "**":
            out.append("(?:/[^/]+)*")
        elif part:
            # Neighbouring stars say no more than one, and would make matching slow.
            text = re.sub(r"\*+", "*", part)
            out.append("/" + "".join({"*": "[^/]*", "?": "[^/]"}.get(char, re.escape(char)) for char in text))
    return re.compile("".join(out) or "/", re.DOTALL)
