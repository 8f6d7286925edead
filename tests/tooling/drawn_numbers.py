"""Run by test_seed.py: writes the numbers that hypothesis draws."""

import os
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=30, database=None)
@given(st.integers())
def test_numbers_are_drawn(number: int) -> None:
    with Path(os.environ["DRAWN_NUMBERS"]).open("a") as file:
        file.write(f"{number}\n")
