"""How often somebody may guess a password: by address and by name."""

import pytest

from fairlead.auth.attempts import KEPT, PER_ADDRESS, PER_NAME, Attempts
from fairlead.model.accounts import TooManyAttempts
from fairlead.testing.clock import ManualClock

HERE = "203.0.113.7"


def test_guessing_at_one_name_from_everywhere_is_slowed_down_too() -> None:
    attempts = Attempts(ManualClock())
    for number in range(PER_NAME):
        attempts.begin(f"198.51.100.{number}", "ann")
    with pytest.raises(TooManyAttempts):
        attempts.begin("198.51.100.200", "ann")
    attempts.begin("198.51.100.200", "bob")


def test_a_success_takes_back_its_own_attempt_and_no_other() -> None:
    attempts = Attempts(ManualClock())
    for _ in range(PER_ADDRESS - 1):
        attempts.begin(HERE, "ann")
    for _ in range(20):
        attempts.begin(HERE, "bob")
        attempts.succeeded(HERE, "bob")
    attempts.begin(HERE, "ann")
    with pytest.raises(TooManyAttempts):
        attempts.begin(HERE, "bob")


def test_addresses_of_one_network_count_together_and_what_is_kept_is_bounded() -> None:
    attempts = Attempts(ManualClock())
    for number in range(PER_ADDRESS):
        attempts.begin(f"2001:db8::{number + 1:x}", f"user{number}")
    with pytest.raises(TooManyAttempts):
        attempts.begin("2001:db8::ffff", "another")
    for number in range(KEPT):
        attempts.begin(f"10.{number >> 8 & 255}.{number & 255}.1", "x" * 1000 + str(number))
    assert len(attempts) == KEPT
