"""What a terminal leaves at the keeper, so that the next gateway restores it: the tag of its process, which never
changes, and its memo, which is replaced as the program runs. Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead.terminals.api import Size
from fairlead.terminals.screen.terminal_state import SavedState

KIND: Final = "terminal"


class TerminalTag(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=KIND):
    """`shell`, `recording` and `more` are those of its `Program`; `size` is the size that it was started with."""

    name: str
    size: Size
    shell: bool = False
    recording: str = ""
    more: dict[str, Any] = {}


class RecordingMark(msgspec.Struct, frozen=True):
    """How far a recording has come, and when it began."""

    bytes: int
    begun_ms: int


class SavedTerminal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A terminal without its watchers. `urls`: those found so far, and whether a watcher is still to open them.
    `left_ms` is None if it was watched. `notes`: what the owner of the terminal keeps with it."""

    state: SavedState
    urls: dict[str, bool] = {}
    touched_ms: int
    left_ms: int | None = None
    notes: dict[str, Any] = {}
    recording: RecordingMark | None = None


class TerminalMemo(msgspec.Struct, frozen=True, kw_only=True):
    """`offset`: the output before it is in `saved`. `answers`: how many queries of the program were answered."""

    offset: int
    answers: int
    saved: SavedTerminal


def read_tag(tag: Mapping[str, Any]) -> TerminalTag | None:
    """The tag of a terminal; None if the process is not a terminal's."""
    if tag.get("kind") != KIND:
        return None
    try:
        return msgspec.convert(tag, TerminalTag)
    except msgspec.ValidationError:
        return None


def encode_memo(memo: TerminalMemo) -> bytes:
    return msgspec.msgpack.encode(memo)


def decode_memo(memo: bytes) -> TerminalMemo | None:
    """None if there is no memo, or one of a release that this one cannot read."""
    try:
        return msgspec.msgpack.decode(memo, type=TerminalMemo)
    except msgspec.DecodeError:
        return None
