"""What a terminal shows after the bytes of a program: two screens, a cursor, modes, what has scrolled away.

The emulator is a library (`ghostty`). Ours is what stands before it: whole sequences only, questions answered once,
and nothing of what a hostile program could harm it with.
"""

import re
from typing import Final, NamedTuple

from fairlead.terminals.screen.combining import CombiningFilter
from fairlead.terminals.screen.device_queries import answer, is_query
from fairlead.terminals.screen.ghostty import PLAIN, Vt
from fairlead.terminals.screen.modes import ORIGIN, PASTE, WRAP
from fairlead.terminals.screen.snapshot import PLAIN_STYLE, cursor, place, region, switch
from fairlead.terminals.screen.tokenizer import Token, Tokenizer, TokenKind, has_text, last_character

HISTORY_BYTES: Final = 1 << 20
"""Of what has scrolled away, 8 for each cell of a line; the emulator keeps up to a page more."""
TITLE_LENGTH: Final = 256
_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f-\x9f]*")
_WITHHELD: Final = frozenset({"3", "40", "2027", "2048"})
"""Modes that nobody is given. With the first three a screen or a letter would be wider for some watchers than for
others, with the last each of them would tell the program its own size."""
_PROTECTION: Final = frozenset({"\x1bV", "\x1bW"})
"""Letters that clearing would leave there, for the few watchers that know of it; nor is it given in its other form."""
_OTHER_SCREEN: Final = frozenset({"47", "1047", "1049"})
_CLEAR: Final = "\x1b[2J"
_AS_NEW: Final = _CLEAR + "\x1b[<16u\x1b7"
"""The other screen may still have letters, a colour, keys and a saved cursor of its last use; who came in between could
not know which. So it is cleared when it is left, and made as new when it is entered."""


class FeedResult(NamedTuple):
    """`output` is for watchers; it has whole sequences only, and none that asks. `answers` are for the program."""

    output: bytes
    answers: bytes


class Emulator:
    def __init__(self, columns: int, rows: int) -> None:
        self.columns = columns
        self.rows = rows
        self.vt = Vt.new(columns, rows, HISTORY_BYTES)
        self._tokens = Tokenizer()
        self._marks = CombiningFilter()
        self._last = ""

    @property
    def x(self) -> int:
        """As wide as the screen when a character was put into the last column: the next one goes to a new line."""
        return self.vt.number("CURSOR_X") + self.vt.number("CURSOR_PENDING_WRAP")

    @property
    def y(self) -> int:
        return self.vt.number("CURSOR_Y")

    @property
    def alternate(self) -> bool:
        """The program uses the other screen."""
        return self.vt.number("ACTIVE_SCREEN") == 1

    @property
    def pasting(self) -> bool:
        """The program tells what is pasted from what is typed."""
        return self.vt.mode(PASTE)

    def lines(self) -> tuple[str, ...]:
        text = self.vt.format(PLAIN, 0, self.rows - 1).decode("utf-8", "replace")
        lines = [line.rstrip(" ") for line in text.split("\n")]
        return (*lines, *[""] * (self.rows - len(lines)))

    def feed(self, data: bytes) -> FeedResult:
        answers = b""
        output: list[str] = []
        for token in self._tokens.feed(data):
            if is_query(token):
                answers += answer(token, self.vt, self.columns, self.rows)
                continue
            token = self._common(token)
            if token.kind is TokenKind.RUN:
                token = token._replace(raw=self._marks.bounded(token.raw))
            output.append(token.raw)
            self._show(token)
        return FeedResult("".join(output).encode(), answers)

    def resize(self, columns: int, rows: int) -> None:
        if columns < self.columns and self.alternate:
            self._clear_edge(columns)
        # Only lines that wrap are told anew for another width; the others would be cut.
        wraps = self.vt.mode(WRAP)
        self.vt.write(switch(WRAP, True))
        self.vt.resize(columns, rows)
        self.vt.write(switch(WRAP, wraps))
        self.columns, self.rows = columns, rows

    def _clear_edge(self, columns: int) -> None:
        """The other screen is cut. Of half a letter the emulator could make no copy."""
        halves = [y for y in range(self.rows) if self.vt.wide(columns - 1, y)]
        if halves:
            # Behind a full line it goes no more: that could bring the letter back.
            at = b"\x1b[%d;%dH" % (self.y + 1, self.vt.number("CURSOR_X") + 1)
            back = place(cursor(self.vt)._replace(place=at), region(self.vt))
            blanks = b"".join(b"\x1b[%d;%dH\x1b[X" % (y + 1, columns) for y in halves)
            self.vt.write(b"".join((switch(ORIGIN, False), PLAIN_STYLE, blanks, *back)))

    def _show(self, token: Token) -> None:
        match token.kind:
            case TokenKind.RUN:
                if has_text(token.raw):
                    self._last = token.raw
                self.vt.write(token.raw.encode())
            case TokenKind.OSC:
                self._title(token.body)
            case TokenKind.CSI | TokenKind.ESCAPE:
                self.vt.write(token.raw.encode())
                self._marks.broken_off()
            case TokenKind.STRING | TokenKind.ENQUIRY:
                pass

    def _common(self, token: Token) -> Token:
        """The sequence as every terminal that watches understands it, whenever it has come."""
        if token.kind is TokenKind.ESCAPE and token.raw in _PROTECTION:
            return token._replace(raw="")
        if token.kind is not TokenKind.CSI:
            return token
        if (token.intermediates, token.final) == ('"', "q"):
            return token._replace(raw="")
        if token.final == "b":
            # The last character so many times. Which that was is not known to one who comes late.
            self._last = last_character(self._last)
            return Token(TokenKind.RUN, self._last * min(max(token.numbers()[0], 1), self.columns))
        if token.mark == "?" and token.final in "hlsr":
            return token._replace(raw=self._switched(token))
        return token

    def _switched(self, token: Token) -> str:
        withheld = _WITHHELD if token.final in "hl" else _WITHHELD | _OTHER_SCREEN
        modes = [mode for given in token.body[1:].split(";") if (mode := given.lstrip("0")) not in withheld]
        raw = f"\x1b[?{';'.join(modes)}{token.final}" if modes else ""
        if _OTHER_SCREEN.isdisjoint(modes) or self.alternate == (token.final == "h"):
            return raw
        return raw + _AS_NEW if token.final == "h" else _CLEAR + raw

    def _title(self, body: str) -> None:
        """Of the strings that name things only the title is shown: links and colours go to the watchers alone."""
        code, _, text = body.partition(";")
        kept = _PRINTABLE.match(text)
        if code in ("0", "2") and kept is not None:
            self.vt.write(f"\x1b]2;{kept.group()[:TITLE_LENGTH]}\x07".encode())
