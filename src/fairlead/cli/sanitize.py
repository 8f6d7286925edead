"""Foreign text on a terminal: text of an agent, a tool, a file or a title is never interpreted.

`clean` is for reading: it removes control sequences, completely if they are complete. `visible` is for decisions:
nothing may be hidden from the person who decides, so every unprintable character is escaped. Pure.
"""

import re
from typing import Any, Final

import msgspec

_BODY: Final = 4096
"""Longest string sequence (a link, a clipboard) that is recognised: an endless one must not swallow the text after it.
"""

_STRING: Final = rf"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{{0,{_BODY}}}"
_CSI: Final = r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}"
_SEQUENCES: Final = re.compile(
    rf"{_STRING}(?:\x07|\x1b\\|\x9c)"  # OSC: titles, links, the clipboard; DCS, SOS, PM, APC
    rf"|{_CSI}[@-~]"  # colours, the cursor
    r"|\x1b[ -/]{0,8}[0-~]"  # short sequences: reset, character sets
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_CUT: Final = re.compile(rf"(?:\x1b[ -/]{{0,8}}|{_CSI}|{_STRING}\x1b?)\Z")
"""The beginning of a sequence at the end of a piece: the rest may come with the next piece."""


def clean(text: str) -> str:
    """Remove control sequences, control characters except newline and tab, and bidirectional overrides."""
    return _CONTROLS.sub("", _SEQUENCES.sub("", text))


def visible(text: str) -> str:
    """Escape invisible characters, so that a person sees exactly what would be done."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\u{{{ord(c):x}}}" for c in text)


def one_line(text: str, limit: int) -> str:
    """Return the first `limit` characters of a text on one line."""
    flat = " ".join(clean(text[: limit * 8]).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


class Cleaner:
    """`clean` for a text in pieces: the results together equal `clean` of the whole text."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        text = self._held + piece
        cut = _CUT.search(text)
        self._held = cut[0] if cut else ""
        return clean(text[: cut.start()] if cut else text)

    def end(self) -> str:
        rest, self._held = self._held, ""
        return clean(rest)


def text_of(content: Any) -> str:
    """Return the text of a tool's result or of a message, which may be a text, a list of blocks, or any other JSON."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list | tuple):
        return "\n".join(text_of(item) for item in content)
    if isinstance(content, dict):
        if isinstance(content.get("text"), str):
            return str(content["text"])
        if content.get("type") == "image":
            return "(an image)"
    return msgspec.json.encode(content).decode()
