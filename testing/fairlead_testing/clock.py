"""A clock that advances only when a test advances it."""

import asyncio
import heapq
import itertools
from collections.abc import Callable


class ManualTimer:
    """One pending call of a `ManualClock`."""

    def __init__(self, due: float, callback: Callable[[], object]) -> None:
        self.due = due
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """Implements `fairlead.system.clock.Clock`. Time passes only in `advance`; timers fire in order."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._origin_ms = now_ms
        self._elapsed = 0.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, ManualTimer]] = []

    def now_ms(self) -> int:
        return self._origin_ms + round(self._elapsed * 1000)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        timer = self.call_later(seconds, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> ManualTimer:
        timer = ManualTimer(self._elapsed + max(seconds, 0.0), callback)
        heapq.heappush(self._timers, (timer.due, next(self._order), timer))
        return timer

    @property
    def waiting(self) -> int:
        """The number of pending timers: a test waits for this before it advances the clock."""
        return sum(1 for _, _, timer in self._timers if timer.callback is not None)

    async def advance(self, seconds: float) -> None:
        """Let time pass. A callback may set further timers, which also fire if they are due by then."""
        end = self._elapsed + seconds
        await _settle()
        while self._timers and self._timers[0][0] <= end:
            due, _, timer = heapq.heappop(self._timers)
            self._elapsed = max(self._elapsed, due)
            if timer.callback is not None:
                callback, timer.callback = timer.callback, None
                callback()
                await _settle()
        self._elapsed = end
        await _settle()


async def _settle() -> None:
    # Woken tasks need a few rounds of the loop to reach their next wait.
    for _ in range(5):
        await asyncio.sleep(0)
