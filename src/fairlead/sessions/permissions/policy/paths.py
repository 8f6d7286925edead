"""Paths of tool calls: where they lead, whether that is inside a folder, whether a rule's pattern covers it. Pure:
looking through symbolic links is a function that the caller gives.

A path has several readings. Programs tidy `..` away before opening, the kernel follows links first. The tools of the
CLIs trim a path and compose its letters (NFC), some versions after the policy was asked, some before. All readings are
kept. To allow something all of them must be fine; to refuse it, one that is not is enough.
"""

import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

Resolve = Callable[[str], str]
"""The real path of an absolute path: links followed, the missing rest kept, and never out of /proc, whose links mean
something else in every process (sessions/permissions/disk.py). May raise OSError."""

Entries = Callable[[str], Sequence[str]]
"""The names in a folder. May raise OSError."""

PROCESSES = "/proc"

# What String.prototype.trim takes away: Unicode's white space as JavaScript counts it, and the byte order mark.
_TRIMMED = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
    "\u205f\u3000\ufeff"
)
# The reading tool tries the other of these two spaces in the name of a screenshot that is not there.
_SCREENSHOT = re.compile("([ \u202f])(?=(?:AM|PM)\\.png$)")
_PROCESS_LINK = re.compile(r"/proc/[^/]+/(?:task/[^/]+/)?(root|cwd)((?:/.*)?)")

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


def spellings(path: str) -> tuple[str, ...]:
    """A path of a tool call as written and as the CLIs' tools rewrite it before they open it."""
    if path.isascii() and path == path.strip(_TRIMMED) and not path.endswith(".png"):
        return (path,)
    found = dict.fromkeys((path, path.strip(_TRIMMED)))
    found |= dict.fromkeys([unicodedata.normalize("NFC", text) for text in found])
    found |= dict.fromkeys([text.strip(_TRIMMED) for text in found])
    other = {" ": "\u202f", "\u202f": " "}
    found |= dict.fromkeys([_SCREENSHOT.sub(lambda space: other[space[1]], text) for text in found])
    return tuple(found)


def readings(path: str, cwd: str, home: str | None, resolve: Resolve) -> tuple[str, ...]:
    """Every real place that this path can mean when it is opened as it is written. Raises BadPath."""
    full = absolute(path, cwd, home)
    try:
        found = dict.fromkeys(tidy(resolve(each)) for each in dict.fromkeys((tidy(full), full)))
        for place in tuple(found):
            process = _PROCESS_LINK.fullmatch(place)
            if process is not None:
                # In the agent's process it most likely means this.
                start = cwd if process[1] == "cwd" else ""
                found[tidy(resolve(f"{start}{process[2]}" or "/"))] = None
    except (OSError, ValueError) as error:
        raise BadPath(path[:80]) from error
    return tuple(found)


def in_processes(place: str) -> bool:
    """Whether a place belongs to running processes: what it is depends on who opens it."""
    return inside(place, PROCESSES) or inside(place, "/dev/fd")


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
