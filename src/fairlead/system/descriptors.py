"""The limit of open files and sockets: raised to the maximum for this process, the original one for its children.

Shells set the soft limit low (1024) for programs that use select(2); a socket server does not use it, and raises the
limit. Children get the original limit: some of them close every number up to the limit.
"""

import contextlib
import resource


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
    """Restore the original limit of a child that has already executed its program."""
    if Descriptors.started_with is not None:
        with contextlib.suppress(OSError, AttributeError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, Descriptors.started_with)


def child_limits() -> str:
    """Soft and hard limit, as a child's launcher takes them (pipe_exec.py, pty_exec.py); empty: the child keeps ours.

    A program in a sandbox is not our child: setting its limit from outside would come too late."""
    return "" if Descriptors.started_with is None else "{}:{}".format(*Descriptors.started_with)
