"""The keeper's children: how they are started on pipes or on a PTY, how their descriptors are watched, how they end.

The rules are those of system/process.py, system/process_group.py and system/pty.py: a child inherits nothing, leads a
group, is always reaped, and the rest of its group ends before that. Here only the standard library is available.
"""

import contextlib
import errno
import fcntl
import os
import pty
import resource
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

from fairlead.keeper.effects import Command
from fairlead.keeper.loop import KeeperLoop
from fairlead.system import proctable
from fairlead.system.platform import PORTABLE
from fairlead.system.proctable import Process, TerminalSession

PIPES: Final = "{pipes}"
STATUS: Final = "{status}"
INFO: Final = "{info}"
"""Placeholders in `Command.launch`: the descriptors of input and output, the one on which the launcher reports a
failure, and the one on which a sandbox's monitor reports its processes."""

_READ: Final = 64 << 10
_MAX_DRAIN: Final = 1 << 20
"""Bytes that can be left in a pipe or a terminal by a process that is dead."""
_END_SECONDS: Final = 0.01
_IUTF8 = 0x4000
"""The terminal's line editor erases whole characters; without a name in Python 3.11."""


class ChildEvents(Protocol):
    """The keeper, as its children see it."""

    def has_output(self, number: int, data: bytes) -> None: ...
    def output_has_ended(self, number: int) -> None: ...
    def has_stderr(self, number: int, data: bytes) -> None: ...
    def input_is_ready(self, number: int) -> None: ...


class _Started(NamedTuple):
    popen: "subprocess.Popen[bytes]"
    input: int
    output: int
    errors: int
    """-1 on a PTY."""
    slave: int
    """-1 on pipes."""
    status: int
    """-1 on pipes. A pipe that ends when the program was started: it has the report of a sandbox's monitor, in JSON,
    and the errno if the program cannot be started."""


class Child:
    """One running child."""

    def __init__(self, number: int, started: _Started, loop: KeeperLoop, events: ChildEvents) -> None:
        self.number = number
        self.pid = started.popen.pid
        # It is not reaped yet, so the pid is still its own; the mark is empty only if it is dead already.
        self.started = proctable.start_mark(self.pid)
        self.is_monitor = proctable.is_monitor(self.pid)
        self._popen = started.popen
        self._events = events
        self._loop = loop
        self._input = started.input
        self._output = started.output
        self._errors = started.errors
        self._slave = started.slave
        self._status = started.status
        self._report = bytearray()
        self._session = TerminalSession(self.pid) if self._slave >= 0 else None
        self._left_behind: list[Process] = []
        self._reports = False
        for fd in (self._input, self._output, self._errors, self._status):
            if fd >= 0:
                os.set_blocking(fd, False)

    def await_start(self, program: str, started: Callable[["Child", OSError | None], None]) -> None:
        """Call `started` when the program runs, or with the reason why it cannot; then nothing is left behind."""
        if self._status < 0:
            started(self, None)
            return

        def read() -> None:
            if data := _read(self._status):
                self._report += data
            elif data is not None:
                self._loop.remove_reader(self._status)
                os.close(self._status)
                self._status = -1
                monitor, _, failed = bytes(self._report).rpartition(b"}")
                if self._session is not None:
                    self._session.find_inside(monitor)
                if failed.strip():
                    await_end(int(failed))
                else:
                    started(self, None)

        def await_end(problem: int) -> None:
            if self.is_dead():
                self.reap()
                started(self, OSError(problem, os.strerror(problem), program))
            else:  # the launcher ends itself, and a sandbox's monitor follows
                self._loop.call_later(_END_SECONDS, lambda: await_end(problem))

        self._loop.add_reader(self._status, read)

    def listen(self) -> None:
        """Report its output from now on."""
        self._reports = True
        self.watch_output(True)
        if self._errors >= 0:
            self._loop.add_reader(self._errors, self._read_errors)

    def watch_output(self, on: bool) -> None:
        if self._output >= 0:
            if on:
                self._loop.add_reader(self._output, self._read_output)
            else:
                self._loop.remove_reader(self._output)

    def write(self, data: bytes) -> int:
        """Return how many bytes the system took. Raises OSError if the child no longer reads."""
        if self._input < 0:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        try:
            return os.write(self._input, data)
        except BlockingIOError:
            return 0

    def await_input(self) -> None:
        if self._input >= 0:
            self._loop.add_writer(self._input, self._input_ready)

    def close_input(self) -> None:
        if self._input >= 0:
            self._loop.remove_writer(self._input)
            if self._input != self._output:
                os.close(self._input)
            self._input = -1

    def resize(self, columns: int, rows: int) -> None:
        if self._slave >= 0:
            set_size(self._slave, columns, rows)

    def signal(self, step: str) -> None:
        """Make one step of a stop. The child is not reaped: no other group has its number."""
        if self._session is not None and not self._left_behind:
            # Processes that leave the session are not found by it any more.
            self._left_behind = proctable.descendants(self.pid)
        if step == "kill":
            # A killed process cannot stop the children that it started in separate groups: we do.
            self._left_behind += proctable.descendants(self.pid)
            proctable.kill_group(self.pid, signal.SIGKILL)
        elif self._session is not None:
            self._session.signal(signal.SIGHUP if step == "hangup" else signal.SIGTERM)
        else:
            proctable.signal_group(self.pid, signal.SIGTERM)

    def sweep(self) -> None:
        for process in self._left_behind:
            proctable.kill(process, signal.SIGKILL)
        self._left_behind = []

    def is_dead(self) -> bool:
        """Return whether it waits to be reaped."""
        if sys.platform == "linux" and not PORTABLE:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        # The system has no way to look without reaping (see system/process_group.py).
        return self._popen.poll() is not None

    def reap(self) -> int:
        """End what is left of its group, pass its last output on, and return its exit code."""
        # Before the wait: until then the dead child holds its pid, so the group is certainly ours.
        proctable.end_group(self.pid)
        if self._session is not None:
            self._session.end()
        if self._reports:
            for data in _drain(self._output):
                self._events.has_output(self.number, data)
            for data in _drain(self._errors):
                self._events.has_stderr(self.number, data)
        code = self._popen.wait()
        self.close_input()
        self._close_output()
        self._close_errors()
        if self._slave >= 0:
            # Not earlier: without an open slave our end would always be ready, with nothing to read.
            os.close(self._slave)
            self._slave = -1
        return code

    def _read_output(self) -> None:
        # As `_read` does: each call that is saved here is a tenth of what a line costs.
        try:
            data = os.read(self._output, _READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._events.has_output(self.number, data)
        else:
            self._close_output()
            self._events.output_has_ended(self.number)

    def _read_errors(self) -> None:
        if data := _read(self._errors):
            self._events.has_stderr(self.number, data)
        elif data is not None:
            self._close_errors()

    def _input_ready(self) -> None:
        self._loop.remove_writer(self._input)
        self._events.input_is_ready(self.number)

    def _close_output(self) -> None:
        if self._output >= 0:
            self._loop.remove_reader(self._output)
            os.close(self._output)
            self._output = -1

    def _close_errors(self) -> None:
        if self._errors >= 0:
            self._loop.remove_reader(self._errors)
            os.close(self._errors)
            self._errors = -1


def _read(fd: int) -> bytes | None:
    """Return the next output, empty at its end; None if it has to be awaited."""
    try:
        return os.read(fd, _READ)
    except BlockingIOError:
        return None
    except OSError:  # a terminal reports its end by EIO
        return b""


def _drain(fd: int) -> Iterator[bytes]:
    """Yield what a dead child has left, even if another process still holds the other end open, and writes."""
    size = 0
    while fd >= 0 and size < _MAX_DRAIN and (data := _read(fd)):
        size += len(data)
        yield data


def spawn(command: Command) -> _Started:
    """Start a program. Raises OSError if it cannot be started, and ValueError if the command cannot be used; then
    nothing is left behind."""
    started = _start_on_pipes(command) if command.size is None else _start_on_pty(command, command.size)
    unprotect(f"/proc/{started.popen.pid}/oom_score_adj")
    return started


def unprotect(score_file: str) -> None:
    """Let the system end a program when memory is short, although it would rather keep the keeper (the unit of systemd
    asks for that). A launcher does this too: a program in a sandbox may run already."""
    with contextlib.suppress(OSError, ValueError), open(score_file, "r+") as score:
        if int(score.read()) < 0:
            score.seek(0)
            score.write("0")


def _start_on_pipes(command: Command) -> _Started:
    with contextlib.ExitStack() as failing, contextlib.ExitStack() as theirs:
        given, input = _pipe(theirs, failing)
        output, taken = _pipe(failing, theirs)
        errors, complaints = _pipe(failing, theirs)
        through = PIPES in command.launch
        popen = subprocess.Popen(
            _filled(command, {PIPES: f"{given}:{taken}"}),
            stdin=subprocess.DEVNULL if through else given,
            stdout=subprocess.DEVNULL if through else taken,
            stderr=complaints,
            env=command.env,
            cwd=command.cwd,
            start_new_session=True,
            pass_fds=(given, taken) if through else (),
        )
        failing.pop_all()
    if sys.platform == "linux" and not through:  # the launcher sets the limit itself
        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(popen.pid, resource.RLIMIT_NOFILE, command.limits)
    return _Started(popen, input, output, errors, -1, -1)


def _start_on_pty(command: Command, size: tuple[int, int]) -> _Started:
    with contextlib.ExitStack() as failing, contextlib.ExitStack() as theirs:
        master, slave = pty.openpty()
        failing.callback(os.close, master)
        failing.callback(os.close, slave)
        set_size(slave, *size)
        _erase_whole_characters(slave)
        status, writing = _pipe(failing, theirs)
        info = os.dup(writing)
        theirs.callback(os.close, info)
        popen = subprocess.Popen(
            _filled(command, {STATUS: str(writing), INFO: str(info)}),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=command.env,
            cwd=command.cwd,
            start_new_session=True,
            pass_fds=(writing, info) if INFO in command.launch else (writing,),
        )
        failing.pop_all()
    return _Started(popen, master, master, -1, slave, status)


def _pipe(reading: contextlib.ExitStack, writing: contextlib.ExitStack) -> tuple[int, int]:
    """Return a pipe, the ends of which these stacks close."""
    one, other = os.pipe()
    reading.callback(os.close, one)
    writing.callback(os.close, other)
    return one, other


def _filled(command: Command, values: dict[str, str]) -> list[str]:
    return [*(values.get(word, word) for word in command.launch), *command.argv]


def set_size(fd: int, columns: int, rows: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _erase_whole_characters(fd: int) -> None:
    attributes = termios.tcgetattr(fd)
    attributes[0] |= _IUTF8
    termios.tcsetattr(fd, termios.TCSANOW, attributes)
