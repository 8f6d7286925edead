"""What belongs to each of a terminal's two screens, and what has scrolled away. Pure."""

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple

from fairlead.terminals.grid import Grid, Row
from fairlead.terminals.modes import KeyFlags
from fairlead.terminals.style import PLAIN, Style

HISTORY_BYTES: Final = 256 * 1024
_LINE_COST: Final = 64
"""Memory of an empty line, about: without it the bound would not hold for many short ones."""


class Saved(NamedTuple):
    """What ESC 7 keeps."""

    x: int = 0
    y: int = 0
    style: Style = PLAIN
    sets: tuple[str, str] = ("B", "B")
    shifted: bool = False


class Surface:
    """One of the two screens."""

    def __init__(self, columns: int, rows: int) -> None:
        self.grid = Grid(columns, rows)
        self.saved = Saved()
        self.keys = KeyFlags()


class History:
    """Lines that have scrolled away, each as what draws it; the oldest go when there are too many bytes of them."""

    def __init__(self) -> None:
        self.lines: deque[bytes] = deque()
        self._bytes = 0

    def add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            line = row.draw().encode()
            self.lines.append(line)
            self._bytes += len(line) + _LINE_COST
        while self._bytes > HISTORY_BYTES:
            self._bytes -= len(self.lines.popleft()) + _LINE_COST

    def clear(self) -> None:
        self.lines.clear()
        self._bytes = 0

    def newest(self, most: int) -> list[bytes]:
        """As many of the last lines as have `most` bytes, their ends included."""
        count = size = 0
        for line in reversed(self.lines):
            size += len(line) + 2
            if size > most:
                break
            count += 1
        return list(islice(self.lines, len(self.lines) - count, None))
