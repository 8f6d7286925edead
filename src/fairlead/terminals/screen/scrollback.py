"""The last of what a program printed, as it was: bounded, and cut between whole characters and sequences only. Pure.

What is added has whole ones, and only what was added together goes together.
"""

from collections import deque
from typing import Final

_BLOCK: Final = 4096
"""Bytes that go at once; small additions are kept together, or their number would not be bounded."""


class Scrollback:
    def __init__(self, most: int) -> None:
        self._most = most
        self._blocks: deque[bytearray] = deque()
        self._bytes = 0
        self.whole = True
        """Nothing was let go: it is all that was ever printed."""

    def add(self, data: bytes) -> None:
        if not self._blocks or len(self._blocks[-1]) >= _BLOCK:
            self._blocks.append(bytearray())
        self._blocks[-1] += data
        self._bytes += len(data)
        while self._bytes > self._most and len(self._blocks) > 1:
            self._bytes -= len(self._blocks.popleft())
            self.whole = False

    @property
    def empty(self) -> bool:
        return not self._bytes

    def data(self) -> bytes:
        return b"".join(self._blocks)
