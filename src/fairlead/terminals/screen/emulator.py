"""The state of a terminal after a program's output: two screens, a cursor, modes, and the scrolled-off lines.

The emulator itself is a library (`ghostty`). The code here filters its input: whole sequences only, queries answered
once, and nothing with which a hostile program could harm it.
"""

import re
from typing import Final, NamedTuple

import msgspec

from fairlead.terminals.screen.combining import CombiningFilter
from fairlead.terminals.screen.device_queries import answer, is_query
from fairlead.terminals.screen.ghostty import PLAIN, Vt
from fairlead.terminals.screen.modes import ORIGIN, WRAP
from fairlead.terminals.screen.snapshot import PLAIN_STYLE, cursor, place, region, switch
from fairlead.terminals.screen.tokenizer import (
    SavedTokenizer,
    Token,
    Tokenizer,
    TokenKind,
    has_text,
    last_character,
)

HISTORY_BYTES: Final = 1 << 20
"""Limit of the scrolled-off lines, with 8 bytes for each cell; the emulator keeps up to a page more."""
TITLE_LENGTH: Final = 256
_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f-\x9f]*")
_WITHHELD: Final = frozenset({"3", "40", "2027", "2048"})
"""Modes that are withheld from all watchers. With the first three a screen or a character would be wider for some
watchers than for others; with the last each watcher would report its own size to the program."""
_PROTECTION: Final = frozenset({"\x1bV", "\x1bW"})
"""Sequences that protect characters from clearing, which only a few watchers support; the other form of it (DECSCA) is
withheld too."""
_OTHER_SCREEN: Final = frozenset({"47", "1047", "1049"})
_CLEAR: Final = "\x1b[2J"
_AS_NEW: Final = _CLEAR + "\x1b[<16u\x1b7"
"""The alternate screen may still have characters, a colour, key flags and a saved cursor from its last use, which a
watcher that joined in between cannot know. So it is cleared when it is left, and reset when it is entered."""


class FeedResult(NamedTuple):
    """`output` is for watchers; it has whole sequences only, and no queries. `answers` are for the program, one for
    each of its queries that has one."""

    output: bytes
    answers: tuple[bytes, ...]


class SavedFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of the output beyond the state of the terminal itself: a partial sequence, the last characters."""

    tokens: SavedTokenizer = SavedTokenizer()
    marks: str = ""
    last: str = ""


class Emulator:
    """`vt` and `saved` continue a terminal: `vt` has its state, `saved` is from `save_filter`."""

    def __init__(self, columns: int, rows: int, vt: Vt | None = None, saved: SavedFilter | None = None) -> None:
        saved = saved or SavedFilter()
        self.columns = columns
        self.rows = rows
        self.vt = vt or Vt.new(columns, rows, HISTORY_BYTES)
        self._tokens = Tokenizer(saved.tokens)
        self._marks = CombiningFilter(saved.marks)
        self._last = saved.last

    def save_filter(self) -> SavedFilter:
        return SavedFilter(self._tokens.save(), self._marks.save(), last_character(self._last))

    @property
    def x(self) -> int:
        """The cursor's column; equal to the width after a character in the last column: the next one wraps."""
        return self.vt.number("CURSOR_X") + self.vt.number("CURSOR_PENDING_WRAP")

    @property
    def y(self) -> int:
        return self.vt.number("CURSOR_Y")

    @property
    def alternate(self) -> bool:
        """Whether the program uses the alternate screen."""
        return self.vt.number("ACTIVE_SCREEN") == 1

    def lines(self) -> tuple[str, ...]:
        text = self.vt.format(PLAIN, 0, self.rows - 1).decode("utf-8", "replace")
        lines = [line.rstrip(" ") for line in text.split("\n")]
        return (*lines, *[""] * (self.rows - len(lines)))

    def feed(self, data: bytes) -> FeedResult:
        answers: list[bytes] = []
        output: list[str] = []
        for token in self._tokens.feed(data):
            if is_query(token):
                if reply := answer(token, self.vt, self.columns, self.rows):
                    answers.append(reply)
                continue
            token = self._common(token)
            if token.kind is TokenKind.RUN:
                token = token._replace(raw=self._marks.bounded(token.raw))
            output.append(token.raw)
            self._show(token)
        return FeedResult("".join(output).encode(), tuple(answers))

    def resize(self, columns: int, rows: int) -> None:
        if columns < self.columns and self.alternate:
            self._clear_edge(columns)
        # The emulator reflows only wrapping lines for another width; it would cut the others.
        wraps = self.vt.mode(WRAP)
        self.vt.write(switch(WRAP, True))
        self.vt.resize(columns, rows)
        self.vt.write(switch(WRAP, wraps))
        self.columns, self.rows = columns, rows

    def _clear_edge(self, columns: int) -> None:
        """Remove wide characters that the new edge would cut in half on the alternate screen: the emulator cannot copy
        a screen with half a character."""
        halves = [y for y in range(self.rows) if self.vt.wide(columns - 1, y)]
        if halves:
            # The cursor is not put back behind a full line: that could bring the character back.
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
                self._marks.interrupted()
            case TokenKind.STRING | TokenKind.ENQUIRY:
                pass

    def _common(self, token: Token) -> Token:
        """The sequence in a form that every watching terminal understands, whenever it joined."""
        if token.kind is TokenKind.ESCAPE and token.raw in _PROTECTION:
            return token._replace(raw="")
        if token.kind is not TokenKind.CSI:
            return token
        if (token.intermediates, token.final) == ('"', "q"):
            return token._replace(raw="")
        if token.final == "b":
            # REP repeats the last character, which a watcher that joined late does not know: send the characters.
            self._last = last_character(self._last)
            return Token(TokenKind.RUN, self._last * min(max(token.number, 1), self.columns))
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
        """Pass only the title of OSC sequences to the emulator: links and colours go to the watchers alone."""
        code, _, text = body.partition(";")
        kept = _PRINTABLE.match(text)
        if code in ("0", "2") and kept is not None:
            self.vt.write(f"\x1b]2;{kept.group()[:TITLE_LENGTH]}\x07".encode())
