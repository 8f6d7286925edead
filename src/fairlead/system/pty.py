"""A child on a terminal of its own: it leads a session, the terminal controls it, we hold the other end.

As with pipes, nothing is inherited, nothing goes through a shell, nothing is read unless the last batch was taken, and
what is written is bounded. Its children may have groups of their own (jobs of a shell): they are found by the session,
and end with it.
"""

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fairlead.system.clock import Clock
from fairlead.system.descriptors import for_children
from fairlead.system.pipes import PipeReader, PipeWriter, Take
from fairlead.system.process import StopTimeouts, check_folder
from fairlead.system.process_group import ExitStatus, ProcessGroupLeader
from fairlead.system.proctable import (
    Process,
    descendants,
    is_alive,
    kill,
    program_inside,
    session_members,
    start_mark,
)
from fairlead.system.sandbox import Sandbox

_ON_PTY = str(Path(__file__).with_name("pty_exec.py"))
_IUTF8 = 0x4000
"""The terminal's line editor erases whole characters; the same bit on Linux and macOS, without a name in 3.11."""


class _Inside(NamedTuple):
    """A sandbox's first process, and the program if it ran when it was looked for."""

    first: Process
    program: Process | None


class PtyChild:
    """A running child. Made by `spawn_on_pty`."""

    def __init__(self, popen: "subprocess.Popen[bytes]", masters: tuple[int, int], slave: int, clock: Clock) -> None:
        self._slave = slave
        self._inside: _Inside | None = None
        self._reader = PipeReader(masters[0])
        self._writer = PipeWriter(masters[1])
        self._leader = ProcessGroupLeader(popen, self._reaped, self._end_session)
        self.pid = self._leader.pid
        self.group = self._leader.group
        self.started = self._leader.started
        self._clock = clock
        self._reading = False
        self._ladder: asyncio.Task[ExitStatus] | None = None

    @property
    def running(self) -> bool:
        return self._leader.running

    async def read(self, take: Take) -> None:
        """Hand what is printed to `take`, batch by batch, each awaited before more is read; returns when the child
        is dead and all was read."""
        self._reading = True
        await self._reader.run(take)

    async def write(self, data: bytes) -> None:
        """Return when the system took the bytes; PipeClosed when the child is gone."""
        await self._writer.write(data)

    def offer(self, data: bytes) -> None:
        """Written if nothing waits to be written; else dropped: for answers that nobody should wait for."""
        self._writer.offer(data)

    def resize(self, columns: int, rows: int) -> None:
        """The system tells the programs in front (SIGWINCH)."""
        if self.running:
            _set_size(self._slave, columns, rows)

    async def wait(self) -> ExitStatus:
        return await self._leader.ended()

    async def end(self, patience: StopTimeouts) -> ExitStatus:
        """The ladder: hang up, wait, terminate, wait, kill, each step bounded. Callers share one ladder, and a caller
        that goes away does not stop it half way."""
        if self._ladder is None:
            self._ladder = asyncio.create_task(self._climb(patience))
        return await asyncio.shield(self._ladder)

    async def _climb(self, patience: StopTimeouts) -> ExitStatus:
        steps = (
            (lambda: self._tell(signal.SIGHUP), patience.close),
            (lambda: self._tell(signal.SIGTERM), patience.terminate),
        )
        below = descendants(self.pid) if self.running else []
        try:
            return await self._leader.climb(self._clock, steps, patience.kill, self.wait)
        finally:
            # Those that have left the session are not found by it any more.
            for process in below:
                kill(process, signal.SIGKILL)
            if not self._reading:  # nobody ever did: the descriptor would stay open
                self._reader.close()

    def _tell(self, number: signal.Signals) -> None:
        if not self.running:
            return
        # One that was stopped (Ctrl-Z) hears nothing until it goes on.
        for said in (number, signal.SIGCONT):
            members = self._members()
            for process in members:
                kill(process, said)
            if not members:  # where the system does not tell
                self._leader.signal(said)

    def found_inside(self, monitor: bytes) -> None:
        """Its program has a session of its own in a sandbox: remember which, by what the sandbox's monitor said."""
        if (found := re.search(rb'"child-pid": *(\d+)', monitor)) is not None:
            first = int(found[1])
            self._inside = _Inside(Process(first, start_mark(first)), program_inside(self.pid))

    def _members(self) -> list[Process]:
        """All processes of its session, whatever their group."""
        if self._inside is None:
            return session_members(self.pid)
        first, program = self._inside
        if not is_alive(*first):
            return []
        below = set(descendants(first.pid))
        if program is None:  # it ended before it was seen: what is there are its jobs
            return list(below)
        # By the first process too: the session's number may be another's when the program has ended.
        return [process for process in session_members(program.pid) if process in below]

    def _end_session(self) -> None:
        """The leader is dead, and its number still means this session: its jobs end with it."""
        for process in self._members():
            kill(process, signal.SIGKILL)

    def _reaped(self) -> None:
        self._writer.close()
        self._reader.finish()
        # Until now: with no program at the other end, our end would be ready all the time and never read.
        os.close(self._slave)


async def spawn_on_pty(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str,
    columns: int,
    rows: int,
    clock: Clock,
    sandbox: Sandbox | None = None,
) -> PtyChild:
    """Start `argv[0]`. OSError when it cannot be started; then nothing is left behind."""
    with contextlib.ExitStack() as failing:
        master, slave = pty.openpty()
        failing.callback(os.close, master)
        failing.callback(os.close, slave)
        # Reading and writing are watched each for itself.
        writing = os.dup(master)
        failing.callback(os.close, writing)
        _set_size(slave, columns, rows)
        _erase_whole_characters(slave)
        popen, told = _start(argv, env, cwd, slave, sandbox)
        failing.pop_all()
    child = PtyChild(popen, (master, writing), slave, clock)
    said = bytearray()

    async def hear(data: bytes) -> None:
        said.extend(data)

    try:
        await PipeReader(told).run(hear)
    except BaseException:
        await child.end(StopTimeouts(close=0, terminate=0))
        raise
    monitor, _, failed = bytes(said).rpartition(b"}")
    child.found_inside(monitor)
    if failed.strip():
        await child.end(StopTimeouts())
        number = int(failed)
        raise OSError(number, os.strerror(number), argv[0])
    return child


def _start(
    argv: Sequence[str], env: Mapping[str, str], cwd: str, slave: int, sandbox: Sandbox | None
) -> "tuple[subprocess.Popen[bytes], int]":
    """The process, and a pipe that reports two things: what a sandbox's monitor says of itself, in JSON, and the number
    of the error if the program cannot be started. It ends when the program is started."""
    locale = f"={env['LC_CTYPE']}" if "LC_CTYPE" in env else ""
    with contextlib.ExitStack() as ours:
        told, telling = os.pipe()
        ours.callback(os.close, telling)
        info = os.dup(telling)
        ours.callback(os.close, info)
        through = [sys.executable, "-I", "-S", _ON_PTY, str(telling), for_children(), locale]
        command = [*through, *argv]
        try:
            if sandbox is not None:
                check_folder(cwd)
                command = sandbox.wrap(argv, cwd, through=through, options=("--info-fd", str(info)))
                cwd = "/"
            popen = subprocess.Popen(
                command,
                stdin=slave,
                stdout=slave,
                stderr=slave,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
                pass_fds=(telling,) if sandbox is None else (telling, info),
            )
        except BaseException:
            os.close(told)
            raise
    return popen, told


def _set_size(fd: int, columns: int, rows: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _erase_whole_characters(fd: int) -> None:
    attributes = termios.tcgetattr(fd)
    attributes[0] |= _IUTF8
    termios.tcsetattr(fd, termios.TCSANOW, attributes)
