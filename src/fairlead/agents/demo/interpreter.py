"""The interpreter of the demo agent: its lines are events already. Pure; its whole state is one struct.

It adds what only the gateway knows: the turn, the deltas that a block repeats, and the end of what a process that died
left open. Our prompt opens a turn; so does the agent, when background work reports back.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from fairlead.agents.demo import wire
from fairlead.model import events as ev
from fairlead.model.agents import Interpretation, Record
from fairlead.model.content import content_block
from fairlead.model.ids import CallId, MessageId, SessionId, SubagentId, TurnId, event_id, turn_id

TASK_STARTED, TASK_ENDED = "task_started", "task_notification"
"""Notices about a command in the background; `data` names the task."""

_Whole = ev.Text | ev.Thinking | ev.ToolCalled


class DemoState(msgspec.Struct):
    """`busy`: the turn is of the main thread, not of background work alone. `marks` are the deltas of unfinished
    blocks: (seq, characters up to the delta's end). `subagents` maps each to its call; `tasks` describes what runs in the
    background. `process` and `last` name the last event that was seen."""

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


class DemoInterpreter:
    """Implements `model.agents.Interpreter`."""

    def __init__(self, session: SessionId) -> None:
        self._session = session
        self._state = DemoState()
        self._events: list[ev.Event] = []

    def step(self, record: Record) -> Interpretation:
        self._events = []
        drop: tuple[int, ...] = ()
        if record.origin == "gateway":
            self._ours(wire.decode_ours(record.raw))
            return Interpretation(tuple(self._events))
        message = wire.decode(record.raw)
        if isinstance(message, ev.EventBase):
            drop = self._theirs(message)
        elif message is None:
            self._unknown(record.raw)
        return Interpretation(tuple(self._events), drop)

    def assign_seq(self, event: ev.Event, seq: int) -> None:
        if isinstance(event, ev.Delta):
            size = len(event.json) if isinstance(event, ev.InputDelta) else len(event.text)
            self._state.marks.setdefault(_block(event), []).append((seq, event.offset + size))

    def _ours(self, message: wire.FromGateway | None) -> None:
        if isinstance(message, wire.InterruptTurn):
            self._state.cancelled = bool(self._state.turn)
        elif isinstance(message, wire.SendPrompt):
            steers = self._state.busy
            if not self._state.turn:
                self._open_turn(message.message, "prompt")
            self._state.busy = True
            content = tuple(content_block(block) for block in message.content)
            fields: dict[str, Any] = {"via": "steer"} if steers else {}
            self._emit(ev.UserMessage, message.message, message=MessageId(message.message), content=content, **fields)

    def _theirs(self, event: ev.Event) -> tuple[int, ...]:
        """Add an event, and return the deltas that it replaces."""
        state = self._state
        process, number = wire.number_of(event.id)
        if process == state.process and number <= state.last:
            return ()  # read again from the agent's file
        state.process, state.last = process, number
        if isinstance(event, ev.UserMessage) and event.via != "agent":
            return ()  # our own prompt
        if isinstance(event, ev.TurnStarted):
            if not state.turn:
                self._open_turn(process + str(number), event.trigger)
            state.busy = True
            return ()
        if event.subagent is not None and not state.turn:
            self._open_turn(process + str(number), "agent")
        drop = self._follow(event)
        if isinstance(event, _Whole) and drop:
            event = replace(event, marks=tuple(drop))
        if isinstance(event, ev.TurnEnded):
            self._end_turn(event)
        else:
            self._events.append(replace(event, turn=self.turn))
        return tuple(seq for seq, _ in drop)

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
            case _:
                pass
        return []

    def exited(self, reason: str, cause: str) -> Interpretation:
        """End everything that is open: calls, subagents, the turn."""
        self._events = []
        state = self._state
        calls, background = state.calls, state.subagents
        for call, name in calls.items():
            self._emit(ev.ToolEnded, cause, call, call=CallId(call), name=name, is_error=True, status="interrupted")
        for child, call in background.items():
            about: dict[str, Any] = {"child": SubagentId(child), "call": CallId(call), "status": "stopped"}
            self._emit(ev.SubagentEnded, cause, child, **about)
        if state.turn:
            status: ev.TurnStatus = "cancelled" if state.cancelled else "failed"
            why = "interrupted" if state.cancelled else reason
            closed = tuple(CallId(call) for call in calls)
            self._emit(ev.TurnEnded, cause, status=status, reason=why, text=state.text, closed=closed)
        self._state = DemoState()
        return Interpretation(tuple(self._events))

    # --- turns and events

    def _open_turn(self, origin: str, trigger: str) -> None:
        self._state.turn, self._state.text = turn_id(self._session, origin), ""
        self._state.cancelled = False
        self._emit(ev.TurnStarted, origin, trigger=trigger)

    def _end_turn(self, event: ev.TurnEnded) -> None:
        """The calls of the main thread end with their turn; background work goes on."""
        self._events.append(replace(event, turn=self.turn))
        self._state.turn, self._state.busy, self._state.cancelled = "", False, False

    def _emit(self, kind: type[Any], source: str, part: int | str = 0, /, **fields: Any) -> None:
        name = event_id(source, str(kind.__struct_config__.tag), part)
        self._events.append(kind(id=name, turn=self.turn, **fields))

    def _unknown(self, raw: bytes) -> None:
        """Store a line that is no event; its name is that of the last event, and a count."""
        try:
            found = msgspec.json.decode(raw)
        except msgspec.DecodeError:
            found = None
        self._state.strays += 1
        kind = str(found.get("type", "")) if isinstance(found, dict) else "garbage"
        source = f"{self._state.process}:{self._state.last}"
        self._emit(ev.RecordStored, source, self._state.strays, record=kind, known=False)

    # --- facts, and what this agent does not need

    @property
    def turn(self) -> TurnId | None:
        return TurnId(self._state.turn) if self._state.turn else None

    @property
    def busy(self) -> bool:
        return self._state.busy

    @property
    def background_work(self) -> tuple[str, ...]:
        return tuple(self._state.tasks.values())

    @property
    def deferred_count(self) -> int:
        return 0

    def end_quiet_turn(self) -> Interpretation:
        return Interpretation()

    def flush_unresolved(self, cause: str) -> Interpretation:
        return Interpretation()

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self._state)

    def restore(self, data: bytes) -> None:
        self._state = msgspec.msgpack.decode(data, type=DemoState)


def _block(event: ev.Delta | _Whole) -> str:
    return f"{event.message}/{event.block}"
