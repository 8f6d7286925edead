"""The interpreter: turns the program's messages into events. Pure; its whole state is one struct.

Our prompt opens a turn, the program's `done` ends it. The program's messages have no ids: an event is named by its turn
and the number of its message in the turn.
"""

from typing import Any

import msgspec

from fairlead.agents.plain_interpreter import PlainInterpreter
from fairlead.model import events as ev
from fairlead.model.agents import Interpretation, Record
from fairlead.model.content import TextBlock
from fairlead.model.ids import CallId, MessageId, RequestId, SessionId, TurnId, event_id, turn_id
from runbook import wire

TOOL = "Bash"
"""The name of the tool in rules: a rule for `Bash` holds for this agent too."""


class State(msgspec.Struct):
    """`text` is the block that is being written, `marks` are its deltas: (seq, characters up to the delta's end)."""

    turn: str = ""
    steps: int = 0
    blocks: int = 0
    text: str = ""
    marks: list[tuple[int, int]] = []
    calls: dict[str, str] = {}
    cancelled: bool = False


class RunbookInterpreter(PlainInterpreter[State]):
    """Implements `model.agents.Interpreter`."""

    def __init__(self, session: SessionId) -> None:
        super().__init__(session, State())
        self._events: list[ev.Event] = []
        self._drop: list[int] = []
        self._source = ""

    def step(self, record: Record) -> Interpretation:
        self._begin("")
        if record.origin == "gateway":
            self._ours(wire.decode_ours(record.raw))
        else:
            self._theirs(wire.decode(record.raw))
        return self._outcome()

    def _ours(self, message: wire.FromGateway) -> None:
        match message:
            case wire.Prompt():
                self._state = State(turn=turn_id(self._session, message.id))
                self._source = message.id
                self._emit(ev.TurnStarted)
                self._emit(ev.UserMessage, message=MessageId(message.id), content=(TextBlock(message.text),))
            case wire.Cancel():
                self._state.cancelled = True
            case _:
                pass

    def _theirs(self, message: wire.FromProgram | None) -> None:
        state = self._state
        match message:
            case wire.Hello():
                self._source = message.id
                self._emit(ev.AgentReady, agent_session=message.session, version=message.version, tools=(TOOL,))
            case wire.Text() if state.turn:
                where: dict[str, Any] = {"message": self._message, "block": state.blocks}
                self._emit(ev.TextDelta, offset=len(state.text), text=message.text, **where)
                state.text += message.text
            case wire.Command() if state.turn:
                self._end_block()
                call, given = CallId(message.id), {"command": message.command}
                state.calls[message.id] = message.command
                self._emit(ev.ToolCalled, call=call, name=TOOL, input=given, message=self._message, block=state.blocks)
                state.blocks += 1
                self._emit(ev.PermissionRequested, request=RequestId(call), call=call, tool=TOOL, input=given)
            case wire.Result() if message.id in state.calls:
                del state.calls[message.id]
                status = "failed" if message.failed else "done"
                fields: dict[str, Any] = {"content": message.output, "is_error": message.failed, "status": status}
                self._emit(ev.ToolEnded, call=CallId(message.id), name=TOOL, **fields)
            case wire.Done() if state.turn:
                self._end_turn(message.status, "interrupted" if message.status == "cancelled" else "")
            case _:
                self._emit(ev.RecordStored, record="other", known=False)

    def exited(self, reason: str, cause: str) -> Interpretation:
        self._begin(cause)
        if self._state.turn:
            cancelled = self._state.cancelled
            self._end_turn("cancelled" if cancelled else "failed", "interrupted" if cancelled else reason)
        return self._outcome()

    def assign_seq(self, event: ev.Event, seq: int) -> None:
        if isinstance(event, ev.TextDelta) and event.block == self._state.blocks:
            self._state.marks.append((seq, event.offset + len(event.text)))

    # --- events

    def _begin(self, cause: str) -> None:
        self._events, self._drop = [], []
        self._source = cause or f"{self._state.turn}-{self._state.steps + 1}"

    def _emit(self, kind: type[Any], **fields: Any) -> None:
        turn = TurnId(self._state.turn) if self._state.turn else None
        name = event_id(self._source, str(kind.__struct_config__.tag))
        self._events.append(kind(id=name, turn=turn, **fields))

    def _outcome(self) -> Interpretation:
        self._state.steps += 1
        return Interpretation(tuple(self._events), tuple(self._drop))

    @property
    def _message(self) -> MessageId:
        return MessageId(f"{self._state.turn}.0")

    def _end_block(self) -> None:
        """The whole block follows its deltas, which leave the log."""
        state = self._state
        if state.text:
            self._drop.extend(seq for seq, _ in state.marks)
            where: dict[str, Any] = {"message": self._message, "block": state.blocks}
            self._emit(ev.Text, text=state.text, marks=tuple(state.marks), **where)
            state.text, state.marks = "", []
            state.blocks += 1

    def _end_turn(self, status: ev.TurnStatus, reason: str) -> None:
        text = self._state.text
        self._end_block()
        for call in self._state.calls:
            self._emit(ev.ToolEnded, call=CallId(call), name=TOOL, is_error=True, status="interrupted")
        closed = tuple(CallId(call) for call in self._state.calls)
        self._emit(ev.TurnEnded, status=status, reason=reason, text=text, closed=closed)
        self._state = State()

    @property
    def turn(self) -> TurnId | None:
        return TurnId(self._state.turn) if self._state.turn else None

    @property
    def busy(self) -> bool:
        return bool(self._state.turn)
