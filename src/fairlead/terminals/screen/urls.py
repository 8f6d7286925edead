"""Finds complete URLs in a program's terminal output, however the output is cut into pieces. Pure.

Rule: the result depends on the bytes and the terminal's width, never on how they were cut. A URL continues on the next
line only if its line is full to the edge, or if it ends with `?` or `&` and a `name=` follows; other text below it is
not part of it. Most output has no URL near it and is only searched for `://`.
"""

import re
from typing import Final

import msgspec

from fairlead.terminals.api import FoundUrl

TRIGGERS: Final = (
    "browser didn't open",
    "open this url",
    "continue in your browser",
    "press enter to open",
    "open_url:",
)
"""Phrases by which a program asks to open a URL, in any case."""
NEAR: Final = 512
"""The most characters between such a phrase and its URL: a paragraph."""
BEFORE: Final = 4096
"""Bytes before a URL that are examined: its own line, and the text before it with all its colours."""
LONGEST: Final = 8192
"""Longest URL in characters; longer ones are ignored. URLs of sign-in pages have some 400."""
LONGEST_SEQUENCE: Final = 2 * LONGEST
"""An escape sequence longer than this (a picture, a broken one) is dropped."""

_MARK: Final = "://"
_RECENT: Final = max(map(len, TRIGGERS)) - 1
MOST_REPORTED: Final = 1024
"""URLs that are remembered as reported; if a program prints more, one may be reported again."""

_URL = re.compile(r"https?://[A-Za-z0-9\[][A-Za-z0-9\-._~:/?#\[\]@!$&()*+,;=%]*", re.IGNORECASE)
_URL_CHARACTERS = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&()*+,;=%]*")
_FIELD = re.compile(r"[A-Za-z0-9\-._~%\[\]]+=")
_TRAILING: Final = ")]}>.,;:!?"
_ASKING = re.compile("|".join(map(re.escape, TRIGGERS)))
_WORD = re.compile(r"[^ ]+| ")
_PIECE = re.compile(
    rb"(?P<text>[^\x00-\x1f\x7f]+)"
    rb"|(?P<line>\r*\n|\r+(?=[^\r\n]))"
    rb"|\x1b\[(?P<numbers>[0-?]*)[ -/]*(?P<move>[@-~])"
    rb"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|(?=\x1b[^\\]))"
    rb"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"
    rb"|(?P<open>\r+|\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*))\Z"
    rb"|(?P<tab>\t)|[\x00-\x1f\x7f]"
)
_ALONG: Final = b"CG`a"
"""Cursor moves within the line: the CLI separates words by these instead of blanks."""
_AWAY: Final = b"ABEFHdf"


class _Held(msgspec.Struct, frozen=True):
    """A URL at the end of its line that may continue on the next line, at the column where its own line began. `start`
    is its position, counted in characters."""

    url: str
    start: int
    indent: int
    fields_only: bool


class UrlFinder(msgspec.Struct, omit_defaults=True):
    """Finds URLs in the output of a terminal of this `width`. Its fields are its whole state: another one that is
    decoded from them continues the search."""

    width: int
    _reported: set[FoundUrl] = set()
    _rest: bytes = b""
    _awake: bool = False
    _place: int = 0
    _busy_until: int = BEFORE
    _at: int = 0
    _column: int = 0
    _recent: str = ""
    _asked: list[int] = []
    _last: tuple[int, str] | None = None
    _held: _Held | None = None
    _indent: int = -1
    _first: bool = True
    _word: str = ""
    _word_column: int = 0
    _word_place: int = 0

    @property
    def waiting(self) -> bool:
        """Whether a URL or a request to open one depends on the next output; without any, `flush` decides."""
        return self._awake and (_MARK in self._word or self._held is not None or any(map(self._meant, self._asked)))

    def feed(self, data: bytes) -> list[FoundUrl]:
        found: list[FoundUrl] = []
        # The kept rest of output without `://` does not need to be searched again.
        seen = 0 if self._awake else max(0, len(self._rest) - len(_MARK) + 1)
        data = self._rest + data
        while True:
            if not self._awake:
                mark = data.find(_MARK.encode(), seen)
                if mark < 0:
                    self._rest = data[-(BEFORE + len(_MARK)) :]
                    return found
                data, seen = data[max(0, mark - BEFORE) :], 0
                self._wake()
            data = self._look(data, found)
            if self._awake:
                self._rest = data
                return found

    def flush(self) -> list[FoundUrl]:
        """Report what is pending, because no more output has come for a while."""
        found: list[FoundUrl] = []
        if self._awake:
            if self._held is not None:
                self._settle(self._held.url + self._continued(), self._held.start, found)
                self._held = None
            url = self._url()
            if url is not None:
                self._settle(url.group(), self._word_place + url.start(), found)
            self._look_back(found)
        return found

    def _wake(self) -> None:
        self._awake = True
        self._place = 0
        self._busy_until = BEFORE
        self._column = 0
        self._recent = ""
        self._asked = []
        self._last = None
        self._held = None
        self._begin_line()
        self._word = ""
        self._word_column = self._word_place = 0

    def _begin_line(self) -> None:
        self._indent = -1
        self._first = True

    def _look(self, data: bytes, found: list[FoundUrl]) -> bytes:
        """Process `data`; return the rest: a partial sequence, or everything after the point where no URL is near."""
        for piece in _PIECE.finditer(data):
            match piece.lastgroup:
                case "open":
                    return piece.group() if len(piece.group()) <= LONGEST_SEQUENCE else b""
                case "text":
                    self._text(piece.group().decode("latin-1"), found)
                case "tab":
                    self._gap(self._column + 1, found)
                case "line":
                    self._line_ends(0, found)
                case "move" if piece["move"] in _ALONG:
                    count = _number(piece["numbers"], 0)
                    self._gap(self._column + count if piece["move"] in b"Ca" else count - 1, found)
                case "move" if piece["move"] in _AWAY:
                    column = _number(piece["numbers"], 1) - 1 if piece["move"] in b"Hf" else self._column
                    self._line_ends(column, found)
            if not self._awake:
                return data[piece.end() :]
        return b""

    def _text(self, text: str, found: list[FoundUrl]) -> None:
        self._count(text.lower())
        if self._indent < 0 and (words := text.lstrip(" ")):
            self._indent = self._column + len(text) - len(words)
        if self._held is not None or _MARK in self._word + text:
            for word in _WORD.findall(text):
                if word == " ":
                    self._word_ends(found)
                    self._advance(" ")
                else:
                    self._add(word)
            return
        blank = text.rfind(" ") + 1
        if blank:
            # Whole words without a URL, and the beginning of the next word.
            self._begin_word()
            self._advance(text[:blank])
        if blank < len(text):
            self._add(text[blank:])

    def _add(self, text: str) -> None:
        if not self._word:
            self._word_column, self._word_place = self._column, self._at
        if len(self._word) <= LONGEST:
            self._word = (self._word + text)[: LONGEST + 1]
        self._advance(text)

    def _advance(self, text: str) -> None:
        self._at += len(text)
        # Continuation bytes of a multi-byte character take no column.
        self._column += len(text) if text.isascii() else sum(not "\x80" <= byte <= "\xbf" for byte in text)

    def _count(self, text: str) -> None:
        """Note the positions where requests to open a URL end."""
        self._at = self._place
        known = len(self._recent)
        text = self._recent + text
        if "open" in text or "your browser" in text:
            for asking in _ASKING.finditer(text):
                if asking.end() > known:
                    self._asked.append(self._place + asking.end() - known)
        self._place += len(text) - known
        self._recent = text[-_RECENT:]

    def _gap(self, column: int, found: list[FoundUrl]) -> None:
        self._word_ends(found)
        self._count(" ")
        self._column = column

    def _line_ends(self, column: int, found: list[FoundUrl]) -> None:
        if not self._hold(found):
            self._word_ends(found)
            if self._held is not None:
                # An empty line.
                self._settle(self._held.url, self._held.start, found)
                self._held = None
        self._gap(column, found)
        self._begin_line()
        asked_last = self._asked[-1] if self._asked else 0
        if self._held is None and self._place > self._busy_until and self._place - asked_last > NEAR:
            # From here on, no URL found so far can change.
            self._look_back(found)
            self._awake = False

    def _word_ends(self, found: list[FoundUrl]) -> None:
        if not self._word:
            return
        held, more = self._held, self._continued()
        self._held = None
        if held is not None:
            self._settle(held.url + more, held.start, found)
        if not more and (url := self._url()) is not None:
            self._settle(url.group(), self._word_place + url.start(), found)
        self._begin_word()

    def _hold(self, found: list[FoundUrl]) -> bool:
        """Hold the URL at the end of this line, if the next line may continue it."""
        held, url = self._held, self._url()
        fields_only = self._column != self.width
        if held is not None and self._word and self._continued() == self._word:
            whole, start, indent = held.url + self._word, held.start, held.indent
        elif url is not None and url.end() == len(self._word):
            whole, start, indent = url.group(), self._word_place + url.start(), self._indent
            if held is not None:
                self._settle(held.url, held.start, found)
                self._held = None
        else:
            return False
        if len(whole) > LONGEST or (fields_only and whole[-1] not in "?&"):
            return False
        self._held = _Held(whole, start, indent, fields_only)
        self._begin_word()
        return True

    def _continued(self) -> str:
        """The part of the current word that continues the held URL."""
        held, word = self._held, self._word
        if held is None or not self._first or self._word_column != held.indent or _URL.match(word):
            return ""
        if held.fields_only and not _FIELD.match(word):
            return ""
        more = _URL_CHARACTERS.match(word)
        return more.group() if more is not None else ""

    def _url(self) -> re.Match[str] | None:
        return None if _MARK not in self._word or len(self._word) > LONGEST else _URL.search(self._word)

    def _begin_word(self) -> None:
        self._word = ""
        self._first = False

    def _settle(self, url: str, start: int, found: list[FoundUrl]) -> None:
        """Report a complete URL at position `start`. A request shortly before it to open a URL refers to it."""
        url = url.rstrip(_TRAILING)
        self._busy_until = max(self._busy_until, self._place + NEAR)
        if len(url) > LONGEST or not _URL.fullmatch(url):
            return
        later = [place for place in self._asked if place > start]
        before = [place for place in self._asked if place <= start]
        self._asked = [place for place in before if place < start - NEAR]
        wanted = len(self._asked) < len(before)
        self._look_back(found)
        self._asked = later
        self._last = (start + len(url), url)
        self._report(FoundUrl(url, open=wanted), found)

    def _meant(self, place: int) -> bool:
        """Whether a request at this position, with no URL after it, refers to the URL before it."""
        return self._last is not None and 0 <= place - self._last[0] <= NEAR

    def _look_back(self, found: list[FoundUrl]) -> None:
        if self._last is not None and any(map(self._meant, self._asked)):
            self._report(FoundUrl(self._last[1], open=True), found)
            self._asked = []

    def _report(self, one: FoundUrl, found: list[FoundUrl]) -> None:
        """Report a URL once, and once more when it is to be opened."""
        if one not in self._reported and FoundUrl(one.url, open=True) not in self._reported:
            if len(self._reported) >= MOST_REPORTED:
                self._reported.clear()
            self._reported.add(one)
            found.append(one)


def _number(numbers: bytes, at: int) -> int:
    """A parameter of a sequence; 1 if it is missing."""
    given = numbers.split(b";")
    return int(given[at]) if at < len(given) and given[at].isdigit() and len(given[at]) < 6 else 1
