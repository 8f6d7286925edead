"""A child process: started from an argument list and a complete environment, leader of its own group, always reaped.

Nothing here goes through a shell, and nothing is inherited: only the three pipes as descriptors, only the variables
that the caller passes. The child is identified by its pid and start mark (see proctable).
"""

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairlead.system.clock import Clock, within
from fairlead.system.descriptors import child_limits, restore_limit
from fairlead.system.pipes import PipeReader, PipeWriter, Take
from fairlead.system.process_group import ExitStatus, ProcessGroupLeader
from fairlead.system.proctable import (
    Process,
    descendants,
    is_alive,
    is_monitor,
    kill,
    kill_group,
    program_inside,
    signal_group,
    wait_gone,
)
from fairlead.system.sandbox import Sandbox

__all__ = ["STDERR_TAIL", "ChildProcess", "ExitStatus", "StopTimeouts", "spawn", "stop_orphan", "wait_orphan"]

_ON_PIPES = str(Path(__file__).with_name("pipe_exec.py"))
STDERR_TAIL = 64 * 1024
"""Number of bytes kept from the end of a child's stderr."""


@dataclass(frozen=True, slots=True)
class StopTimeouts:
    """How long each step of a stop waits, in seconds. The CLI ends within one second after its input is closed."""

    close: float = 5.0
    terminate: float = 3.0
    kill: float = 5.0


class ChildProcess:
    """A running child. Created by `spawn`."""

    def __init__(self, popen: "subprocess.Popen[bytes]", pipes: tuple[int, int, int], clock: Clock) -> None:
        self._input = PipeWriter(pipes[0])
        self._output = PipeReader(pipes[1])
        self._errors = PipeReader(pipes[2])
        self._leader = ProcessGroupLeader(popen, self._reaped)
        self.pid = self._leader.pid
        self.group = self._leader.group
        self.started = self._leader.started
        self._clock = clock
        self._stderr_tail = _Tail(STDERR_TAIL)
        self._stderr_task = asyncio.create_task(self._errors.run(self._stderr_tail.take))
        self._reading = False
        self._ladder: asyncio.Task[ExitStatus] | None = None

    @property
    def running(self) -> bool:
        return self._leader.running

    @property
    def stderr(self) -> str:
        """The end of its stderr."""
        return self._stderr_tail.text()

    async def read(self, take: Take) -> None:
        """Pass its output to `take`, batch by batch; each is awaited before more is read. Return at the end of the
        output.

        Also returns when the child is dead and its pipe empty, even if a grandchild holds the pipe open."""
        self._reading = True
        await self._output.run(take)

    async def write(self, data: bytes) -> None:
        """Return when the system took the bytes. Raises PipeClosed if the child no longer reads."""
        await self._input.write(data)

    def close_input(self) -> None:
        self._input.close()

    async def wait(self) -> ExitStatus:
        """Wait for the end of the child and of its stderr."""
        status = await self._leader.ended()
        await asyncio.shield(self._stderr_task)
        return status

    async def end(self, patience: StopTimeouts) -> ExitStatus:
        """Stop the child in steps: close its input, wait, SIGTERM to its group, wait, SIGKILL, each step bounded.

        Concurrent callers share the steps, and a cancelled caller does not stop them half way."""
        if self._ladder is None:
            self._ladder = asyncio.create_task(self._climb(patience))
        return await asyncio.shield(self._ladder)

    async def _climb(self, patience: StopTimeouts) -> ExitStatus:
        try:
            return await self._steps(patience)
        finally:
            if not self._reading:  # without a reader the pipe would stay open
                self._output.close()

    async def _steps(self, patience: StopTimeouts) -> ExitStatus:
        steps = (
            (self.close_input, patience.close),
            (lambda: self._leader.signal(signal.SIGTERM), patience.terminate),
        )
        return await self._leader.climb(self._clock, steps, patience.kill, self.wait)

    def _reaped(self) -> None:
        self._input.close()
        self._output.finish()
        self._errors.finish()


def spawn(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str, clock: Clock, sandbox: Sandbox | None = None
) -> ChildProcess:
    """Start `argv[0]`. Raises OSError when it cannot be started; then nothing is left behind."""
    if sandbox is not None:
        check_folder(cwd)
        _check_program(argv[0], env, cwd)
    ours: list[int] = []
    theirs: list[int] = []
    try:
        for readable_by_us in (False, True, True):
            reading, writing = os.pipe()
            ours.append(reading if readable_by_us else writing)
            theirs.append(writing if readable_by_us else reading)
        popen = _start(argv, env, cwd, theirs, sandbox)
    except BaseException:
        for fd in ours:
            os.close(fd)
        raise
    finally:
        for fd in theirs:
            os.close(fd)
    return ChildProcess(popen, (ours[0], ours[1], ours[2]), clock)


def _start(
    argv: Sequence[str], env: Mapping[str, str], cwd: str, pipes: Sequence[int], sandbox: Sandbox | None
) -> "subprocess.Popen[bytes]":
    if sandbox is None:
        given, taken, errors = pipes
        popen = subprocess.Popen(
            list(argv), stdin=given, stdout=taken, stderr=errors, env=dict(env), cwd=cwd, start_new_session=True
        )
        restore_limit(popen.pid)
        return popen
    locale = f"={env['LC_CTYPE']}" if "LC_CTYPE" in env else ""
    through = [sys.executable, "-I", "-S", _ON_PIPES, str(pipes[0]), str(pipes[1]), child_limits(), locale]
    return subprocess.Popen(
        sandbox.wrap(argv, cwd, through=through),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=pipes[2],
        env=dict(env),
        cwd="/",
        start_new_session=True,
        pass_fds=pipes[:2],
    )


def _check_program(program: str, env: Mapping[str, str], cwd: str) -> None:
    """Raise OSError for a program that cannot be started: bwrap would report that only as text."""
    named = os.path.join(cwd, program) if "/" in program else program
    if shutil.which(named, path=env.get("PATH", os.defpath)) is None:
        number = errno.EACCES if os.path.exists(named) else errno.ENOENT
        raise OSError(number, os.strerror(number), program)


def check_folder(cwd: str) -> None:
    """Raise OSError for a folder in which no program can be started."""
    os.close(os.open(cwd, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
    if not os.access(cwd, os.X_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), cwd)


async def wait_orphan(process: Process, clock: Clock) -> None:
    """Return when a child of an earlier gateway process has ended. If only its sandbox's monitor was killed, kill the
    program inside too: nothing would observe it any more."""
    program = program_inside(process.pid) if is_monitor(process.pid) else None
    await wait_gone(process, clock)
    if program is not None:
        kill(program, signal.SIGKILL)


async def stop_orphan(process: Process, group: int, clock: Clock, patience: StopTimeouts) -> None:
    """Stop a child of an earlier gateway process and its group, if it is still the same process. Raises TimeoutError if
    it does not die."""
    if not is_alive(*process):
        return
    below = descendants(process.pid)
    # It leads its group (we started it so) and is alive: no other group can have this number.
    signal_group(group, signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        await within(clock, patience.terminate, wait_gone(process, clock))
        return
    if is_alive(*process):
        kill_group(group, signal.SIGKILL)
    for other in below:
        kill(other, signal.SIGKILL)
    await within(clock, patience.kill, wait_gone(process, clock))


class _Tail:
    """Keeps the last bytes of a stream."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: deque[bytes] = deque()
        self._size = 0

    async def take(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        while self._parts and self._size - len(self._parts[0]) >= self._limit:
            self._size -= len(self._parts.popleft())

    def text(self) -> str:
        return b"".join(self._parts)[-self._limit :].decode("utf-8", "replace")
