"""The MyLifeDB view without a server: inputs in; frames for its clients out, live and as history.

An input is one of the interpreter's (`agent`, `gateway`, `transcript`, `interrupt`, `exit`; see golden_claude), or
`{"event": {...}}` for an event that the core emits without a record, or `{"copy": row}` for a transcript row that a
driven session stores in addition to its wire records.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from agents.claude.golden_claude import Input, feed, raw
from fairlead.agents.claude.interpreter.interpreter import ClaudeInterpreter
from fairlead.agents.claude.wire.markers import InterruptMarker, encode_marker
from fairlead.clients.mylifedb.fold import MyLifeDbReducer
from fairlead.clients.mylifedb.variants import MyLifeDbEncoder
from fairlead.model import events as ev
from fairlead.model.ids import EventId, SessionId
from fairlead.model.store import Entry, Origin, ProjectionRow
from fairlead.model.views import NewRow, ReplaceRow, Transient, row_entry, transient_entry
from fairlead.sessions.log import PendingEntries
from fairlead_testing.replay import RecordedLog, unframed

SESSION = SessionId("11111111-1111-4111-8111-111111111111")
BEGIN = 1_768_797_915_012
"""2026-01-19T04:45:15.012Z: the first timestamp in the seed."""

Frame = dict[str, Any]


class ViewRecorder:
    """One session as the core would log it and the view would show it."""

    def __init__(self, variant: MyLifeDbEncoder | None = None) -> None:
        self.variant = variant or MyLifeDbEncoder(state=True)
        self.fold = MyLifeDbReducer(SESSION)
        self.interpreter = ClaudeInterpreter(SESSION)
        self.entries: list[Entry] = []
        self.gone: dict[int, int] = {}
        """For each seq that was dropped from the log, the number of entries at that time."""
        self.rows: list[ProjectionRow] = []
        self.sent: list[tuple[int, bytes]] = []
        """Frames for a client that was always connected: (rows up to and including it, the frame's payload)."""
        self.places: list[tuple[int, int, bytes]] = []
        """After each entry: number of rows, number of frames, and the reducer's memory."""
        self._head = self._at = 0

    def run(self, inputs: Iterable[Input]) -> "ViewRecorder":
        for given in inputs:
            self.add(given)
        return self

    def replay(self, log: RecordedLog) -> "ViewRecorder":
        """Take a whole log, as the golden cases have it."""
        for entry in log.entries:
            self.log(entry)
        self.gone = dict(log.gone)
        return self

    def add(self, given: Input) -> None:
        stage = PendingEntries(self._head, self._at or BEGIN - 1, self._at + 1000 if self._at else BEGIN)
        drop: tuple[int, ...] = ()
        if "event" in given:
            stage.add(msgspec.convert(given["event"], ev.Event))
        elif "copy" in given:
            row = given["copy"]
            name = str(row.get("uuid", f"row-{len(self.entries)}"))
            kept = ev.RecordStored(id=EventId(f"{name}/copy/record"), record=row["type"], of=given.get("of", name))
            stage.add(kept, "transcript", raw(row))
        else:
            outcome = feed(self.interpreter, given, len(self.entries))
            ((kind, what),) = given.items()
            bytes_ = (
                None
                if kind == "exit"
                else encode_marker(InterruptMarker(cause=what))
                if kind == "interrupt"
                else raw(what)
            )
            origin: Origin = (
                "gateway" if kind == "interrupt" else "" if kind == "exit" else msgspec.convert(kind, Origin)
            )
            for event in outcome.events:
                placed, entry = stage.add(event, origin if bytes_ is not None else "", bytes_)
                self.interpreter.assign_seq(placed, entry.seq)
                bytes_ = None
            drop = outcome.drop
        self._head, self._at = stage.seq, stage.at
        for new in stage.entries:
            prev = self.entries[-1].seq if self.entries else 0
            self.log(Entry(new.seq, prev, new.at, new.kind, new.event, new.origin, new.raw))
        for seq in drop:
            self.gone.setdefault(seq, len(self.entries))

    def log(self, entry: Entry) -> None:
        self.entries.append(entry)
        for made in self.fold.step(entry):
            match made:
                case NewRow():
                    row = ProjectionRow(len(self.rows) + 1, entry.seq, entry.at, made.data, made.key)
                    self.rows.append(row)
                    self._send(row_entry(row))
                case ReplaceRow():
                    place = next((n for n, row in enumerate(self.rows) if row.key == made.key), None)
                    if place is not None:
                        self.rows[place] = msgspec.structs.replace(self.rows[place], data=made.data)
                case Transient():
                    self._send(transient_entry(len(self.rows), entry.at, made.data))
        self.places.append((len(self.rows), len(self.sent), self.fold.snapshot()))

    def _send(self, entry: Entry) -> None:
        for payload in unframed(self.variant.encode(SESSION, entry)):
            self.sent.append((entry.seq, payload))

    # --- frames that clients receive

    def live(self) -> list[Frame]:
        """Every frame sent to a client that was always connected."""
        return [self._read(payload) for _, payload in self.sent]

    def history(self) -> list[Frame]:
        """The frames that a client receives first when it connects now."""
        return [frame for row in self.rows for frame in self._shown(row_entry(row))]

    def resumed(self, after: int, place: int, *, fresh: bool = True) -> list[Frame]:
        """Rows after an ordinal, for a client that is level after `place` entries, and the running message then."""
        rows, _, memory = self.places[place - 1] if place else (0, 0, MyLifeDbReducer(SESSION).snapshot())
        fold = MyLifeDbReducer(SESSION)
        fold.restore(memory)
        frames = [frame for row in self.rows[after:rows] for frame in self._shown(row_entry(row))]
        for passing in fold.running(fresh=fresh):
            frames += self._shown(transient_entry(rows, 0, passing.data))
        return frames

    def _shown(self, entry: Entry) -> list[Frame]:
        return [self._read(payload) for payload in unframed(self.variant.encode(SESSION, entry))]

    def _read(self, payload: bytes) -> Frame:
        found: Frame = (msgspec.msgpack if self.variant.packed else msgspec.json).decode(payload)
        return found
