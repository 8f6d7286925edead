"""The cells of a screen: what changes them, and their lines as text or as what draws them. Pure.

A wide character has its second cell empty (`""`). Whoever cuts one in two blanks the half that is left.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from fairlead.terminals.style import PLAIN, Style

_PLAIN_SGR: Final = PLAIN.sgr()
MOST_MARKS: Final = 8
"""Combining characters kept on one cell: more is no writing, but memory."""


class Row:
    """One line. Both lists are always as long as the screen is wide."""

    __slots__ = ("chars", "styles")

    def __init__(self, columns: int, style: Style = PLAIN) -> None:
        self.chars = [" "] * columns
        self.styles = [style] * columns

    def put(self, x: int, chars: Sequence[str], style: Style) -> None:
        end = x + len(chars)
        self._cut(x)
        self._cut(end)
        self.chars[x:end] = chars
        self.styles[x:end] = [style] * len(chars)

    def mark(self, x: int, mark: str) -> None:
        """A combining character on what stands before `x`."""
        at = x - 1
        if at > 0 and self.chars[at] == "":
            at -= 1
        if at >= 0 and len(self.chars[at]) <= MOST_MARKS:
            self.chars[at] += mark

    def erase(self, start: int, end: int, style: Style) -> None:
        if start < end:
            self.put(start, [" "] * (end - start), style)

    def insert(self, x: int, count: int, style: Style) -> None:
        columns = len(self.chars)
        count = min(count, columns - x)
        self._cut(x)
        self._cut(columns - count)
        self.chars[x:] = [" "] * count + self.chars[x : columns - count]
        self.styles[x:] = [style] * count + self.styles[x : columns - count]

    def delete(self, x: int, count: int, style: Style) -> None:
        count = min(count, len(self.chars) - x)
        self._cut(x)
        self._cut(x + count)
        self.chars[x:] = self.chars[x + count :] + [" "] * count
        self.styles[x:] = self.styles[x + count :] + [style] * count

    def widen(self, columns: int) -> None:
        have = len(self.chars)
        if columns < have:
            self._cut(columns)
            del self.chars[columns:]
            del self.styles[columns:]
        else:
            self.chars += [" "] * (columns - have)
            self.styles += [PLAIN] * (columns - have)

    def text(self) -> str:
        return "".join(self.chars).rstrip(" ")

    def draw(self) -> str:
        """What draws it on an empty line, from its beginning; the style is plain before and after."""
        first = self.styles[0]
        if self.styles.count(first) == len(self.styles):
            return self.text() if first == PLAIN else f"{first.sgr()}{''.join(self.chars)}{_PLAIN_SGR}"
        parts: list[str] = []
        at = 0
        for style, cells in groupby(self.styles):
            end = at + len(list(cells))
            if style is PLAIN or style == PLAIN:
                text = "".join(self.chars[at:end])
                parts.append(text.rstrip(" ") if end == len(self.chars) else text)
            else:
                parts += [style.sgr(), *self.chars[at:end], _PLAIN_SGR]
            at = end
        return "".join(parts)

    def _cut(self, x: int) -> None:
        """No wide character may reach over the border before `x`."""
        if 0 < x < len(self.chars) and self.chars[x] == "":
            self.chars[x - 1] = self.chars[x] = " "


class Grid:
    """The lines of one screen."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns = columns
        self.rows = [Row(columns) for _ in range(lines)]

    def scroll_up(self, top: int, bottom: int, count: int, style: Style) -> list[Row]:
        """Lines `top` to `bottom` move up; those that leave are given back."""
        count = min(count, bottom - top + 1)
        gone = self.rows[top : top + count]
        del self.rows[top : top + count]
        end = bottom + 1 - count
        self.rows[end:end] = [Row(self.columns, style) for _ in range(count)]
        return gone

    def scroll_down(self, top: int, bottom: int, count: int, style: Style) -> None:
        count = min(count, bottom - top + 1)
        del self.rows[bottom + 1 - count : bottom + 1]
        self.rows[top:top] = [Row(self.columns, style) for _ in range(count)]

    def clear(self, style: Style = PLAIN) -> None:
        self.rows = [Row(self.columns, style) for _ in self.rows]

    def resize(self, columns: int, lines: int, keep: int) -> list[Row]:
        """To another size, so that line `keep` stays on it; gives back what left at the top."""
        off = max(0, min(keep - lines + 1, len(self.rows)))
        gone, self.rows = self.rows[:off], self.rows[off : off + lines]
        for row in self.rows:
            row.widen(columns)
        self.rows += [Row(columns) for _ in range(lines - len(self.rows))]
        self.columns = columns
        return gone
