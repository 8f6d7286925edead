"""A child process on a separate pseudo-terminal: it leads a session, the terminal controls it, we hold the other end.

As with pipes, nothing is inherited, nothing goes through a shell, the next batch is read only after the last one was
taken, and the write buffer is bounded. Its children may have separate process groups (jobs of a shell): they are found
by the session, and end with it.
"""

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Mapping, Sequence

from fairlead.model.agents import Exit
from fairlead.system.clock import Clock
from fairlead.system.descriptors import launcher
from fairlead.system.pipes import PipeReader
from fairlead.system.process import check_folder
from fairlead.system.process_group import ProcessGroupLeader, StopTimeouts
from fairlead.system.proctable import TerminalSession, descendants, kill
from fairlead.system.sandbox import Sandbox

_IUTF8 = 0x4000
"""The terminal's line editor erases whole characters; the same bit on Linux and macOS, without a name in 3.11."""


class PtyChild(ProcessGroupLeader):
    """A running child on a PTY. Created by `spawn_on_pty`."""

    def __init__(self, popen: "subprocess.Popen[bytes]", masters: tuple[int, int], slave: int, clock: Clock) -> None:
        self._slave = slave
        self._session = TerminalSession(popen.pid)
        super().__init__(popen, *masters, clock)

    def offer(self, data: bytes) -> None:
        """Write the data if the write buffer is empty, else drop it: for replies that must not block anything."""
        self._writer.offer(data)

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal; the system signals the foreground programs (SIGWINCH)."""
        if self.running:
            _set_size(self._slave, columns, rows)

    def _steps(self, patience: StopTimeouts) -> Sequence[tuple[Callable[[], None], float]]:
        return (
            (lambda: self._signal(signal.SIGHUP), patience.close),
            (lambda: self._signal(signal.SIGTERM), patience.terminate),
        )

    async def _climb(self, patience: StopTimeouts) -> Exit:
        below = descendants(self.pid) if self.running else []
        try:
            return await super()._climb(patience)
        finally:
            # Processes that have left the session are not found by it any more.
            for process in below:
                kill(process, signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self.running:
            self._session.signal(number)

    def find_program_session(self, report: bytes) -> None:
        """Find the separate session of the program in a sandbox, from the report of the sandbox's monitor."""
        self._session.find_inside(report)

    def _end_group(self) -> None:
        """Kill the jobs of the session too: the leader is dead, and its number still means this session."""
        super()._end_group()
        self._session.end()

    def _reaped(self) -> None:
        super()._reaped()
        # Not earlier: without an open slave our end would always be ready, with nothing to read.
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
    """Start `argv[0]`. Raises OSError when it cannot be started; then nothing is left behind."""
    with contextlib.ExitStack() as failing:
        master, slave = pty.openpty()
        failing.callback(os.close, master)
        failing.callback(os.close, slave)
        # The event loop watches reading and writing with separate descriptors.
        writing = os.dup(master)
        failing.callback(os.close, writing)
        _set_size(slave, columns, rows)
        _erase_whole_characters(slave)
        popen, status = _start(argv, env, cwd, slave, sandbox)
        failing.pop_all()
    child = PtyChild(popen, (master, writing), slave, clock)
    report = bytearray()

    async def collect(data: bytes) -> None:
        report.extend(data)

    try:
        await PipeReader(status).run(collect)
    except BaseException:
        await child.end(StopTimeouts(close=0, terminate=0))
        raise
    monitor, _, failed = bytes(report).rpartition(b"}")
    child.find_program_session(monitor)
    if failed.strip():
        await child.end(StopTimeouts())
        number = int(failed)
        raise OSError(number, os.strerror(number), argv[0])
    return child


def _start(
    argv: Sequence[str], env: Mapping[str, str], cwd: str, slave: int, sandbox: Sandbox | None
) -> "tuple[subprocess.Popen[bytes], int]":
    """Return the process, and a pipe that reports two things: the information of a sandbox's monitor, in JSON, and the
    errno if the program cannot be started. The pipe ends when the program is started."""
    with contextlib.ExitStack() as ours:
        status, writing = os.pipe()
        ours.callback(os.close, writing)
        info = os.dup(writing)
        ours.callback(os.close, info)
        through = launcher("pty", [writing], env)
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
                pass_fds=(writing,) if sandbox is None else (writing, info),
            )
        except BaseException:
            os.close(status)
            raise
    return popen, status


def _set_size(fd: int, columns: int, rows: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _erase_whole_characters(fd: int) -> None:
    attributes = termios.tcgetattr(fd)
    attributes[0] |= _IUTF8
    termios.tcsetattr(fd, termios.TCSANOW, attributes)
