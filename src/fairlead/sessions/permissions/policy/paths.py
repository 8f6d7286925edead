"""Paths of tool calls: where they lead, whether that is inside a folder, whether a rule's pattern covers it. Pure:
the caller passes a function that follows symbolic links.

A path has several readings. Programs remove `..` before opening a file, the kernel follows links first. The tools of
the CLIs trim a path and compose its characters (NFC), in some versions after the policy check, in some before. All
readings are kept. A call is allowed only if all of them are acceptable; one that is not is enough to refuse it.
"""

import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate
from functools import lru_cache

Resolve = Callable[[str], str]
"""Returns the real path of an absolute path: links are followed, components that do not exist are kept, and a path in
/proc stays there, because its links differ in every process (sessions/permissions/disk.py). May raise OSError."""

Entries = Callable[[str], Sequence[str]]
"""Returns the names in a folder. May raise OSError."""

PROCESSES = "/proc"

# The characters that String.prototype.trim removes: Unicode white space as JavaScript defines it, and the byte order
# mark.
_TRIMMED = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
    "\u205f\u3000\ufeff"
)
# If a screenshot does not exist, the Read tool tries its name with the other of these two spaces.
_SCREENSHOT = re.compile("([ \u202f])(?=(?:AM|PM)\\.png$)")
_PROCESS_LINK = re.compile(r"/proc/[^/]+/(?:task/[^/]+/)?(root|cwd)((?:/.*)?)")

_WILD = re.compile(r"[*?\[{]")
_MAX_PATH = 4096  # PATH_MAX of Linux


class BadPath(ValueError):
    """A path that cannot be resolved: a person is asked."""


def absolute(path: str, cwd: str, home: str | None) -> str:
    """Return the absolute path as the shell or a tool would first build it, `..` still included. Raises BadPath."""
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
    """Return a path of a tool call as written and as the tools of the CLIs rewrite it before they open it."""
    if path.isascii() and path == path.strip(_TRIMMED) and not path.endswith(".png"):
        return (path,)
    found = dict.fromkeys((path, path.strip(_TRIMMED)))
    found |= dict.fromkeys([unicodedata.normalize("NFC", text) for text in found])
    found |= dict.fromkeys([text.strip(_TRIMMED) for text in found])
    other = {" ": "\u202f", "\u202f": " "}
    found |= dict.fromkeys([_SCREENSHOT.sub(lambda space: other[space[1]], text) for text in found])
    return tuple(found)


def readings(path: str, cwd: str, home: str | None, resolve: Resolve) -> tuple[str, ...]:
    """Return every real place that this path can mean when it is opened as written. Raises BadPath."""
    full = absolute(path, cwd, home)
    try:
        found = dict.fromkeys(tidy(resolve(each)) for each in dict.fromkeys((tidy(full), full)))
        for place in tuple(found):
            process = _PROCESS_LINK.fullmatch(place)
            if process is not None:
                # The most likely target in the agent's process.
                start = cwd if process[1] == "cwd" else ""
                found[tidy(resolve(f"{start}{process[2]}" or "/"))] = None
    except (OSError, ValueError) as error:
        raise BadPath(path[:80]) from error
    return tuple(found)


def in_processes(place: str) -> bool:
    """Return whether a place belongs to running processes: its meaning depends on the process that opens it."""
    return inside(place, PROCESSES) or inside(place, "/dev/fd")


def tidy(path: str) -> str:
    """Remove `.`, `..` and doubled slashes (POSIX keeps two leading ones; here they mean one)."""
    plain = posixpath.normpath(path)
    return plain[1:] if plain.startswith("//") else plain


def inside(path: str, folder: str) -> bool:
    """Return whether a tidy path is the folder or below it."""
    return path == folder or path.startswith(folder if folder.endswith("/") else folder + "/")


def inside_any(path: str, folders: Iterable[str]) -> bool:
    return any(inside(path, folder) for folder in folders)


def static_part(pattern: str) -> str:
    """Return the folder before a pattern's first wildcard; the whole pattern when it has no wildcard."""
    wild = _WILD.search(pattern)
    return pattern if wild is None else pattern[: wild.start()].rpartition("/")[0] or "/"


def pattern_covers(pattern: str, path: str, *, below: bool) -> bool:
    """Return whether an absolute pattern matches a tidy path: `*` and `?` stay within a name, `**` crosses folders.

    `below`: everything inside a matching folder is covered too. Deny and ask rules use it, allow rules do not.
    """
    names = _parts(path)
    # row[n]: whether the parts so far match the first n names. A table instead of backtracking: an attacker may
    # choose patterns and paths.
    row = [True] + [False] * len(names)
    for part in _parts(pattern):
        if part == "**":
            first = row.index(True) if True in row else len(row)
            row = [n >= first for n in range(len(row))]
        else:
            matches = _name_pattern(part).match
            row = [False] + [row[n] and matches(name) is not None for n, name in enumerate(names)]
    return any(row) if below else row[-1]


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


@lru_cache(maxsize=512)
def _name_pattern(pattern: str) -> re.Pattern[str]:
    """Compile `*` and `?` within one name. In the regular expression of `translate` only the last star is tried again
    after a mismatch, so that its time is bounded."""
    return re.compile(translate(pattern.replace("[", "[[]")))
