"""Limits on password guesses: by name, by address, and by both."""

import asyncio

import pytest

from fairlead.auth.api.credentials import TooManyAttempts
from fairlead.auth.login_throttle import KEPT, PAUSE_S, PER_ADDRESS, PER_NAME, PER_PAIR, QUEUE_LENGTH, LoginThrottle
from fairlead_testing.clock import ManualClock

HERE = "203.0.113.7"


async def test_guessing_at_one_name_from_one_address_is_refused(clock: ManualClock) -> None:
    attempts = LoginThrottle(clock)
    for _ in range(PER_PAIR):
        await attempts.begin(HERE, "ann")
    with pytest.raises(TooManyAttempts):
        await attempts.begin(HERE, "ann")
    await attempts.begin("198.51.100.1", "ann")


async def test_guessing_one_name_from_many_addresses_is_refused_too(clock: ManualClock) -> None:
    attempts = LoginThrottle(clock)
    for number in range(PER_NAME):
        await attempts.begin(f"198.51.100.{number}", "ann")
    with pytest.raises(TooManyAttempts):
        await attempts.begin("198.51.100.200", "ann")
    await attempts.begin("198.51.100.200", "bob")


async def test_an_address_with_many_failures_is_slow_and_not_locked_out(clock: ManualClock) -> None:
    """A proxy that does not forward the client's address is one address for all its clients."""
    attempts = LoginThrottle(clock)
    await attempts.begin(HERE, "regular")
    attempts.succeeded(HERE, "regular")
    for number in range(PER_ADDRESS):
        await attempts.begin(HERE, f"stranger{number}")
    await attempts.begin(HERE, "regular")
    waiting = [asyncio.create_task(attempts.begin(HERE, f"user{number}")) for number in range(QUEUE_LENGTH)]
    while clock.waiting < 1:
        await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    with pytest.raises(TooManyAttempts):
        await attempts.begin(HERE, "one too many")
    await clock.advance(PAUSE_S)
    assert [task.done() for task in waiting].count(True) == 1, "one a second"
    await clock.advance(PAUSE_S * QUEUE_LENGTH)
    await asyncio.gather(*waiting)


async def test_success_removes_only_its_own_attempt(clock: ManualClock) -> None:
    attempts = LoginThrottle(clock)
    for _ in range(PER_PAIR - 1):
        await attempts.begin(HERE, "ann")
    for _ in range(20):
        await attempts.begin(HERE, "ann")
        attempts.succeeded(HERE, "ann")
    await attempts.begin(HERE, "ann")
    with pytest.raises(TooManyAttempts):
        await attempts.begin(HERE, "ann")


async def test_addresses_of_one_network_count_together_and_stored_attempts_are_bounded(clock: ManualClock) -> None:
    attempts = LoginThrottle(clock)
    for number in range(PER_PAIR):
        await attempts.begin(f"2001:db8::{number + 1:x}", "ann")
    with pytest.raises(TooManyAttempts):
        await attempts.begin("2001:db8::ffff", "ann")
    for number in range(KEPT):
        await attempts.begin(f"10.{number >> 8 & 255}.{number & 255}.1", "x" * 1000 + str(number))
    assert len(attempts._failures) == KEPT
