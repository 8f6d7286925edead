"""The latest output of a program as it was printed: bounded, and cut only between characters and sequences. Pure.

Each addition consists of whole characters and sequences, and is only dropped as a whole.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

_BLOCK: Final = 4096
"""Least size of a full block. Blocks are dropped as a whole; small additions share one, which bounds their number."""


class Scrollback:
    def __init__(self, most: int, blocks: Iterable[bytes] = (), whole: bool = True) -> None:
        self._most = most
        self._blocks = deque(map(bytearray, blocks))
        self._bytes = sum(map(len, self._blocks))
        self.whole = whole
        """Whether nothing was dropped: this is all that was ever printed."""

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

    @property
    def blocks(self) -> tuple[bytes, ...]:
        """The parts that are dropped as a whole: give them to a new one to continue."""
        return tuple(map(bytes, self._blocks))

    def data(self) -> bytes:
        return b"".join(self._blocks)
