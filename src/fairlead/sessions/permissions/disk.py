"""Disk access of the policy: the real path of a path, and the names in a folder. Never follows a link of /proc."""

import os
import stat
from itertools import islice

_MOST_LINKS = 40  # as the kernel
_MOST_NAMES = 20_000


def resolve(path: str) -> str:
    """Return the real path of an absolute path: links are followed, components that do not exist are kept.

    A path in /proc stays as written: its links have other targets in the agent's process than in ours. Raises OSError
    for a loop of links.
    """
    todo = [part for part in reversed(path.split("/")) if part]
    done: list[str] = []
    links = 0
    while todo:
        part = todo.pop()
        if part == ".":
            continue
        if part == "..":
            if done:
                done.pop()
            continue
        done.append(part)
        if done[0] == "proc":
            return "/" + "/".join([*done, *(each for each in reversed(todo) if each not in (".", ".."))])
        here = "/" + "/".join(done)
        try:
            if not stat.S_ISLNK(os.lstat(here).st_mode):
                continue
            target = os.readlink(here)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(f"too many links: {path[:80]}")
        if target.startswith("/"):
            done.clear()
        else:
            done.pop()
        todo.extend(each for each in reversed(target.split("/")) if each)
    return "/" + "/".join(done)


def entries(folder: str) -> list[str]:
    """Return the names in a folder. Raises OSError when the folder does not exist or has too many names."""
    with os.scandir(folder) as found:
        names = [entry.name for entry in islice(found, _MOST_NAMES + 1)]
    if len(names) > _MOST_NAMES:
        raise OSError(f"too many names in {folder[:80]}")
    return names
