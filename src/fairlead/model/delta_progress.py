"""How much of a block somebody was told in pieces, for variants that tell blocks as they are written. Pure."""

from typing import Final

from fairlead.model import events as ev

BLOCKS: Final = 256
"""Blocks that may be half written at once: one of each thread, and some that were given up."""


def streamed(event: ev.Event, position: int | None = None) -> int:
    """How many characters of a block were told in pieces: in all, or up to a place."""
    if not isinstance(event, ev.Text | ev.ToolCalled):
        return 0
    return max((offset for seq, offset in event.marks if position is None or seq <= position), default=0)


class DeltaProgress:
    """Of one who reads the log from a place: it was told the pieces before that, and is told those that it reads."""

    def __init__(self, position: int) -> None:
        self._position = position
        self._read: dict[tuple[str, int], int] = {}

    def told(self, event: ev.Event) -> int:
        """How many characters of this block it was told, if this is one. Called with each event, in their order."""
        match event:
            case ev.TextDelta() | ev.InputDelta():
                size = len(event.text if isinstance(event, ev.TextDelta) else event.json)
                self._read[event.message, event.block] = event.offset + size
                if len(self._read) > BLOCKS:
                    # Of those that will never be whole nothing is asked any more.
                    del self._read[next(iter(self._read))]
                return 0
            case ev.Text() | ev.ToolCalled():
                return max(self._read.pop((event.message, event.block), 0), streamed(event, self._position))
            case _:
                return 0
