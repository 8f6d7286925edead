"""Everything that a program's output has done to its terminal: the screen, the latest output, the URLs. It can be saved
and restored: the restored state and the rest of the output give the same as all output at once. Pure.
"""

from typing import Final

import msgspec

from fairlead.terminals.api import FoundUrl, Size
from fairlead.terminals.screen.emulator import HISTORY_BYTES, Emulator, FeedResult, SavedFilter
from fairlead.terminals.screen.ghostty import EmulatorFault, Vt
from fairlead.terminals.screen.redraw import redraw
from fairlead.terminals.screen.scrollback import Scrollback
from fairlead.terminals.screen.urls import UrlFinder

TAIL_BYTES: Final = 256 * 1024
REDRAW_HISTORY: Final = 128 * 1024
"""Bytes of scrollback in a redraw: some two thousand lines of a busy program."""

_RESTORED_BYTES: Final = 8 * HISTORY_BYTES
_RESTORED_LINES: Final = 1000
"""Limits of a restored history. The emulator begins a new page of its history after each restart, and counts every page
as a full one: with the limit of a new terminal it would drop most of a history that was restored twice."""


class SavedTail(msgspec.Struct, frozen=True, omit_defaults=True):
    blocks: tuple[bytes, ...] = ()
    whole: bool = True


class SavedState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`encoded` is the emulator's own form of its state, which another release of it may not read; `drawn` is a redraw
    for that case. At least one of them is there."""

    size: Size
    encoded: bytes = b""
    drawn: bytes = b""
    filter: SavedFilter = SavedFilter()
    tail: SavedTail | None = None
    finder: UrlFinder
    resized: bool = False


class TerminalState:
    """`keeps_tail`: keep the latest output as it was printed."""

    def __init__(self, size: Size, *, keeps_tail: bool) -> None:
        self.size = size
        self.resized = False
        """Whether the size has ever changed."""
        self.emulator = Emulator(size.columns, size.rows)
        self.tail = Scrollback(TAIL_BYTES) if keeps_tail else None
        self.finder = UrlFinder(size.columns)

    @classmethod
    def restore(cls, saved: SavedState) -> "TerminalState":
        """Takes over `saved.finder`."""
        size = saved.size
        state = cls(size, keeps_tail=False)
        state.resized = saved.resized
        state.emulator = Emulator(size.columns, size.rows, _decoded(saved), saved.filter)
        if saved.tail is not None:
            state.tail = Scrollback(TAIL_BYTES, saved.tail.blocks, saved.tail.whole)
        state.finder = saved.finder
        return state

    def save(self, *, portable: bool = False) -> SavedState:
        """The whole state. Other objects may share its `finder`: encode it before the next output. `portable`: for
        any release of the emulator; this takes longer."""
        try:
            encoded = self.emulator.vt.encode()
        except EmulatorFault:
            encoded = b""
        return SavedState(
            size=self.size,
            encoded=encoded,
            drawn=self.redraw() if portable or not encoded else b"",
            filter=self.emulator.save_filter(),
            tail=SavedTail(self.tail.blocks, self.tail.whole) if self.tail is not None else None,
            finder=self.finder,
            resized=self.resized,
        )

    @property
    def intact(self) -> bool:
        """Whether all output that was ever printed is kept, and was printed at the current size."""
        return self.tail is not None and self.tail.whole and not self.resized

    def feed(self, data: bytes) -> tuple[FeedResult, list[FoundUrl]]:
        """Process output; also return the URLs that are complete now."""
        fed = self.emulator.feed(data)
        if not fed.output:
            return fed, []
        if self.tail is not None:
            self.tail.add(fed.output)
        return fed, self.finder.feed(fed.output)

    def resize(self, size: Size) -> None:
        self.size = size
        self.resized = True
        self.emulator.resize(size.columns, size.rows)
        self.finder.width = size.columns

    def redraw(self) -> bytes:
        return redraw(self.emulator, REDRAW_HISTORY)


def _decoded(saved: SavedState) -> Vt:
    try:
        if saved.encoded:
            restored = Vt.decode(saved.encoded)
            restored.limit(_RESTORED_BYTES, _RESTORED_LINES)
            return restored
    except EmulatorFault:
        pass  # another release of the emulator
    drawn = Emulator(saved.size.columns, saved.size.rows)
    drawn.feed(saved.drawn or b"".join(saved.tail.blocks if saved.tail is not None else ()))
    return drawn.vt
