"""One step of the interpreter: the current record, the state, and the emitted events. Pure."""

from typing import Any

from fairlead.agents.acp.interpreter.state import AcpState
from fairlead.model import events as ev
from fairlead.model.agents import Interpretation
from fairlead.model.ids import SessionId, TurnId, event_id


class Step:
    """The events of one record. `cause` names them if they come from no record."""

    def __init__(self, session: SessionId, state: AcpState, raw: bytes, cause: str = "") -> None:
        self.session = session
        self.state = state
        self.raw = raw
        self.events: list[ev.Event] = []
        self.drop: list[int] = []
        turn = state.turn
        self.source = cause or (f"{state.process}-{state.steps + 1}" if turn is None else f"{turn.id}-{turn.steps + 1}")
        self._counted = turn if not cause else None
        self._outside = not cause and turn is None

    def emit(self, kind: type[Any], /, *, part: int | str = 0, **fields: Any) -> None:
        turn = self.state.turn
        name = event_id(self.source, str(kind.__struct_config__.tag), part)
        self.events.append(kind(id=name, turn=None if turn is None else TurnId(turn.id), **fields))

    def store(self, record: str, subtype: str = "", *, known: bool = True) -> None:
        """Store a record that is of interest for its bytes only."""
        self.emit(ev.RecordStored, record=record, subtype=subtype, known=known)

    def outcome(self) -> Interpretation:
        if self.events and self._counted is not None:
            self._counted.steps += 1
        elif self.events and self._outside:
            self.state.steps += 1
        return Interpretation(tuple(self.events), tuple(self.drop))
