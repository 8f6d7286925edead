"""Time as a dependency, so that tests can control the clock (fairlead_testing.clock)."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Timer(Protocol):
    """A timer of `Clock.call_later`. Cancelling it twice, or too late, does nothing."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Source of time. `now_ms` may jump when the wall clock is set; use `monotonic` to measure durations."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""

    def monotonic(self) -> float:
        """Seconds since a fixed moment; never goes back."""

    async def sleep(self, seconds: float) -> None: ...

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call `callback` once from the running event loop, unless the timer is cancelled before."""


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)


async def within(clock: Clock, seconds: float, awaitable: Awaitable[T]) -> T:
    """Return the result of `awaitable`; raise TimeoutError and cancel it after `seconds` of `clock`.

    When both happen at once the result wins: a result that arrived is never dropped."""
    task = asyncio.ensure_future(awaitable)
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def ring() -> None:
        if not over.done():
            over.set_result(None)

    timer = clock.call_later(seconds, ring)
    try:
        either: set[asyncio.Future[Any]] = {task, over}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise TimeoutError
    finally:
        timer.cancel()
        over.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


async def ends_within(clock: Clock, seconds: float, awaitable: Awaitable[Any]) -> bool:
    """Return whether `awaitable` ends within `seconds` of `clock`; else it is cancelled."""
    try:
        await within(clock, seconds, awaitable)
    except TimeoutError:
        return False
    return True
