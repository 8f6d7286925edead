"""Other people's words on a terminal: nothing that an agent, a tool, a file or a title says is ever interpreted.

`clean` is for reading: control sequences are taken out, whole where they are whole. `visible` is for deciding: nothing
may hide from a person who is asked, so every odd character is spelled out. Pure.
"""

import re
from typing import Any, Final

import msgspec

_BODY: Final = 4096
"""Characters of a string sequence (a link, a clipboard) that are waited for; an endless one must not swallow a text."""

_STRING: Final = rf"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{{0,{_BODY}}}"
_CSI: Final = r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}"
_SEQUENCES: Final = re.compile(
    rf"{_STRING}(?:\x07|\x1b\\|\x9c)"  # OSC: titles, links, the clipboard; DCS, SOS, PM, APC
    rf"|{_CSI}[@-~]"  # colours, the cursor
    r"|\x1b[ -/]{0,8}[0-~]"  # the short ones: reset, character sets
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_CUT: Final = re.compile(rf"(?:\x1b[ -/]{{0,8}}|{_CSI}|{_STRING}\x1b?)\Z")
"""The beginning of a sequence at the end of a piece: the rest may come with the next one."""


def clean(text: str) -> str:
    """For reading: no control sequence, no control character but newline and tab, no bidirectional override."""
    return _CONTROLS.sub("", _SEQUENCES.sub("", text))


def visible(text: str) -> str:
    """For deciding: what cannot be seen is spelled out, so that what is shown is what would be done."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\u{{{ord(c):x}}}" for c in text)


def one_line(text: str, limit: int) -> str:
    """The first `limit` characters of a text on one line."""
    flat = " ".join(clean(text[: limit * 8]).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


class Cleaner:
    """`clean` for a text that comes in pieces: the pieces together give what `clean` gives of the whole."""

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


def said(content: Any) -> str:
    """The words of a tool's result or of a message: a text, a list of blocks, or something odd."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple):
        return "\n".join(said(item) for item in content)
    if isinstance(content, dict):
        if isinstance(content.get("text"), str):
            return str(content["text"])
        if content.get("type") == "image":
            return "(an image)"
    return msgspec.json.encode(content).decode()
