"""What the operating system tells of processes that may not be ours: alive, since when, their descendants.

A pid alone names nothing for long, since numbers are used again: a process is named by its pid and its start mark,
and nothing here sends a signal to a pid whose mark is not the one that was recorded.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import NamedTuple

from fairlead.system.clock import Clock

_PROC = Path("/proc")
_HAS_PROC = (_PROC / "self" / "stat").exists()
_POLL_SECONDS = 0.5
"""How often a process is looked for where the system cannot tell us of its end."""


class Process(NamedTuple):
    """A process by name: `started` is its `start_mark`."""

    pid: int
    started: str


class _Stat(NamedTuple):
    state: str
    parent: int
    session: int
    start_ticks: str


def start_mark(pid: int) -> str:
    """When this process started, in the system's own words; empty if there is none (a zombie is none)."""
    if not _HAS_PROC:
        return _start_by_ps(pid)
    stat = _stat(pid)
    if stat is None or stat.state in "ZX":
        return ""
    # Ticks are counted from the boot: without its id a process of an earlier boot could have the same.
    return f"{_boot_id()}/{stat.start_ticks}"


def is_alive(pid: int, started: str) -> bool:
    return bool(started) and start_mark(pid) == started


def descendants(pid: int) -> list[Process]:
    """All processes below `pid`, also those that left its group; empty where the system does not tell."""
    if not _HAS_PROC:
        return []
    children: dict[int, list[int]] = {}
    for entry in os.listdir(_PROC):
        if entry.isdigit() and (stat := _stat(int(entry))) is not None:
            children.setdefault(stat.parent, []).append(int(entry))
    found: list[Process] = []
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            found.append(Process(child, start_mark(child)))
            waiting.append(child)
    return found


def session_members(session: int) -> list[Process]:
    """All processes of a terminal session, whatever their group; empty where the system does not tell."""
    if not _HAS_PROC:
        return []
    pids = (int(entry) for entry in os.listdir(_PROC) if entry.isdigit())
    return [
        Process(pid, start_mark(pid)) for pid in pids if (stat := _stat(pid)) is not None and stat.session == session
    ]


def kill_group(group: int, number: signal.Signals) -> bool:
    """Signal a whole process group; False if nobody is in it any more."""
    if group <= 1:
        raise ValueError(f"{group} is no process group of ours")
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # macOS says EPERM for a group of zombies
        return False
    return True


def kill(process: Process, number: signal.Signals) -> bool:
    """Signal this very process; False if it is gone."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except AttributeError:
        return _kill_by_pid(process, number)
    except OSError:
        return False
    try:
        # The descriptor holds the process: if the mark fits now, no other can take its place before the signal.
        if not is_alive(*process):
            return False
        signal.pidfd_send_signal(pidfd, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(pidfd)


async def gone(process: Process, clock: Clock) -> None:
    """Return when this process, ours or not, has ended."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):
        while is_alive(*process):
            await clock.sleep(_POLL_SECONDS)
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    try:
        if not is_alive(*process):
            return
        loop.add_reader(pidfd, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(pidfd)
    finally:
        os.close(pidfd)


def _kill_by_pid(process: Process, number: signal.Signals) -> bool:
    if not is_alive(*process):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, number)
        return True
    return False


def _stat(pid: int) -> _Stat | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name stands in brackets and may hold anything, brackets too: the fields begin after the last one.
    fields = text.rpartition(")")[2].split()
    return _Stat(fields[0], int(fields[1]), int(fields[3]), fields[19])


def _boot_id() -> str:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _start_by_ps(pid: int) -> str:
    told = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, start = told.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else start.strip()
