"""claudecodeui's chat without a server: inputs in, what sockets are sent out, live, resumed and as history.

Inputs as of `clients.cognova.telling`."""

import copy
import json
from collections.abc import Iterable
from typing import Any

from clients.cognova.telling import SESSION, unframed
from clients.cognova.telling import Telling as Told
from fairlead.clients.claudecodeui.chat_frames import FRAMES, ChatVariant, Known
from fairlead.clients.claudecodeui.history import HistoryFold, Memory, read_memory
from fairlead.model.store import Entry
from fairlead.model.views import Replace, Row
from fairlead.testing.claudecodeui_client import ClaudeCodeUiClient, Shown

Frame = dict[str, Any]


class Telling(Told):
    """One session as the core would log it, and what this protocol makes of it."""

    def __init__(self) -> None:
        super().__init__()
        self._known, self._before = -1, Known()

    def live(self, first: int = 0, last: int | None = None) -> list[Frame]:
        variant = ChatVariant(self.memory(first).known)
        return [frame for entry in self.published[first:last] for frame in unframed(variant.encode(SESSION, entry))]

    def read(self, position: int, moment: int | None = None) -> list[Frame]:
        """What one who reads the log from a place is sent, at a moment."""
        reading = ChatVariant(self.memory(moment).known).reading(position)
        entries = [entry for entry in self.log(moment) if entry.seq > position]
        return [frame for entry in entries for frame in unframed(reading.encode(SESSION, entry))]

    def resumed(self, last: int, moment: int) -> list[Frame]:
        """What one who has the frame `last` is sent when it comes back."""
        position = max(last // FRAMES - 1, 0) if last else 0
        reading = ChatVariant(self.memory(moment).known, after=last).reading(position)
        entries = [entry for entry in self.log(moment) if entry.seq > position]
        return [frame for entry in entries for frame in unframed(reading.encode(SESSION, entry))]

    def history(self, moment: int | None = None) -> list[Frame]:
        """The table of rows, folded from the log as it is at a moment, with a restart after every entry."""
        table: dict[str, bytes] = {}
        fold = HistoryFold(SESSION)
        for entry in self.log(moment):
            for made in fold.step(entry):
                assert isinstance(made, Row | Replace)
                assert isinstance(made, Row) != (made.key in table), "a row once, and only what is there is replaced"
                table[made.key] = made.data
            again = HistoryFold(SESSION)
            again.restore(fold.snapshot())
            fold = again
        return [json.loads(data) for data in table.values()]

    def memory(self, moment: int | None = None) -> Memory:
        fold = HistoryFold(SESSION)
        for entry in self.log(moment):
            fold.step(entry)
        return read_memory(fold.snapshot())

    def of(self, entry: Entry) -> list[Frame]:
        """What those who are there are sent of one entry."""
        if self._known != len(self.published):
            self._known, self._before = len(self.published), self.memory().known
        return unframed(ChatVariant(copy.deepcopy(self._before)).encode(SESSION, entry))


def shown(*parts: Iterable[Frame]) -> Shown:
    """What the reference client shows of these frames."""
    client = ClaudeCodeUiClient()
    client.sessions[SESSION] = Shown()
    for part in parts:
        for frame in part:
            client.apply(frame)
    return client.sessions[SESSION]
