"""The interpreter of the demo agent: its lines are events already. Pure; its whole state is one struct.

It adds what only the gateway knows: turns (opened by our prompt or by background work that reports back), the deltas
that a block repeats, and the end of what a process that died left open.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from fairlead.agents.demo.wire import DemoMessage, decode, number_of
from fairlead.agents.plain_interpreter import PlainInterpreter
from fairlead.model import events as ev
from fairlead.model.agents import Interpretation, Record
from fairlead.model.content import content_block
from fairlead.model.ids import CallId, MessageId, SessionId, SubagentId, TurnId, event_id, turn_id

_Whole = ev.Text | ev.Thinking | ev.ToolCalled


class DemoState(msgspec.Struct):
    """`busy`: the turn is of the main thread, not of background work alone. `marks` are the deltas of unfinished
    blocks: (seq, characters up to the delta's end). `subagents` maps each to its call; `tasks` describes background
    work. `process` and `last` name the last event seen, also of an exited process: the session's file may still end
    with it. `strays` counts lines that are no event."""

    turn: str = ""
    busy: bool = False
    cancelled: bool = False
    text: str = ""
    marks: dict[str, list[tuple[int, int]]] = {}
    calls: dict[str, str] = {}
    subagents: dict[str, str] = {}
    tasks: dict[str, str] = {}
    process: str = ""
    last: int = 0
    strays: int = 0


class DemoInterpreter(PlainInterpreter[DemoState]):
    """Implements `model.agents.Interpreter`."""

    def __init__(self, session: SessionId) -> None:
        super().__init__(session, DemoState())
        self._events: list[ev.Event] = []

    def step(self, record: Record) -> Interpretation:
        self._events = []
        drop: tuple[int, ...] = ()
        if isinstance(message := decode(record.raw), DemoMessage) and record.origin == "gateway":
            self._ours(message)
        elif message is None or isinstance(message, DemoMessage):
            self._state.strays += 1
            source = f"{self._state.process}:{self._state.last}"
            self._emit(ev.RecordStored, source, self._state.strays, record="unknown", known=False)
        else:
            drop = self._theirs(message)
        return Interpretation(tuple(self._events), drop)

    def assign_seq(self, event: ev.Event, seq: int) -> None:
        if isinstance(event, ev.Delta):
            size = len(event.json) if isinstance(event, ev.InputDelta) else len(event.text)
            self._state.marks.setdefault(_block(event), []).append((seq, event.offset + size))

    def _ours(self, message: DemoMessage) -> None:
        state = self._state
        if message.do == "interrupt":
            state.cancelled = bool(state.turn)
        elif message.do == "prompt":
            fields: dict[str, Any] = {"via": "steer"} if state.busy else {}
            name = message.data["message"]
            if not state.turn:
                self._open_turn(name, "prompt")
            state.busy = True
            content = tuple(content_block(block) for block in message.data["content"])
            self._emit(ev.UserMessage, name, message=MessageId(name), content=content, **fields)

    def _theirs(self, event: ev.Event) -> tuple[int, ...]:
        """Add an event, and return the deltas that it replaces."""
        state = self._state
        process, number = number_of(event.id)
        if process == state.process and number <= state.last:
            return ()  # read again from the agent's file
        state.process, state.last = process, number
        if isinstance(event, ev.UserMessage) and event.via != "agent":
            return ()  # our own prompt
        if isinstance(event, ev.UserMessage):
            event = replace(event, by="")
        started = isinstance(event, ev.TurnStarted)
        if not state.turn and (started or event.subagent is not None):
            by_prompt = isinstance(event, ev.TurnStarted) and event.trigger == "prompt"
            self._open_turn(f"{process}:{number}", "prompt" if by_prompt else "agent")
        state.busy = state.busy or started
        if started:
            return ()
        marks = self._follow(event)
        if isinstance(event, _Whole) and marks:
            event = replace(event, marks=tuple(marks))
        self._events.append(replace(event, turn=self.turn))
        if isinstance(event, ev.TurnEnded):
            state.turn, state.busy, state.cancelled = "", False, False
        return tuple(seq for seq, _ in marks)

    def _follow(self, event: ev.Event) -> list[tuple[int, int]]:
        """Keep track of what is open; return the marks of the block that this event completes."""
        state = self._state
        match event:
            case ev.InputDelta():
                state.calls[event.call] = event.name
            case ev.Text() | ev.Thinking() | ev.ToolCalled():
                if isinstance(event, ev.ToolCalled):
                    state.calls[event.call] = event.name
                elif isinstance(event, ev.Text) and event.subagent is None:
                    state.text = event.text
                return state.marks.pop(_block(event), [])
            case ev.ToolEnded():
                state.calls.pop(event.call, None)
            case ev.SubagentStarted():
                state.subagents[event.child] = event.call
                if event.background:
                    state.tasks[event.child] = event.title
            case ev.SubagentEnded():
                state.subagents.pop(event.child, None)
                state.tasks.pop(event.child, None)
            case ev.Notice(kind="task_started"):
                state.tasks[str(event.data.get("task"))] = event.text
            case ev.Notice(kind="task_notification"):
                state.tasks.pop(str(event.data.get("task")), None)
        return []

    def exited(self, reason: str, cause: str) -> Interpretation:
        self._events, state = [], self._state
        for call, name in state.calls.items():
            self._emit(ev.ToolEnded, cause, call, call=CallId(call), name=name, is_error=True, status="interrupted")
        for child, call in state.subagents.items():
            self._emit(ev.SubagentEnded, cause, child, child=SubagentId(child), call=CallId(call), status="stopped")
        if state.turn:
            ended = ("cancelled", "interrupted") if state.cancelled else ("failed", reason)
            closed = tuple(CallId(call) for call in state.calls)
            self._emit(ev.TurnEnded, cause, status=ended[0], reason=ended[1], text=state.text, closed=closed)
        self._state = DemoState(process=state.process, last=state.last)
        return Interpretation(tuple(self._events))

    def _open_turn(self, origin: str, trigger: str) -> None:
        self._state.turn, self._state.text = turn_id(self._session, origin), ""
        self._emit(ev.TurnStarted, origin, trigger=trigger)

    def _emit(self, kind: type[Any], source: str, part: int | str = 0, /, **fields: Any) -> None:
        name = event_id(source, str(kind.__struct_config__.tag), part)
        self._events.append(kind(id=name, turn=self.turn, **fields))

    @property
    def turn(self) -> TurnId | None:
        return TurnId(self._state.turn) if self._state.turn else None

    @property
    def busy(self) -> bool:
        return self._state.busy

    @property
    def background_work(self) -> tuple[str, ...]:
        return tuple(self._state.tasks.values())


def _block(event: ev.Delta | _Whole) -> str:
    return f"{event.message}/{event.block}"
