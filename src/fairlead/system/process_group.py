"""A child that leads its own process group: watched without polling, reaped, signalled only while it has its pid."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fairlead.model.agents import Exit
from fairlead.system.clock import Clock, within
from fairlead.system.pipes import PipeReader, PipeWriter, Take
from fairlead.system.platform import PORTABLE
from fairlead.system.proctable import (
    descendants,
    end_group,
    is_monitor,
    kill,
    kill_group,
    open_pidfd,
    signal_group,
    start_mark,
)

_BY_SIGNAL = 128
"""A sandbox's monitor exits with this number plus the number of the signal that ended its program."""


@dataclass(frozen=True, slots=True)
class StopTimeouts:
    """How long each step of a stop waits, in seconds. The CLI ends within one second after its input is closed."""

    close: float = 5.0
    terminate: float = 3.0
    kill: float = 5.0


class ProcessGroupLeader(ABC):
    """A running child that leads its group, with our ends of its `output` and `input`."""

    def __init__(self, popen: "subprocess.Popen[bytes]", output: int, input: int, clock: Clock) -> None:
        self._reader = PipeReader(output)
        self._writer = PipeWriter(input)
        self.pid = self.group = popen.pid
        # It is not reaped yet, so the pid is still its own; the mark is empty only if it is dead already.
        self.started = start_mark(popen.pid)
        self._monitor = is_monitor(popen.pid)
        self._popen = popen
        self._clock = clock
        self._reading = False
        self._ladder: asyncio.Task[Exit] | None = None
        self._loop = asyncio.get_running_loop()
        self._exited: asyncio.Future[Exit] = self._loop.create_future()
        self._watch()

    @property
    def running(self) -> bool:
        return not self._exited.done()

    async def read(self, take: Take) -> None:
        """Pass its output to `take`, batch by batch; each is awaited before more is read. Return at the end of the
        output.

        Also returns when the child is dead and its output was read, even if a grandchild holds the pipe open."""
        self._reading = True
        await self._reader.run(take)

    async def write(self, data: bytes) -> None:
        """Return when the system took the bytes. Raises PipeClosed if the child no longer reads."""
        await self._writer.write(data)

    async def wait(self) -> Exit:
        return await asyncio.shield(self._exited)

    async def end(self, patience: StopTimeouts) -> Exit:
        """Stop the child in steps, each bounded; the last one kills it.

        Concurrent callers share the steps, and a cancelled caller does not stop them half way."""
        if self._ladder is None:
            self._ladder = asyncio.create_task(self._climb(patience))
        return await asyncio.shield(self._ladder)

    @abstractmethod
    def _steps(self, patience: StopTimeouts) -> Sequence[tuple[Callable[[], None], float]]:
        """Return the steps of a stop before the kill, with the seconds that each one waits."""

    async def _climb(self, patience: StopTimeouts) -> Exit:
        try:
            for step, seconds in self._steps(patience):
                step()
                if (status := await self._wait_for(seconds)) is not None:
                    return status
            # A killed process cannot stop the children that it started in separate groups: we do.
            left_behind = descendants(self.pid)
            if self.running:
                kill_group(self.group, signal.SIGKILL)
            status = await self._wait_for(patience.kill)
            for process in left_behind:
                kill(process, signal.SIGKILL)
            return status or Exit()
        finally:
            if not self._reading:  # without a reader the descriptor would stay open
                self._reader.close()

    async def _wait_for(self, seconds: float) -> Exit | None:
        with contextlib.suppress(TimeoutError):
            return await within(self._clock, seconds, self.wait())
        return None

    def _signal_group(self, number: signal.Signals) -> None:
        if self.running:  # not reaped: no other group can have this number
            signal_group(self.group, number)

    def _watch(self) -> None:
        try:
            pidfd = open_pidfd(self.pid)
        except OSError:
            pidfd = None
        if pidfd is None:
            threading.Thread(target=self._watch_in_thread, daemon=True, name=f"wait-{self.pid}").start()
            return

        watched = pidfd

        def ended() -> None:
            self._loop.remove_reader(watched)
            os.close(watched)
            self._reap()

        self._loop.add_reader(watched, ended)

    def _watch_in_thread(self) -> None:
        if sys.platform == "linux" and not PORTABLE:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:
            # The system has no way to wait without reaping. A group that has members keeps its number, so another
            # process can get it only if nothing is left to end.
            self._popen.wait()
        with contextlib.suppress(RuntimeError):  # the loop was closed before the child ended
            self._loop.call_soon_threadsafe(self._reap)

    def _reap(self) -> None:
        # Before the wait: until then the dead child holds its pid, so the group is certainly ours.
        self._end_group()
        code = self._popen.wait()
        self._reaped()
        self._exited.set_result(exit_status(code, self._monitor))

    def _end_group(self) -> None:
        """Kill the rest of the group. The child is dead and still holds its pid."""
        end_group(self.group)

    def _reaped(self) -> None:
        self._writer.close()
        self._reader.finish()


def exit_status(code: int, monitor: bool) -> Exit:
    """Return the exit of a child from its code, which is negative for a signal. `monitor`: the child is the monitor of
    a sandbox, and the exit that of the program inside."""
    if code < 0:
        return Exit(signal=-code)
    if monitor and code - _BY_SIGNAL in signal.valid_signals():
        return Exit(signal=code - _BY_SIGNAL)
    return Exit(code=code)
