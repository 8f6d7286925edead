"""Cognova's chat without a server: turns inputs into the frames for peers, live, resumed and as stored messages.

The input is a log of a golden case (`golden/cases.py`), or inputs of the interpreter (see golden_claude).
"""

import json
from collections.abc import Iterable
from typing import Any, Self

from agents.claude.golden_claude import Input, feed
from fairlead.agents.claude.interpreter.interpreter import ClaudeInterpreter
from fairlead.clients.cognova.chat_frames import ENCODER
from fairlead.clients.cognova.history import MessageCount, MessageReducer, MessageRenderer, decode_count
from fairlead.model.formats.numbered_frames import FRAMES
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry
from fairlead.sessions.log import PendingEntries
from fairlead_testing.cognova_client import CognovaClient, Shown
from fairlead_testing.replay import RecordedLog, unframed

SESSION = SessionId("11111111-1111-4111-8111-111111111111")
BEGIN = 1_771_416_000_000
"""2026-02-18T12:00:00.000Z"""

Frame = dict[str, Any]


def frames_of(data: bytes) -> list[Frame]:
    return [json.loads(payload) for payload in unframed(data)]


class ChatRecorder:
    """One session as the core would log it. `published` is every entry; `gone` maps a dropped entry to the number of
    published entries after which it left the log."""

    def __init__(self) -> None:
        self.interpreter = ClaudeInterpreter(SESSION)
        self.published: list[Entry] = []
        self.gone: dict[int, int] = {}
        self._head = self._at = 0

    def run(self, inputs: Iterable[Input]) -> Self:
        for given in inputs:
            self.add(given)
        return self

    def replay(self, log: RecordedLog) -> Self:
        """Take a whole log, as the golden cases have it."""
        self.published, self.gone = list(log.entries), dict(log.gone)
        return self

    def add(self, given: Input) -> None:
        stage = PendingEntries(self._head, self._at or BEGIN - 1, self._at + 1000 if self._at else BEGIN)
        outcome = feed(self.interpreter, given, len(self.published))
        for event in outcome.events:
            placed, entry = stage.add(event)
            self.interpreter.assign_seq(placed, entry.seq)
        self._head, self._at = stage.seq, stage.at
        for new in stage.entries:
            prev = self.published[-1].seq if self.published else 0
            self.published.append(Entry(new.seq, prev, new.at, new.kind, new.event))
        for seq in outcome.drop:
            self.gone.setdefault(seq, len(self.published))

    def log(self, moment: int | None = None) -> list[Entry]:
        """The entries of the log after `moment` published entries."""
        moment = len(self.published) if moment is None else moment
        return [entry for entry in self.published[:moment] if self.gone.get(entry.seq, moment + 1) > moment]

    def live(self, first: int = 0, last: int | None = None) -> list[Frame]:
        """The frames for a connected peer of the published entries from `first` to `last`."""
        return [frame for entry in self.published[first:last] for frame in frames_of(ENCODER.encode(SESSION, entry))]

    def read(self, position: int, moment: int | None = None, last: int = 0) -> list[Frame]:
        """The frames for a peer that reads the log from `position`, after `moment` published entries."""
        reading = ENCODER.catch_up(position, last)
        entries = [entry for entry in self.log(moment) if entry.seq > position]
        return [frame for entry in entries for frame in frames_of(reading.encode(SESSION, entry))]

    def resumed(self, last: int, moment: int) -> list[Frame]:
        """The frames for a peer that returns and already has the frame `last`: the rest of its entry, then the log."""
        return self.read(max(last // FRAMES - 1, 0), moment, last)

    def messages(self, moment: int | None = None) -> Frame:
        """The conversation as REST returns it."""
        renderer = MessageRenderer(SESSION, {"id": SESSION})
        data = renderer.begin() + b"".join(renderer.entry(entry) for entry in self.log(moment)) + renderer.end()
        conversation: Frame = json.loads(data)["data"]
        return conversation

    def counted(self, moment: int | None = None) -> MessageCount:
        fold = MessageReducer()
        for entry in self.log(moment):
            assert fold.step(entry) == ()
            again = MessageReducer()
            again.restore(fold.snapshot())
            fold = again
        return decode_count(fold.snapshot())


def shown(*parts: Iterable[Frame]) -> Shown:
    """The conversation as the reference client shows it after these frames."""
    client = CognovaClient()
    client.apply({"type": "chat:session_created", "conversationId": SESSION})
    for part in parts:
        for frame in part:
            client.apply(frame)
    return client.conversations[SESSION]
