"""A process that leads its own group: watched without polling, signalled only while its pid is its own, reaped."""

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from fairlead.system.clock import Clock, within
from fairlead.system.proctable import (
    Process,
    descendants,
    end_group,
    is_monitor,
    kill,
    kill_group,
    signal_group,
    start_mark,
)

_BY_SIGNAL = 128
"""A sandbox's monitor exits with this number plus the number of the signal that ended its program."""


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """Exactly one field is set; neither when a killed process does not die (it hangs in the kernel)."""

    code: int | None = None
    signal: int | None = None


class ProcessGroupLeader:
    """Watches a child that leads its group. `dying` is called when it is dead and still holds its pid, `reaped` when it
    is gone."""

    def __init__(
        self, popen: "subprocess.Popen[bytes]", reaped: Callable[[], None], dying: Callable[[], None] = lambda: None
    ) -> None:
        self.pid = popen.pid
        self.group = popen.pid
        # It is not reaped yet, so the pid is still its own; the mark is empty only if it is dead already.
        self.started = start_mark(popen.pid)
        self._monitor = is_monitor(popen.pid)
        self._popen = popen
        self._reaped = reaped
        self._dying = dying
        self._loop = asyncio.get_running_loop()
        self._exited: asyncio.Future[ExitStatus] = self._loop.create_future()
        self._watch()

    @property
    def running(self) -> bool:
        return not self._exited.done()

    async def ended(self) -> ExitStatus:
        return await asyncio.shield(self._exited)

    def signal(self, number: signal.Signals) -> None:
        """Signal its whole group."""
        if self.running:  # not reaped: no other group can have this number
            signal_group(self.group, number)

    async def climb(
        self,
        clock: Clock,
        steps: Sequence[tuple[Callable[[], None], float]],
        last: float,
        wait: Callable[[], Awaitable[ExitStatus]],
    ) -> ExitStatus:
        """Run the steps of a stop: each gets its seconds, then all descendants are killed. `wait` awaits the end."""
        for step, seconds in steps:
            step()
            if (status := await _within(clock, seconds, wait)) is not None:
                return status
        # A killed process cannot stop the children that it started in separate groups: we do.
        left_behind: list[Process] = descendants(self.pid)
        if self.running:
            kill_group(self.group, signal.SIGKILL)
        status = await _within(clock, last, wait)
        for process in left_behind:
            kill(process, signal.SIGKILL)
        return status or ExitStatus()

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
        # Before the wait: until then the dead child holds its pid, so the group is certainly ours.
        end_group(self.group)
        self._dying()
        code = self._popen.wait()
        self._reaped()
        self._exited.set_result(_status(code, self._monitor))


def _status(code: int, monitor: bool) -> ExitStatus:
    if code < 0:
        return ExitStatus(signal=-code)
    if monitor and code - _BY_SIGNAL in signal.valid_signals():
        return ExitStatus(signal=code - _BY_SIGNAL)
    return ExitStatus(code=code)


async def _within(clock: Clock, seconds: float, wait: Callable[[], Awaitable[ExitStatus]]) -> ExitStatus | None:
    with contextlib.suppress(TimeoutError):
        return await within(clock, seconds, wait())
    return None
