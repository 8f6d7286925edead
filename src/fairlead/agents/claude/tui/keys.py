"""Keys for the interactive CLI: how a person's text is typed so that it stays their text. Pure.

What the user typed is not a command of the terminal. Measured on 2.1.37, 2.1.120 and 2.1.325:
- Enter must be a write of its own (2.1.37 takes text and Enter in one write for text), and `\\n` only breaks the line.
- A first `/`, `!`, `#`, `@`, `?` or `&` after a blank is plain text in all three, but for `/word`, which 2.1.325 runs
  as a command after any white space and after the invisible characters that it drops. U+2800 (a blank of Braille) is
  neither, and stands before such a text there.
- While a menu of files or agents is open for the last word (`@...`), Enter chooses from it, and after a backslash it
  breaks the line: a blank at the end closes the one and parts the other.
- A tab becomes four blanks. What is typed is written to the transcript as it stands; newer versions cut off blanks at
  its end.
"""

import re
import unicodedata
from typing import Final

from fairlead.agents.claude.versions import Version

ENTER: Final = b"\r"
ESCAPE: Final = b"\x1b"
ERASE: Final = (b"\x15", b"\x7f")
"""Clears the line up to the cursor, and joins it to the one before: again and again, until the box is empty."""
PASTE: Final = (b"\x1b[200~", b"\x1b[201~")

GUARD: Final = "\u2800"
_TRIMS_SINCE: Final[Version] = (2, 1, 121)
_FORBIDDEN: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
_PASTE_ENDS: Final = re.compile(r"\x1b\[20[01]~")
_SPECIAL: Final = ("/", "!", "#", "@", "?", "&")


def clean(text: str) -> str:
    """Without what a terminal would take for a key: C0 and C1 but newline and tab, and the marks of a paste."""
    text = _PASTE_ENDS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = text.encode("utf-8", "replace").decode()
    return _FORBIDDEN.sub("", text).strip("\n")


def guarded(text: str, version: Version) -> str:
    """The text as it is typed: nothing in it is a command or opens a menu that takes the Enter."""
    first, last = text.lstrip()[:1], (text.split() or [""])[-1]
    if first in _SPECIAL:
        text = (GUARD if first == "/" and version >= _TRIMS_SINCE else " ") + text
    if text.endswith("\\") or "@" in last or last.startswith(("/", "#")):
        text += " "
    return text


def strokes(text: str) -> list[bytes]:
    """The writes that bring a guarded text into the box, Enter not among them: one line is typed, character by
    character, several are pasted."""
    if "\n" in text:
        return [PASTE[0] + text.encode() + PASTE[1]]
    return [character.encode() for character in text]


def same(typed: str, written: str) -> bool:
    """Whether a row of the transcript, or what the box shows, is what was typed."""
    return _normal(typed) == _normal(written)


def begins(typed: str, shown: str) -> bool:
    """Whether what the box shows is the beginning of what was typed."""
    return _normal(typed).startswith(_normal(shown)) and bool(_normal(shown))


def _normal(text: str) -> str:
    return re.sub(r"\s+", "", unicodedata.normalize("NFC", text.replace(GUARD, "")))
