"""How many files and sockets this process may have open: as many as the system allows it, and children as before.

Shells set the soft limit low (1024) for programs that use select(2); a server of sockets does not, and asks for what it
may have. Children get back what we were started with: some of them close every number up to the limit.
"""

import contextlib
import resource


class Descriptors:
    """The limit that this process was started with, once it has been raised."""

    started_with: tuple[int, int] | None = None


def raise_limit() -> int:
    """To the hard limit; how many there may be from now on."""
    with contextlib.suppress(OSError, ValueError):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            Descriptors.started_with = Descriptors.started_with or (soft, hard)
    return limit()


def limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


def give_back(pid: int) -> None:
    """To a child that has become its program already."""
    if Descriptors.started_with is not None:
        with contextlib.suppress(OSError, AttributeError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, Descriptors.started_with)


def for_children() -> str:
    """Soft and hard limit, as a child's launcher takes them (pipe_exec.py, pty_exec.py); empty: the child keeps ours.

    From outside it would be too late for a program in a sandbox, which is not our child."""
    return "" if Descriptors.started_with is None else "{}:{}".format(*Descriptors.started_with)
