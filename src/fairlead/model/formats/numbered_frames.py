"""Numbers for the frames of a session, for clients that resume after the last frame that they have. Pure.

The frame in slot `k` of the log's entry `n` has the number `64 * n + k`, live and in every replay.
"""

from typing import Final

FRAMES: Final = 64
"""Frame numbers reserved for each entry (design: views)."""
LARGEST_NUMBER: Final = 2**53
"""Larger integers are not exact in JavaScript."""


def number(seq: int, slot: int = FRAMES - 1) -> int:
    """The number of an entry's frame; without a slot, a number after all its frames."""
    return seq * FRAMES + slot
