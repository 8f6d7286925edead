"""Counts how much of a block a client received as deltas, for encoders that stream blocks. Pure."""

from typing import Final

from fairlead.model import events as ev
from fairlead.model.formats.bounded_tables import drop_oldest

BLOCKS: Final = 256
"""Maximum number of incomplete blocks: one per thread, and some that were abandoned."""


def streamed_chars(event: ev.Event, position: int | None = None) -> int:
    """Number of characters of a block that were streamed as deltas: in all, or up to the seq `position`."""
    if not isinstance(event, ev.Text | ev.Thinking | ev.ToolCalled):
        return 0
    return max((offset for seq, offset in event.marks if position is None or seq <= position), default=0)


class DeltaProgress:
    """Progress of a client that reads the log from `position`: it has the deltas before that, and gets the rest."""

    def __init__(self, position: int) -> None:
        self._position = position
        self._read: dict[tuple[str, int], int] = {}

    def chars_seen(self, event: ev.Event) -> int:
        """Number of characters of this block that the client has; 0 for other events. Called with each event, in
        order."""
        match event:
            case ev.TextDelta() | ev.ThinkingDelta() | ev.InputDelta():
                size = len(event.json if isinstance(event, ev.InputDelta) else event.text)
                self._read[event.message, event.block] = event.offset + size
                # The oldest block was abandoned and will never be completed.
                drop_oldest(self._read, BLOCKS)
                return 0
            case ev.Text() | ev.Thinking() | ev.ToolCalled():
                return max(self._read.pop((event.message, event.block), 0), streamed_chars(event, self._position))
            case _:
                return 0
