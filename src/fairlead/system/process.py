"""A child process: started from an argument list and a whole environment, leading a group of its own, always reaped.

Nothing here goes through a shell, and nothing is inherited: no descriptor but the three pipes, no variable that the
caller did not name. The child is told from others by its pid and start mark (see proctable).
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairlead.system.clock import Clock, within
from fairlead.system.pipes import PipeReader, PipeWriter, Take
from fairlead.system.proctable import descendants, kill, kill_group, start_mark

STDERR_TAIL = 64 * 1024
"""Bytes of a child's stderr that are kept: its last words, not its diary."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long each step of the ladder waits, in seconds. The CLI ends within one second of its input's end."""

    close: float = 5.0
    terminate: float = 3.0
    kill: float = 5.0


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """Exactly one is set; neither, when a killed process would not die (it hangs in the kernel)."""

    code: int | None = None
    signal: int | None = None


class ChildHandle:
    """A running child. Made by `spawn`."""

    def __init__(self, popen: "subprocess.Popen[bytes]", pipes: tuple[int, int, int], clock: Clock) -> None:
        self.pid = popen.pid
        self.group = popen.pid
        # Not reaped yet, so the pid is still its own; empty only if it is dead already.
        self.started = start_mark(popen.pid)
        self._popen = popen
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._input = PipeWriter(pipes[0])
        self._output = PipeReader(pipes[1])
        self._errors = PipeReader(pipes[2])
        self._last_words = _Tail(STDERR_TAIL)
        self._exited: asyncio.Future[ExitStatus] = self._loop.create_future()
        self._listening = asyncio.create_task(self._errors.run(self._last_words.take))
        self._reading = False
        self._ladder: asyncio.Task[ExitStatus] | None = None
        self._watch()

    @property
    def running(self) -> bool:
        return not self._exited.done()

    @property
    def stderr(self) -> str:
        """The end of what it wrote to stderr."""
        return self._last_words.text()

    async def read(self, take: Take) -> None:
        """Hand its output to `take`, batch by batch, each awaited before more is read; returns at the output's end.

        Also returns when the child is dead and its pipe empty, though a grandchild may hold the pipe open."""
        self._reading = True
        await self._output.run(take)

    async def write(self, data: bytes) -> None:
        """Return when the system took the bytes; PipeClosed if the child no longer reads."""
        await self._input.write(data)

    def close_input(self) -> None:
        self._input.close()

    async def wait(self) -> ExitStatus:
        """Its end, with stderr read to its end too."""
        status = await asyncio.shield(self._exited)
        await asyncio.shield(self._listening)
        return status

    async def end(self, patience: Patience) -> ExitStatus:
        """The ladder: close its input, wait, SIGTERM to its group, wait, SIGKILL, each step bounded.

        Callers share one ladder, and a caller that goes away does not stop it half way."""
        if self._ladder is None:
            self._ladder = asyncio.create_task(self._climb(patience))
        return await asyncio.shield(self._ladder)

    async def _climb(self, patience: Patience) -> ExitStatus:
        try:
            return await self._steps(patience)
        finally:
            if not self._reading:  # nobody ever did: the pipe would stay open
                self._output.close()

    async def _steps(self, patience: Patience) -> ExitStatus:
        self.close_input()
        if (status := await self._ends_within(patience.close)) is not None:
            return status
        self._signal(signal.SIGTERM)
        if (status := await self._ends_within(patience.terminate)) is not None:
            return status
        # A killed process cannot end what it started in groups of their own: that is left to us.
        left_behind = descendants(self.pid)
        self._signal(signal.SIGKILL)
        status = await self._ends_within(patience.kill)
        for process in left_behind:
            kill(process, signal.SIGKILL)
        return status or ExitStatus()

    async def _ends_within(self, seconds: float) -> ExitStatus | None:
        with contextlib.suppress(TimeoutError):
            return await within(self._clock, seconds, self.wait())
        return None

    def _signal(self, number: signal.Signals) -> None:
        if self.running:  # not reaped: the group's number cannot be somebody else's
            kill_group(self.group, number)

    def _watch(self) -> None:
        try:
            pidfd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            threading.Thread(target=self._watch_in_thread, daemon=True, name=f"wait-{self.pid}").start()
            return

        def ended() -> None:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)
            self._reap()

        self._loop.add_reader(pidfd, ended)

    def _watch_in_thread(self) -> None:
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(RuntimeError):  # the loop was closed before the child ended
            self._loop.call_soon_threadsafe(self._reap)

    def _reap(self) -> None:
        # Before the wait: until then the dead child holds its number, so the group is surely ours.
        kill_group(self.group, signal.SIGKILL)
        code = self._popen.wait()
        self._input.close()
        self._output.finish()
        self._errors.finish()
        self._exited.set_result(ExitStatus(code=code) if code >= 0 else ExitStatus(signal=-code))


def spawn(argv: Sequence[str], *, env: Mapping[str, str], cwd: str, clock: Clock) -> ChildHandle:
    """Start `argv[0]`. OSError when it cannot be started; then nothing is left behind."""
    ours: list[int] = []
    theirs: list[int] = []
    try:
        for readable_by_us in (False, True, True):
            reading, writing = os.pipe()
            ours.append(reading if readable_by_us else writing)
            theirs.append(writing if readable_by_us else reading)
        popen = subprocess.Popen(
            list(argv),
            stdin=theirs[0],
            stdout=theirs[1],
            stderr=theirs[2],
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    except BaseException:
        for fd in ours:
            os.close(fd)
        raise
    finally:
        for fd in theirs:
            os.close(fd)
    return ChildHandle(popen, (ours[0], ours[1], ours[2]), clock)


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
