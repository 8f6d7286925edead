"""Finds the URLs that a program prints on its terminal, whole, however its output is cut into pieces. Pure.

Rule: what is found depends on the bytes and the terminal's width, never on how they were cut. A URL goes on in the next
line only if its line is full to the edge, or if it ends with `?` or `&` and a `name=` follows; whatever else is printed
below it is no part of it. Most output has no URL near it and is only looked through for `://`.
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
"""Words by which a program asks that a URL be opened, in any case."""
NEAR: Final = 512
"""Characters between such words and the URL that they are about, at most: a paragraph."""
BEFORE: Final = 4096
"""Bytes before a URL that are looked at: its own line, and the words before it with all their colours."""
LONGEST: Final = 8192
"""Characters of a URL; what is longer is none. Those of sign-in pages have some 400."""
LONGEST_SEQUENCE: Final = 2 * LONGEST
"""A sequence that is not over by then (a picture, a broken one) is let go."""

_MARK: Final = "://"
_RECENT: Final = max(map(len, TRIGGERS)) - 1
MOST_TOLD: Final = 1024
"""URLs that are remembered as told; a program that prints more may hear one again."""

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
"""Moves within the line: the CLI writes words so, without blanks."""
_AWAY: Final = b"ABEFHdf"


class _Held(msgspec.Struct, frozen=True):
    """A URL at the end of its line, which may go on in the next: at the column where its line began. `start`: its
    place, counted in characters."""

    url: str
    start: int
    indent: int
    fields_only: bool


class UrlFinder:
    """`width` is the terminal's."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._told: set[FoundUrl] = set()
        self._asked: list[int] = []
        self._last: tuple[int, str] | None = None
        self._held: _Held | None = None
        self._rest = b""
        self._wake()
        self._awake = False

    @property
    def waiting(self) -> bool:
        """Something is there that what comes next decides about: when nothing comes, `flush` does."""
        return self._awake and (_MARK in self._word or self._held is not None or any(map(self._meant, self._asked)))

    def feed(self, data: bytes) -> list[FoundUrl]:
        found: list[FoundUrl] = []
        # What is kept of output without a mark has none.
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
        """Nothing more has come for a while."""
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

    # --- inside

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
        """What is left of `data`: the beginning of a sequence, or all that follows when there is nothing more to do."""
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
            # Words without anything in them, and the beginning of the next.
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
        # What continues a character of several bytes takes no room.
        self._column += len(text) if text.isascii() else sum(not "\x80" <= byte <= "\xbf" for byte in text)

    def _count(self, text: str) -> None:
        """The words among it that ask for something to be opened, and where they end."""
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
        if self._held is None and self._place > self._busy_until and self._place - self._asked_last > NEAR:
            # By now nothing that was found can change any more.
            self._look_back(found)
            self._awake = False

    @property
    def _asked_last(self) -> int:
        return self._asked[-1] if self._asked else 0

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
        """Keep the URL that this line ends with, if the next may go on with it."""
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
        """What the word adds to the URL that is held."""
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
        """A URL is over; `start` is its place. What asked for one to be opened shortly before meant it."""
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
        self._tell(FoundUrl(url, open=wanted), found)

    def _meant(self, place: int) -> bool:
        """What asks there, with no URL after it, means the one before."""
        return self._last is not None and 0 <= place - self._last[0] <= NEAR

    def _look_back(self, found: list[FoundUrl]) -> None:
        if self._last is not None and any(map(self._meant, self._asked)):
            self._tell(FoundUrl(self._last[1], open=True), found)
            self._asked = []

    def _tell(self, one: FoundUrl, found: list[FoundUrl]) -> None:
        """Once; and once more when it is to be opened."""
        if one not in self._told and FoundUrl(one.url, open=True) not in self._told:
            if len(self._told) >= MOST_TOLD:
                self._told.clear()
            self._told.add(one)
            found.append(one)


def _number(numbers: bytes, at: int) -> int:
    """A parameter of a sequence; 1 where there is none."""
    given = numbers.split(b";")
    return int(given[at]) if at < len(given) and given[at].isdigit() and len(given[at]) < 6 else 1
