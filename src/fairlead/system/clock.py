"""Time as something that is handed in, so that tests turn the clock by hand (fairlead.testing.clock)."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Timer(Protocol):
    """What `Clock.call_later` gives: it can be called off. Calling it off twice, or too late, does nothing."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """`now_ms` may jump when somebody sets the wall clock; whatever measures a span uses `monotonic`."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call `callback` from the running event loop, once, unless called off before."""
        ...


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
    """The result of `awaitable`, or TimeoutError when `clock` says that the time is over (it is then cancelled).

    When both happen at once the result wins: an answer that came is never thrown away."""
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
