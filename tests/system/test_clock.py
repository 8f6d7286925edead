"""The injected clock: the manual one gives the same guarantees as the real one."""

import asyncio

import pytest

from fairlead.system.clock import Clock, SystemClock, within
from fairlead_testing.clock import ManualClock


async def test_manual_clock_stands_still_until_it_is_advanced() -> None:
    clock = ManualClock(now_ms=1000)
    woken = asyncio.create_task(clock.sleep(10))
    await clock.advance(9.5)
    assert not woken.done()
    assert clock.now_ms() == 10_500
    await clock.advance(0.5)
    assert woken.done()
    assert clock.monotonic() == 10


async def test_timers_fire_in_the_order_they_are_due_even_when_set_by_one_another() -> None:
    clock = ManualClock()
    fired: list[tuple[str, float]] = []

    def first() -> None:
        fired.append(("first", clock.monotonic()))
        clock.call_later(1, lambda: fired.append(("nested", clock.monotonic())))

    clock.call_later(3, lambda: fired.append(("last", clock.monotonic())))
    clock.call_later(1, first)
    clock.call_later(2.5, lambda: fired.append(("called off", clock.monotonic()))).cancel()
    assert clock.waiting == 2
    await clock.advance(5)
    assert fired == [("first", 1), ("nested", 2), ("last", 3)]


async def test_within_returns_the_result_or_cancels_and_raises_a_timeout() -> None:
    clock = ManualClock()
    assert await within(clock, 1, asyncio.sleep(0, "done")) == "done"
    cancelled = asyncio.Event()

    async def never() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    waiting = asyncio.create_task(within(clock, 5, never()))
    await clock.advance(4.9)
    assert not waiting.done()
    await clock.advance(0.2)
    with pytest.raises(TimeoutError):
        await waiting
    assert cancelled.is_set()
    assert clock.waiting == 0


async def test_within_passes_a_cancellation_on_and_leaves_no_timer() -> None:
    clock = ManualClock()
    inner = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(within(clock, 5, inner))
    await clock.advance(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert inner.cancelled()
    assert clock.waiting == 0


async def test_the_system_clock_goes_forward_and_calls_back() -> None:
    clock: Clock = SystemClock()
    before = clock.monotonic()
    rung = asyncio.Event()
    clock.call_later(0, rung.set)
    await rung.wait()
    await clock.sleep(0)
    assert clock.monotonic() >= before
    assert clock.now_ms() > 1_700_000_000_000
