"""claudecodeui's chat without a server: turns inputs into the frames for sockets, live, resumed and as history.

The inputs are those of `clients.cognova.chat_offline`."""

import json
from collections.abc import Iterable
from typing import Any

from clients.cognova.chat_offline import SESSION, frames_of
from clients.cognova.chat_offline import ChatRecorder as Recorder
from fairlead.clients.claudecodeui.chat.frames import ChatEncoder, RenderContext
from fairlead.clients.claudecodeui.chat.history import HistoryMemory, HistoryReducer, read_memory
from fairlead.model.gateway import Contextual
from fairlead.model.store import Entry
from fairlead.model.views import NewRow, ReplaceRow
from fairlead_testing.claudecodeui_client import ClaudeCodeUiClient, Shown

Frame = dict[str, Any]


def stepped(encoder: Contextual, context: RenderContext, entries: Iterable[Entry]) -> list[Frame]:
    frames: list[Frame] = []
    for entry in entries:
        context, data = encoder.step(context, SESSION, entry)
        frames += frames_of(data)
    return frames


class ChatRecorder(Recorder):
    """One session as the core would log it, and the frames and rows that this protocol derives from it."""

    def __init__(self) -> None:
        super().__init__()
        self._known, self._before = -1, RenderContext()

    def live(self, first: int = 0, last: int | None = None) -> list[Frame]:
        return stepped(ChatEncoder(), self.memory(first).known, self.published[first:last])

    def read(self, position: int, moment: int | None = None, last: int = 0) -> list[Frame]:
        reading = ChatEncoder().catch_up(position, last)
        entries = [entry for entry in self.log(moment) if entry.seq > position]
        return stepped(reading, self.memory(moment).known, entries)

    def history(self, moment: int | None = None) -> list[Frame]:
        """The table of rows, reduced from the log after `moment` entries, with a restart after every entry."""
        table: dict[str, bytes] = {}
        fold = HistoryReducer(SESSION)
        for entry in self.log(moment):
            for made in fold.step(entry):
                assert isinstance(made, NewRow | ReplaceRow)
                assert isinstance(made, NewRow) != (made.key in table), "a row once, and only what is there is replaced"
                table[made.key] = made.data
            again = HistoryReducer(SESSION)
            again.restore(fold.snapshot())
            fold = again
        return [json.loads(data) for data in table.values()]

    def memory(self, moment: int | None = None) -> HistoryMemory:
        fold = HistoryReducer(SESSION)
        for entry in self.log(moment):
            fold.step(entry)
        return read_memory(fold.snapshot())

    def of(self, entry: Entry) -> list[Frame]:
        """The frames of one entry for the connected clients."""
        if self._known != len(self.published):
            self._known, self._before = len(self.published), self.memory().known
        return stepped(ChatEncoder(), self._before, [entry])


def shown(*parts: Iterable[Frame]) -> Shown:
    """The session as the reference client shows it after these frames."""
    client = ClaudeCodeUiClient()
    client.sessions[SESSION] = Shown()
    for part in parts:
        for frame in part:
            client.apply(frame)
    return client.sessions[SESSION]
