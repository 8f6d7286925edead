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
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from fairlead.system.clock import Clock
from fairlead.system.descriptors import give_back
from fairlead.system.leader import ExitStatus, Leader
from fairlead.system.pipes import PipeReader, PipeWriter, Take
from fairlead.system.process import Patience
from fairlead.system.proctable import descendants, kill, session_members

_ON_PTY = str(Path(__file__).with_name("onpty.py"))
_IUTF8 = 0x4000
"""The terminal's line editor erases whole characters; the same bit on Linux and macOS, without a name in 3.11."""


class PtyChild:
    """A running child. Made by `spawn_on_pty`."""

    def __init__(self, popen: "subprocess.Popen[bytes]", masters: tuple[int, int], slave: int, clock: Clock) -> None:
        self._slave = slave
        self._reader = PipeReader(masters[0])
        self._writer = PipeWriter(masters[1])
        self._leader = Leader(popen, self._reaped, self._end_session)
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

    async def end(self, patience: Patience) -> ExitStatus:
        """The ladder: hang up, wait, terminate, wait, kill, each step bounded. Callers share one ladder, and a caller
        that goes away does not stop it half way."""
        if self._ladder is None:
            self._ladder = asyncio.create_task(self._climb(patience))
        return await asyncio.shield(self._ladder)

    async def _climb(self, patience: Patience) -> ExitStatus:
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
            members = session_members(self.pid)
            for process in members:
                kill(process, said)
            if not members:  # where the system does not tell
                self._leader.signal(said)

    def _end_session(self) -> None:
        """The leader is dead, and its number still means this session: its jobs end with it."""
        for process in session_members(self.pid):
            kill(process, signal.SIGKILL)

    def _reaped(self) -> None:
        self._writer.close()
        self._reader.finish()
        # Until now: with no program at the other end, our end would be ready all the time and never read.
        os.close(self._slave)


async def spawn_on_pty(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str, columns: int, rows: int, clock: Clock
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
        popen, told = _start(argv, env, cwd, slave)
        failing.pop_all()
    child = PtyChild(popen, (master, writing), slave, clock)
    said: list[bytes] = []

    async def hear(data: bytes) -> None:
        said.append(data)

    try:
        await PipeReader(told).run(hear)
    except BaseException:
        await child.end(Patience(close=0, terminate=0))
        raise
    if said:
        await child.end(Patience())
        number = int(b"".join(said))
        raise OSError(number, os.strerror(number), argv[0])
    return child


def _start(argv: Sequence[str], env: Mapping[str, str], cwd: str, slave: int) -> "tuple[subprocess.Popen[bytes], int]":
    """The process, and where it tells if its program cannot be started: that ends when the program is."""
    told, telling = os.pipe()
    locale = f"={env['LC_CTYPE']}" if "LC_CTYPE" in env else ""
    try:
        popen = subprocess.Popen(
            [sys.executable, "-I", "-S", _ON_PTY, str(telling), locale, *argv],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
            pass_fds=(telling,),
        )
        give_back(popen.pid)
    except BaseException:
        os.close(told)
        raise
    finally:
        os.close(telling)
    return popen, told


def _set_size(fd: int, columns: int, rows: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _erase_whole_characters(fd: int) -> None:
    attributes = termios.tcgetattr(fd)
    attributes[0] |= _IUTF8
    termios.tcsetattr(fd, termios.TCSANOW, attributes)
