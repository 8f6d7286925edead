"""What a terminal shows after the bytes of a program: two screens, a cursor, modes, what has scrolled away. Pure.

Bounded whatever is fed to it, and it never fails on it: what is not understood changes nothing.
"""

import re
from typing import Final, NamedTuple

from wcwidth import wcwidth

from fairlead.terminals.grid import Grid
from fairlead.terminals.modes import ALTERNATE, ORIGIN, WRAP, Modes
from fairlead.terminals.queries import ENQUIRY, answer, is_query
from fairlead.terminals.style import PLAIN
from fairlead.terminals.surface import History, Saved, Surface
from fairlead.terminals.tokens import Kind, Token, Tokenizer

TITLE_LENGTH: Final = 256
_DRAWING: Final = dict(zip(range(0x60, 0x7F), "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·", strict=True))
"""The character set of lines and corners (ESC ( 0)."""
_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f-\x9f]*")


class Fed(NamedTuple):
    """`output` is for watchers; it has whole sequences only, and none that asks. `answers` are for the program."""

    output: bytes
    answers: bytes


class Emulator:
    def __init__(self, columns: int, rows: int) -> None:
        self.columns = columns
        self.rows = rows
        self.history = History()
        self._tokens = Tokenizer()
        self._reset()

    def _reset(self) -> None:
        self.main = Surface(self.columns, self.rows)
        self.alternate: Surface | None = None
        self.x = 0
        """As wide as the screen when a character was put into the last column: the next one goes to a new line."""
        self.y = 0
        self.style = PLAIN
        self.sets = ("B", "B")
        self.shifted = False
        self.modes = Modes()
        self.top = 0
        self.bottom = self.rows - 1
        self.tabs = set(range(8, self.columns, 8))
        self._last = ""

    @property
    def surface(self) -> Surface:
        return self.alternate or self.main

    @property
    def grid(self) -> Grid:
        return self.surface.grid

    def lines(self) -> tuple[str, ...]:
        return tuple(row.text() for row in self.grid.rows)

    def feed(self, data: bytes) -> Fed:
        tokens = self._tokens.feed(data)
        answers = ""
        output: list[str] = []
        for token in tokens:
            if is_query(token):
                answers += answer(token, self.y, min(self.x, self.columns - 1), self.columns, self.rows)
                continue
            if token.kind is Kind.CSI and token.final == "b":
                token = self._repeated(token)
            output.append(token.raw.replace(ENQUIRY, "") if token.kind is Kind.CONTROL else token.raw)
            self._take(token)
        return Fed("".join(output).encode(), answers.encode())

    def resize(self, columns: int, rows: int) -> None:
        gone = self.main.grid.resize(columns, rows, self.main.saved.y if self.alternate else self.y)
        self.history.add(gone)
        off = len(gone)
        if self.alternate is not None:
            off = len(self.alternate.grid.resize(columns, rows, self.y))
        self.tabs = {tab for tab in self.tabs if tab < columns} | set(range(-(-self.columns // 8) * 8, columns, 8))
        self.columns, self.rows = columns, rows
        self.top, self.bottom = 0, rows - 1
        self.x = min(self.x, columns - 1)
        self.y = min(max(self.y - off, 0), rows - 1)
        for surface in filter(None, (self.main, self.alternate)):
            saved = surface.saved
            surface.saved = saved._replace(x=min(saved.x, columns - 1), y=min(saved.y, rows - 1))

    # --- tokens

    def _take(self, token: Token) -> None:
        match token.kind:
            case Kind.TEXT:
                self._print(token.raw)
            case Kind.CONTROL:
                for char in token.raw:
                    self._control(char)
            case Kind.ESCAPE:
                self._escape(token.body, token.final)
            case Kind.CSI:
                self._csi(token)
            case Kind.OSC:
                self._osc(token.body)
            case Kind.STRING:
                pass

    def _repeated(self, token: Token) -> Token:
        """The last character so many times, as text: a watcher that has just come does not know which that was."""
        count = max(token.numbers()[0], 1)
        return Token(Kind.TEXT, self._last * min(count, self.columns))

    def _print(self, text: str) -> None:
        if not text:
            return
        if self.sets[self.shifted] == "0":
            text = text.translate(_DRAWING)
        self._last = text[-1]
        if text.isascii():
            self._print_narrow(text)
            return
        for char in text:
            width = wcwidth(char)
            if width == 1:
                self._print_narrow(char)
            elif width == 2 and self.columns > 1:
                self._room(2)
                self._cells([char, ""])
            elif width == 0:
                self.grid.rows[self.y].mark(self.x, char)

    def _print_narrow(self, text: str) -> None:
        at = 0
        while at < len(text):
            self._room(1)
            piece = text[at : at + self.columns - self.x]
            self._cells(list(piece))
            at += len(piece)

    def _room(self, width: int) -> None:
        """Where the next character goes has room for it."""
        if self.x + width <= self.columns:
            return
        if self.modes[WRAP]:
            self.x = 0
            self._index()
        else:
            self.x = self.columns - width

    def _cells(self, chars: list[str]) -> None:
        row = self.grid.rows[self.y]
        if self.modes.insert:
            row.insert(self.x, len(chars), self.style.blank())
        row.put(self.x, chars, self.style)
        self.x += len(chars)

    def _control(self, char: str) -> None:
        match char:
            case "\r":
                self.x = 0
            case "\n" | "\x0b" | "\x0c":
                self._index()
                self.x = 0 if self.modes.newline else min(self.x, self.columns - 1)
            case "\b":
                self.x = max(0, min(self.x, self.columns - 1) - 1)
            case "\t":
                self.x = min((tab for tab in self.tabs if tab > self.x), default=self.columns - 1)
            case "\x0e" | "\x0f":
                self.shifted = char == "\x0e"
            case _:
                pass

    def _escape(self, between: str, final: str) -> None:
        match between, final:
            case "", "7":
                self._save()
            case "", "8":
                self._restore()
            case "", "D":
                self._index()
            case "", "E":
                self.x = 0
                self._index()
            case "", "H":
                self.tabs.add(min(self.x, self.columns - 1))
            case "", "M":
                self._reverse_index()
            case "", "c":
                self._reset()
            case "", "=" | ">":
                self.modes.keypad = final == "="
            case "(", _:
                self.sets = (final, self.sets[1])
            case ")", _:
                self.sets = (self.sets[0], final)
            case "#", "8":
                for row in self.grid.rows:
                    row.put(0, ["E"] * self.columns, PLAIN)
                self._move(0, 0)
            case _:
                pass

    def _osc(self, body: str) -> None:
        code, _, text = body.partition(";")
        if code in ("0", "2"):
            kept = _PRINTABLE.match(text)
            self.modes.title = kept.group()[:TITLE_LENGTH] if kept is not None else ""

    # --- sequences with parameters

    def _csi(self, token: Token) -> None:
        numbers = token.numbers()
        first = numbers[0]
        match token.mark, token.intermediates, token.final:
            case "", "", "m":
                self.style = self.style.apply(token.body)
            case "", "", final:
                self._plain(final, numbers)
            case "?", "", "h" | "l":
                self._private(numbers, token.final == "h")
            case "?", "", "J" | "K":
                self._plain(token.final, numbers)
            case ">", "", "m" if first == 4:
                self.modes.modify_keys = numbers[1] if len(numbers) > 1 else 0
            case ">", "", "u":
                self.surface.keys.push(first)
            case "<", "", "u":
                self.surface.keys.pop(first)
            case "=", "", "u":
                self.surface.keys.change(first, numbers[1] if len(numbers) > 1 else 1)
            case "", " ", "q":
                self.modes.shape = first
            case "", "!", "p":
                self._soft_reset()
            case _:
                pass

    def _plain(self, final: str, numbers: list[int]) -> None:
        first = numbers[0]
        count = max(first, 1)
        second = numbers[1] if len(numbers) > 1 else 0
        row = self.grid.rows[self.y]
        x = min(self.x, self.columns - 1)
        blank = self.style.blank()
        match final:
            case "A" | "F":
                upper = self.top if self.y >= self.top else 0
                self._move(max(self.y - count, upper), 0 if final == "F" else x)
            case "B" | "e" | "E":
                lower = self.bottom if self.y <= self.bottom else self.rows - 1
                self._move(min(self.y + count, lower), 0 if final == "E" else x)
            case "C" | "a":
                self._move(self.y, x + count)
            case "D":
                self._move(self.y, x - count)
            case "G" | "`":
                self._move(self.y, count - 1)
            case "H" | "f":
                self._go(count - 1, max(second, 1) - 1)
            case "d":
                self._go(count - 1, x)
            case "I":
                after = sorted(tab for tab in self.tabs if tab > x)
                self.x = after[count - 1] if count <= len(after) else self.columns - 1
            case "Z":
                before = sorted(tab for tab in self.tabs if tab < x)
                self.x = before[-count] if count <= len(before) else 0
            case "J":
                self._erase_display(first)
            case "K":
                self._erase_line(first)
            case "L" | "M" if self.top <= self.y <= self.bottom:
                move = self.grid.scroll_down if final == "L" else self.grid.scroll_up
                move(self.y, self.bottom, count, blank)
                self.x = 0
            case "P":
                row.delete(x, count, blank)
                self.x = x
            case "@":
                row.insert(x, count, blank)
                self.x = x
            case "X":
                row.erase(x, min(x + count, self.columns), blank)
                self.x = x
            case "S":
                self._scroll(count)
            case "T" if len(numbers) == 1:
                self.grid.scroll_down(self.top, self.bottom, count, blank)
            case "g":
                self.tabs = set() if first == 3 else self.tabs - {x} if first == 0 else self.tabs
            case "h" | "l":
                self._ansi(numbers, final == "h")
            case "r":
                self._margins(count - 1, (second or self.rows) - 1)
            case "s":
                self._save()
            case "u":
                self._restore()
            case _:
                pass

    def _ansi(self, numbers: list[int], on: bool) -> None:
        if 4 in numbers:
            self.modes.insert = on
        if 20 in numbers:
            self.modes.newline = on

    def _private(self, numbers: list[int], on: bool) -> None:
        for mode in numbers:
            if mode in ALTERNATE:
                self._switch(mode, on)
            elif mode == 1048:
                self._save() if on else self._restore()
        self.modes.set(numbers, on)
        if ORIGIN in numbers:
            self._go(0, 0)

    def _switch(self, mode: int, on: bool) -> None:
        if on and self.alternate is None:
            if mode == 1049:
                self._save()
            self.x = min(self.x, self.columns - 1)
            self.alternate = Surface(self.columns, self.rows)
        elif not on and self.alternate is not None:
            self.x = min(self.x, self.columns - 1)
            self.alternate = None
            if mode == 1049:
                self._restore()

    def _soft_reset(self) -> None:
        modes = self.modes
        modes.set([ORIGIN, 1], False)
        modes.set([WRAP, 25], True)
        modes.insert = modes.keypad = False
        self.top, self.bottom = 0, self.rows - 1
        self.style = PLAIN
        self.sets, self.shifted = ("B", "B"), False
        self.surface.saved = Saved()

    # --- what the sequences do

    def _move(self, y: int, x: int) -> None:
        self.y = max(0, min(y, self.rows - 1))
        self.x = max(0, min(x, self.columns - 1))

    def _go(self, y: int, x: int) -> None:
        """To a place that counts from the top margin where the program wants that."""
        if self.modes[ORIGIN]:
            y = min(self.top + y, self.bottom)
        self._move(y, x)

    def _index(self) -> None:
        if self.y == self.bottom:
            self._scroll(1)
        elif self.y < self.rows - 1:
            self.y += 1

    def _reverse_index(self) -> None:
        self.x = min(self.x, self.columns - 1)
        if self.y == self.top:
            self.grid.scroll_down(self.top, self.bottom, 1, self.style.blank())
        elif self.y > 0:
            self.y -= 1

    def _scroll(self, count: int) -> None:
        gone = self.grid.scroll_up(self.top, self.bottom, count, self.style.blank())
        if self.top == 0 and self.alternate is None:
            self.history.add(gone)

    def _erase_display(self, how: int) -> None:
        blank = self.style.blank()
        rows = self.grid.rows
        if how == 3:
            self.history.clear()
        elif how in (0, 1, 2):
            if how < 2:
                self._erase_line(how)
            for row in rows[self.y + 1 :] if how == 0 else rows[: self.y] if how == 1 else rows:
                row.erase(0, self.columns, blank)
        self.x = min(self.x, self.columns - 1)

    def _erase_line(self, how: int) -> None:
        self.x = min(self.x, self.columns - 1)
        if how in (0, 1, 2):
            start, end = ((self.x, self.columns), (0, self.x + 1), (0, self.columns))[how]
            self.grid.rows[self.y].erase(start, end, self.style.blank())

    def _margins(self, top: int, bottom: int) -> None:
        bottom = min(bottom, self.rows - 1)
        if top < bottom:
            self.top, self.bottom = top, bottom
            self._go(0, 0)

    def _save(self) -> None:
        self.surface.saved = Saved(min(self.x, self.columns - 1), self.y, self.style, self.sets, self.shifted)

    def _restore(self) -> None:
        saved = self.surface.saved
        self.x, self.y, self.style, self.sets, self.shifted = saved
        if self.modes[ORIGIN]:
            self.y = max(self.top, min(self.y, self.bottom))
