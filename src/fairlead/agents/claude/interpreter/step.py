"""One step of the interpreter: the current record, the state, and the emitted events. It interprets nothing itself."""

from collections.abc import Callable
from typing import Any

from fairlead.agents.claude.interpreter.state import CALLS_SEEN, DeferredRecord, InterpreterState, MessageStream
from fairlead.agents.claude.interpreter.subagent_ids import subagent_id
from fairlead.agents.claude.versions import Abilities, parse_version
from fairlead.model.agents import Interpretation, Record
from fairlead.model.events import Delta, Event, RecordStored, ToolEnded, ToolProgress
from fairlead.model.ids import CallId, SessionId, TurnId, event_id
from fairlead.model.store import Origin

Replay = Callable[["Step", DeferredRecord, str], None]
"""Interpret a deferred record in its thread, which is now known."""


class Step:
    """`source` names the record in the ids of its events; `anonymous`: the record has no id, so its name was derived
    from its bytes."""

    def __init__(
        self, session: SessionId, state: InterpreterState, source: str, record: Record, replay: Replay, anonymous: bool
    ) -> None:
        self.session = session
        self.state = state
        self.source = source
        self.origin: Origin = record.origin
        self.raw = record.raw
        self.replay = replay
        self.anonymous = anonymous
        self.released = False
        """A deferred record is being replayed: it was stored when it arrived, so it is not stored again."""
        self.releasing: list[tuple[str, str]] = []
        """Keys of deferred records that are being replayed, each with its thread."""
        self.events: list[Event] = []
        self.drop: list[int] = []

    def emit(self, kind: type[Any], /, *, part: int | str = 0, thread: str = "", **fields: Any) -> None:
        """Emit an event. `part` distinguishes the ids of several events of one kind from one record."""
        self.events.append(
            kind(
                id=event_id(self.source, str(kind.__struct_config__.tag), part),
                turn=self._turn(thread),
                subagent=subagent_id(thread) if thread else None,
                **fields,
            )
        )

    def _turn(self, thread: str) -> TurnId | None:
        """The open turn; for a subagent's transcript rows the turn of its call, since its file may be read later."""
        began = self.state.began.get(thread) if thread and self.origin == "transcript" else None
        if began is not None:
            return TurnId(began)
        return None if self.state.turn is None else TurnId(self.state.turn.id)

    @property
    def abilities(self) -> Abilities | None:
        """The abilities of the agent's version; None while the version is not known."""
        version = parse_version(str(self.state.ready.get("version", "")))
        return None if version is None else Abilities(version)

    def emit_progress(self, call: str, elapsed_s: float, note: str) -> None:
        """Emit the progress of a call, in the thread that made it."""
        known, subagent = self.state.calls.get(call), self.state.subagents.get(call)
        thread = known.thread if known is not None else subagent.thread if subagent is not None else ""
        name = "" if known is None else known.name
        self.emit(ToolProgress, thread=thread, call=CallId(call), name=name, elapsed_s=elapsed_s, note=note)

    def store_record(
        self, record: str, subtype: str = "", *, known: bool = True, part: int | str = 0, thread: str = ""
    ) -> None:
        """Store a record that is of interest for its bytes only."""
        if not self.released:
            self.emit(RecordStored, record=record, subtype=subtype, known=known, part=part, thread=thread)

    def store_if_silent(self, record: str, subtype: str) -> None:
        if not self.events:
            self.store_record(record, subtype)

    def outcome(self) -> Interpretation:
        """The step's events. Records of ended streams are dropped with the next event that is not a stream event."""
        over = [thread for thread, stream in self.state.streams.items() if stream.over]
        if over and not all(map(_of_stream, self.events)):
            for thread in over:
                self.end_stream(thread)
        return Interpretation(tuple(self.events), tuple(self.drop))

    def end_stream(self, thread: str) -> None:
        """Close a thread's stream. Its stored records leave the log, unless a block was streamed but never came whole:
        its deltas stay, and so do the records around them."""
        stream = self.state.streams.pop(thread, None)
        if stream is None:
            return
        self.end_unfinished_calls(thread, stream)
        if all(piece.emitted or not piece.marks for piece in stream.pieces.values()):
            self.drop.extend(stream.kept)

    def end_unfinished_calls(self, thread: str, stream: MessageStream) -> None:
        """End the calls that the model began to write and will never make: clients have received their deltas."""
        state = self.state
        for piece in stream.pieces.values():
            begun = piece.kind == "tool_use" and piece.length > 0 and not piece.emitted
            if begun and piece.call not in state.calls and piece.call not in state.ended:
                self.interrupt_call(piece.call, piece.name, thread)

    def interrupt_call(self, call: str, name: str, thread: str, *, background: bool = False) -> None:
        self.state.ended.add(call, CALLS_SEEN)
        fields: dict[str, Any] = {"is_error": True, "status": "interrupted", "background": background}
        self.emit(ToolEnded, part=call, thread=thread, call=CallId(call), name=name, **fields)


def _of_stream(event: Event) -> bool:
    return isinstance(event, Delta) or (isinstance(event, RecordStored) and event.record == "stream_event")
