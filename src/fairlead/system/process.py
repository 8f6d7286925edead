"""A child process: started from an argument list and a complete environment, leader of its own group, always reaped.

Nothing here goes through a shell, and nothing is inherited: only the three pipes as descriptors, only the variables
that the caller passes. The child is identified by its pid and start mark (see proctable).
"""

import asyncio
import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

import msgspec

from fairlead.model.agents import Exit
from fairlead.system import proctable
from fairlead.system.clock import Clock, ends_within, within
from fairlead.system.descriptors import launcher, restore_limit
from fairlead.system.pipes import PipeReader
from fairlead.system.platform import FOLDER, PORTABLE
from fairlead.system.process_group import ProcessGroupLeader, StopTimeouts
from fairlead.system.process_wait import wait_gone
from fairlead.system.proctable import Process, is_alive, kill
from fairlead.system.sandbox import Sandbox

__all__ = ["STDERR_TAIL", "ChildProcess", "StopTimeouts", "spawn", "stop_orphan", "wait_orphan"]

STDERR_TAIL = 64 * 1024
"""Number of bytes kept from the end of a child's stderr."""


class ChildProcess(ProcessGroupLeader):
    """A running child on three pipes. Created by `spawn`."""

    def __init__(self, popen: "subprocess.Popen[bytes]", pipes: tuple[int, int, int], clock: Clock) -> None:
        super().__init__(popen, pipes[1], pipes[0], clock)
        self._errors = PipeReader(pipes[2])
        self._stderr = b""
        self._stderr_task = asyncio.create_task(self._errors.run(self._keep_stderr))

    @property
    def stderr(self) -> str:
        return self._stderr.decode("utf-8", "replace")

    def close_input(self) -> None:
        self._writer.close()

    async def wait(self) -> Exit:
        """Wait for the end of the child and of its stderr."""
        status = await super().wait()
        await asyncio.shield(self._stderr_task)
        return status

    async def end(self, patience: StopTimeouts) -> Exit:
        return msgspec.structs.replace(await super().end(patience), stderr=self.stderr)

    def _steps(self, patience: StopTimeouts) -> Sequence[tuple[Callable[[], None], float]]:
        return ((self.close_input, patience.close), (lambda: self._signal_group(signal.SIGTERM), patience.terminate))

    async def _keep_stderr(self, data: bytes) -> None:
        self._stderr = (self._stderr + data)[-STDERR_TAIL:]

    def _reaped(self) -> None:
        super()._reaped()
        self._errors.finish()


def spawn(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str, clock: Clock, sandbox: Sandbox | None = None
) -> ChildProcess:
    """Start `argv[0]`. Raises OSError when it cannot be started; then nothing is left behind."""
    if sandbox is not None or PORTABLE:
        check_folder(cwd)
        check_program(argv[0], env, cwd)
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
    if sandbox is None and not PORTABLE:
        given, taken, errors = pipes
        popen = subprocess.Popen(
            list(argv), stdin=given, stdout=taken, stderr=errors, env=dict(env), cwd=cwd, start_new_session=True
        )
        restore_limit(popen.pid)
        return popen
    # Only Linux can set the limits of a running child: elsewhere the launcher does it.
    through = launcher("pipes", pipes[:2], env)
    return subprocess.Popen(
        [*through, *argv] if sandbox is None else sandbox.wrap(argv, cwd, through=through),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=pipes[2],
        env=dict(env),
        cwd=cwd if sandbox is None else "/",
        start_new_session=True,
        pass_fds=pipes[:2],
    )


def check_program(program: str, env: Mapping[str, str], cwd: str) -> None:
    """Raise OSError for a program that cannot be started: a launcher would report that only as text."""
    if "\0" in program:
        raise ValueError("embedded null byte")
    named = os.path.join(cwd, program) if "/" in program else program
    if shutil.which(named, path=env.get("PATH", os.defpath)) is None:
        number = errno.EACCES if os.path.exists(named) else errno.ENOENT
        raise OSError(number, os.strerror(number), program)


def check_folder(cwd: str) -> None:
    """Raise OSError for a folder in which no program can be started."""
    os.close(os.open(cwd, FOLDER))
    if not os.access(cwd, os.X_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), cwd)


async def wait_orphan(process: Process, clock: Clock) -> None:
    """Return when a child of an earlier gateway process has ended. If only its sandbox's monitor was killed, kill the
    program inside too: nothing would observe it any more."""
    program = proctable.program_inside(process.pid) if proctable.is_monitor(process.pid) else None
    await wait_gone(process, clock)
    if program is not None:
        kill(program, signal.SIGKILL)


def signal_child(process: Process, group: int, number: signal.Signals) -> None:
    """Signal a child that leads its group, with its group and descendants, if it is still the same process."""
    if is_alive(*process):
        below = proctable.descendants(process.pid)
        proctable.kill_group(group, number)
        for other in below:
            kill(other, number)


async def stop_orphan(process: Process, group: int, clock: Clock, patience: StopTimeouts) -> None:
    """Stop a child of an earlier gateway process and its group, if it is still the same process. Raises TimeoutError if
    it does not die."""
    if not is_alive(*process):
        return
    below = proctable.descendants(process.pid)
    # It leads its group (we started it so) and is alive: no other group can have this number.
    proctable.signal_group(group, signal.SIGTERM)
    if await ends_within(clock, patience.terminate, wait_gone(process, clock)):
        return
    if is_alive(*process):
        proctable.kill_group(group, signal.SIGKILL)
    for other in below:
        kill(other, signal.SIGKILL)
    await within(clock, patience.kill, wait_gone(process, clock))
