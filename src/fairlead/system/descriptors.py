"""The limit of open files and sockets: raised to the maximum for this process, the original one for its children.

Shells set the soft limit low (1024) for programs that use select(2); a socket server does not use it, and raises the
limit. Children get the original limit: some of them close every number up to the limit.
"""

import contextlib
import resource
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

_CHILD_EXEC = str(Path(__file__).with_name("child_exec.py"))


class Descriptors:
    """The limit that this process was started with, once it has been raised."""

    started_with: tuple[int, int] | None = None


def raise_limit() -> int:
    """Raise the soft limit to the hard limit. Return the limit from now on."""
    with contextlib.suppress(OSError, ValueError):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            Descriptors.started_with = Descriptors.started_with or (soft, hard)
    return limit()


def limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


def restore_limit(pid: int) -> None:
    """Restore the original limit of a child that has already executed its program. Only Linux can do that."""
    if sys.platform == "linux" and Descriptors.started_with is not None:
        with contextlib.suppress(OSError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, Descriptors.started_with)


def child_limits() -> tuple[int, int]:
    """Return the limits for children."""
    return Descriptors.started_with or resource.getrlimit(resource.RLIMIT_NOFILE)


def launcher(kind: Literal["pipes", "pty"], descriptors: Sequence[int | str], env: Mapping[str, str]) -> list[str]:
    """Return the command that stands before a program's own command: child_exec.py with its arguments. A descriptor may
    be a placeholder, if another process starts the command.

    It restores the original limit too: a program in a sandbox is not our child, so setting its limit from outside would
    come too late."""
    limits = "{}:{}".format(*child_limits())
    locale = f"={env['LC_CTYPE']}" if "LC_CTYPE" in env else ""
    return [sys.executable, "-I", "-S", _CHILD_EXEC, kind, ":".join(map(str, descriptors)), limits, locale]
