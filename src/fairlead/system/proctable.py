"""The process table of the operating system, also for processes that we did not start: liveness, start, descendants.

A pid alone does not identify a process for long, since the system reuses the numbers: a process is identified by its
pid and its start mark, and nothing here sends a signal to a pid with another mark than the recorded one.

The keeper's process imports this module: only the standard library, and of that not more than needed.
"""

import contextlib
import os
import re
import signal
import sys
from typing import NamedTuple

from fairlead.system.platform import PORTABLE
from fairlead.system.process_list import HAS_PROC, list_processes, read_proc_file, read_process

PROGRAM = "bwrap"
"""The program name of the outer process of every sandbox."""
_SWEEPS = 10
"""How often a group is searched for members that started while it was being killed."""


class Process(NamedTuple):
    """The identity of a process: `started` is its `start_mark`."""

    pid: int
    started: str


def start_mark(pid: int) -> str:
    """Return the start time of a process in the system's own format; empty if it does not exist or is a zombie."""
    found = read_process(pid)
    return "" if found is None else found.started


def is_alive(pid: int, started: str) -> bool:
    return bool(started) and start_mark(pid) == started


def descendants(pid: int) -> list[Process]:
    """Return all descendants of `pid`, also those that left its group."""
    children: dict[int, list[Process]] = {}
    for listed in list_processes():
        children.setdefault(listed.parent, []).append(Process(listed.pid, listed.started))
    found: list[Process] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += [child.pid for child in below]
    return found


def session_members(session: int) -> list[Process]:
    """Return all processes of a terminal session, in any process group."""
    return [Process(listed.pid, listed.started) for listed in list_processes() if listed.session == session]


def is_monitor(pid: int) -> bool:
    """Return whether this is the outer process of a sandbox (see sandbox.py). It has one child, the first process of a
    PID namespace, which starts the program; it ends when the program does, with its exit code."""
    return HAS_PROC and (found := read_process(pid)) is not None and found.command == PROGRAM


def program_inside(monitor: int) -> Process | None:
    """Return the program that this monitor's sandbox was started for, or None before its start and after its end."""
    return next((process for process in descendants(monitor) if _depth(process.pid) == (2, 2)), None)


def signal_group(group: int, number: signal.Signals) -> None:
    """Signal the group of a child that leads it. In a sandbox, signal the program's own group and not the monitor: the
    monitor would die alone, and its program would continue unobserved."""
    if not is_monitor(group):
        kill_group(group, number)
        return
    program = program_inside(group)
    found = None if program is None else read_process(program.pid)
    if found is not None:
        for process in _members(found.group):
            kill(process, number)


def end_group(group: int) -> None:
    """Kill the remaining group of a dead child that is not reaped yet. In a sandbox the first process survives as long
    as processes that left the group need it: these survive without a sandbox too."""
    if not is_monitor(group):
        kill_group(group, signal.SIGKILL)
        return
    for _ in range(_SWEEPS):
        if not [kill(process, signal.SIGKILL) for process in _members(group)]:
            return


class TerminalSession:
    """The processes of a child on a PTY, in any process group: those of the session that it leads or, in a sandbox, of
    the program's separate session."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._first: Process | None = None
        self._program: Process | None = None

    def find_inside(self, report: bytes) -> None:
        """Find the program's session from what the sandbox's monitor reported."""
        if (found := re.search(rb'"child-pid": *(\d+)', report)) is not None:
            first = int(found[1])
            self._first = Process(first, start_mark(first))
            self._program = program_inside(self._leader)

    def members(self) -> list[Process]:
        if self._first is None:
            return session_members(self._leader)
        if not is_alive(*self._first):
            return []
        below = set(descendants(self._first.pid))
        if self._program is None:  # it ended before it was found: the remaining processes are its jobs
            return list(below)
        # Only below the first process: after the program's end another process may have the session's number.
        return [process for process in session_members(self._program.pid) if process in below]

    def signal(self, number: signal.Signals) -> None:
        """Signal all members. The leader must not be reaped yet."""
        # A stopped process (Ctrl-Z) does not handle a signal until it continues.
        for each in (number, signal.SIGCONT):
            members = self.members()
            for process in members:
                kill(process, each)
            if not members:  # this system cannot list them
                signal_group(self._leader, each)

    def end(self) -> None:
        """Kill the members that are left when the leader is dead and not reaped yet."""
        for process in self.members():
            kill(process, signal.SIGKILL)


def _members(group: int) -> list[Process]:
    """Return the living processes of a group, without a sandbox's monitor and first process."""
    return [
        Process(listed.pid, listed.started)
        for listed in list_processes()
        if listed.group == group and not listed.is_zombie and listed.command != PROGRAM and _depth(listed.pid) != (2, 1)
    ]


def _depth(pid: int) -> tuple[int, int]:
    """Return the depth of a process in PID namespaces, ours being 1, and its number in the innermost."""
    try:
        text = read_proc_file(f"{pid}/status")
    except (FileNotFoundError, ProcessLookupError):
        return 0, 0
    numbers = next((line.split()[1:] for line in text.splitlines() if line.startswith("NSpid:")), ["0"])
    return len(numbers), int(numbers[-1])


def kill_group(group: int, number: signal.Signals) -> bool:
    """Signal a whole process group. Return False if it is empty."""
    if group <= 1:
        raise ValueError(f"{group} is not a process group of a child")
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # macOS reports EPERM for a group of zombies
        return False
    return True


def kill(process: Process, number: signal.Signals) -> bool:
    """Signal exactly this process. Return False if it is gone."""
    try:
        pidfd = open_pidfd(process.pid)
    except OSError:
        return False
    if pidfd is None:
        return _kill_by_pid(process, number)
    try:
        # The descriptor is bound to the process: if the mark matches now, the signal cannot reach another process.
        if not is_alive(*process):
            return False
        if sys.platform == "linux":
            signal.pidfd_send_signal(pidfd, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(pidfd)


def open_pidfd(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends, or None where the system has none. Raises
    OSError."""
    if sys.platform == "linux" and not PORTABLE:
        with contextlib.suppress(AttributeError):  # a Python that was built without it
            return os.pidfd_open(pid)
    return None


def _kill_by_pid(process: Process, number: signal.Signals) -> bool:
    if not is_alive(*process):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, number)
        return True
    return False
