"""Keys for the interactive CLI: how a person's text is typed so that the CLI takes it as text. Pure.

A user's message must not act as a command of the terminal. Measured on 2.1.37, 2.1.120 and 2.1.325:
- Enter must be a separate write (2.1.37 takes text and Enter in one write as text), and `\\n` only breaks the line.
- A leading `/`, `!`, `#`, `@`, `?` or `&` after a blank is plain text in all three, except `/word`, which 2.1.325 runs
  as a command after any white space and after the invisible characters that it drops. U+2800 (a blank of Braille) is
  neither, so it is put before such a text there.
- While a menu of files or agents is open for the last word (`@...`), Enter chooses from it, and after a backslash it
  breaks the line: a blank at the end closes the menu, and separates the backslash from Enter.
- A tab becomes four blanks. Typed text is written to the transcript as it is; newer versions cut off blanks at its end.
"""

import re
import unicodedata
from typing import Final

from fairlead.agents.claude.versions import Version

ENTER: Final = b"\r"
ESCAPE: Final = b"\x1b"
ERASE: Final = (b"\x15", b"\x7f")
"""Clears the line up to the cursor, and joins it to the line before; repeated until the box is empty."""
PASTE: Final = (b"\x1b[200~", b"\x1b[201~")

GUARD: Final = "\u2800"
_TRIMS_SINCE: Final[Version] = (2, 1, 121)
_FORBIDDEN: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
_PASTE_ENDS: Final = re.compile(r"\x1b\[20[01]~")
_SPECIAL: Final = ("/", "!", "#", "@", "?", "&")


def clean(text: str) -> str:
    """Remove what a terminal would take for a key: C0 and C1 except newline and tab, and the marks of a paste."""
    text = _PASTE_ENDS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = text.encode("utf-8", "replace").decode()
    return _FORBIDDEN.sub("", text).strip("\n")


def guarded(text: str, version: Version) -> str:
    """The text as it is typed, so that no part is a command or opens a menu that would take the Enter."""
    first, last = text.lstrip()[:1], (text.split() or [""])[-1]
    if first in _SPECIAL:
        text = (GUARD if first == "/" and version >= _TRIMS_SINCE else " ") + text
    if text.endswith("\\") or "@" in last or last.startswith(("/", "#")):
        text += " "
    return text


def strokes(text: str) -> list[bytes]:
    """The writes that put a guarded text into the box, without Enter: a single line is typed character by character,
    several lines are pasted."""
    if "\n" in text:
        return [PASTE[0] + text.encode() + PASTE[1]]
    return [character.encode() for character in text]


def same(typed: str, written: str) -> bool:
    """Whether a row of the transcript, or the content of the box, equals the typed text."""
    return _normal(typed) == _normal(written)


def begins(typed: str, shown: str) -> bool:
    """Whether the content of the box is the beginning of the typed text."""
    return _normal(typed).startswith(_normal(shown)) and bool(_normal(shown))


def _normal(text: str) -> str:
    return re.sub(r"\s+", "", unicodedata.normalize("NFC", text.replace(GUARD, "")))
