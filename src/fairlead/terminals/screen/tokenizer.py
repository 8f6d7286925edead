"""Splits a program's bytes into whole tokens: runs that need no inspection, and sequences that do. Pure.

Later stages never see half a sequence, so a stream may be cut between any two tokens. The buffer for a partial sequence
is bounded: one that is too long is dropped up to its end. The effect of a sequence is not known here.
"""

import codecs
import re
from enum import Enum
from typing import Final, NamedTuple

import msgspec

LONGEST: Final = 64 * 1024
"""Longest sequence in characters. Titles and clipboards are far shorter; pictures may be longer and are dropped."""


class TokenKind(Enum):
    RUN = "run"
    """Text, controls and sequences that are not queries and are the same for every terminal."""
    ENQUIRY = "enquiry"
    ESCAPE = "escape"
    CSI = "csi"
    OSC = "osc"
    STRING = "string"
    """DCS, SOS, PM and APC: their content is for the terminal itself."""


class Token(NamedTuple):
    """`raw` is the token as it came. `body` is, for a CSI, the parameters with their private mark in front; for an
    escape its intermediates; for an OSC or string its content."""

    kind: TokenKind
    raw: str
    body: str = ""
    intermediates: str = ""
    final: str = ""

    @property
    def mark(self) -> str:
        """The private mark of a CSI; empty if it has none."""
        return self.body[:1] if self.body[:1] in ("<", "=", ">", "?") else ""

    @property
    def number(self) -> int:
        """The first parameter of a CSI, up to six digits and without parts after a colon; 0 if it is missing."""
        first = self.body[len(self.mark) :].partition(";")[0].partition(":")[0].lstrip("0")
        return int(first[:6]) if first.isdecimal() else 0


_TEXT = r"[^\x00-\x1f\x7f]"
CONTROLS: Final = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]|[\x00-\x1f\x7f]"
"""The parts of a run other than text: sequences and single control characters."""
_TOKEN = re.compile(
    # Each part has only one possible end, so that the expression never backtracks.
    rf"(?P<run>(?:{_TEXT}++|[\x00-\x04\x06-\x1a\x1c-\x1f\x7f]++"
    r"|\x1b\[[0-9;:]{0,64}+[@-Z`adefghilmrsu]|\x1b\[\?(?:1|25|100\d|1015|2004|2026)[hl]|\x1b[78DEHM=>]|\x1b[()][0-9A-Z])++)"
    r"|(?P<enquiry>\x05)"
    r"|\x1b\[(?P<csi>[0-?]*)(?P<inter>[ -/]*)(?P<final>[@-~])"
    r"|\x1b\](?P<osc>[^\x07\x1b\x18\x1a]*)(?:\x07|\x1b\\)"
    r"|\x1b(?P<introducer>[PX^_])(?P<string>[^\x1b\x18\x1a]*)\x1b\\"
    r"|\x1b(?P<escape>[ -/]+)(?P<last>[0-~])"
    r"|\x1b(?P<single>[0-OQ-WYZ\\`-~])"
)
_WITHOUT_TEXT = re.compile(rf"(?:{CONTROLS})*+")
_PARTS = re.compile(rf"{CONTROLS}|({_TEXT}++)")
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b\x18\x1a]*\x1b?|[PX^_][^\x1b\x18\x1a]*\x1b?|[ -/]*)?\Z")
_BROKEN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\x18\x1a]*|[ -/]*)")
_OSC_END = re.compile(r"\x07|(?=[\x1b\x18\x1a])")
_STRING_END = re.compile(r"(?=[\x1b\x18\x1a])")
_CSI_END = re.compile(r"[@-~]|(?=[^ -~])")
_ENDS: Final = {"[": _CSI_END, "]": _OSC_END, "P": _STRING_END}
"""The end of an oversized sequence, by the character that introduces it; `P` stands for all strings."""
_C1 = re.compile(r"[\x80-\x9f]")


class SavedTokenizer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The bytes of a partial character, a partial sequence, and the kind of a sequence that is being dropped."""

    partial: bytes = b""
    rest: str = ""
    dropping: str = ""


class Tokenizer:
    """Takes bytes, split anywhere, and returns the complete tokens."""

    def __init__(self, saved: SavedTokenizer | None = None) -> None:
        saved = saved or SavedTokenizer()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._decoder.setstate((saved.partial, 0))
        self._rest = saved.rest
        self._dropping = saved.dropping
        """The key of `_ENDS` for an oversized sequence that is being dropped; empty if there is none."""

    def save(self) -> SavedTokenizer:
        partial, _ = self._decoder.getstate()
        return SavedTokenizer(partial, self._rest, self._dropping)

    def feed(self, data: bytes) -> list[Token]:
        text = self._decoder.decode(data)
        if _C1.search(text):
            text = _C1.sub(_as_escape, text)
        text = self._rest + text
        self._rest = ""
        tokens: list[Token] = []
        at = 0
        end = len(text)
        while at < end:
            if self._dropping:
                found = _ENDS[self._dropping].search(text, at)
                if found is None:
                    return tokens
                at = found.end()
                self._dropping = ""
            match = _TOKEN.match(text, at)
            if match is not None:
                at = match.end()
                if match.lastgroup == "run" or len(match.group()) <= LONGEST:
                    tokens.append(_token(match))
            elif _UNFINISHED.match(text, at):
                self._keep(text[at:])
                break
            else:
                # Interrupted by a character that cannot be in the sequence: continue after the broken part.
                broken = _BROKEN.match(text, at)
                at = broken.end() if broken is not None and broken.end() > at else at + 1
        return tokens

    def _keep(self, rest: str) -> None:
        if len(rest) <= LONGEST:
            self._rest = rest
        else:
            self._dropping = "P" if rest[1:2] in "PX^_" else "]" if rest[1:2] == "]" else "["


def _token(match: re.Match[str]) -> Token:
    raw = match.group()
    match match.lastgroup:
        case "run":
            return Token(TokenKind.RUN, raw)
        case "enquiry":
            return Token(TokenKind.ENQUIRY, raw)
        case "final":
            return Token(TokenKind.CSI, raw, match["csi"], match["inter"], match["final"])
        case "osc":
            return Token(TokenKind.OSC, raw, match["osc"])
        case "string":
            return Token(TokenKind.STRING, raw, match["string"], "", match["introducer"])
        case "last":
            return Token(TokenKind.ESCAPE, raw, match["escape"], "", match["last"])
        case _:
            return Token(TokenKind.ESCAPE, raw, final=match["single"])


def has_text(run: str) -> bool:
    return _WITHOUT_TEXT.fullmatch(run) is None


def last_character(run: str) -> str:
    """The last printed character of a run; empty if it has no text."""
    texts = [found[1] for found in _PARTS.finditer(run) if found[1]]
    return texts[-1][-1] if texts else ""


def closing_text(run: str) -> str:
    """The text at the end of a run; empty if it ends with a control."""
    parts = [found[1] for found in _PARTS.finditer(run)]
    return parts[-1] or "" if parts else ""


def _as_escape(match: re.Match[str]) -> str:
    """The seven-bit form of an eight-bit control."""
    return "\x1b" + chr(ord(match.group()) - 0x40)
