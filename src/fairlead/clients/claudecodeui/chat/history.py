"""A session's history: a table of its rows, each call's result on the call, and the session's current state.

The rows are those of `rows`, in the log's order. A subagent's output has no rows: its calls are attached to the call
that started it. `HistoryReducer` also remembers the facts that a new subscriber needs: whether a run is in progress
and where it began, the requests that wait for a person, and the last frame number.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fairlead.clients.claudecodeui.chat import rows
from fairlead.clients.claudecodeui.chat.frames import AFTER, RenderContext, context_tokens, request_fields
from fairlead.clients.claudecodeui.rest.project_fields import Fields
from fairlead.model import events as ev
from fairlead.model.formats.bounded_tables import drop_oldest
from fairlead.model.formats.numbered_frames import number
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry
from fairlead.model.views import Made, MemoryReducer, NewRow, ReducerProjection, ReplaceRow

NAME: Final = "claudecodeui.1"
CALLS: Final = 256
"""Maximum number of remembered open calls; many times the number that an agent has at once."""
TOOLS: Final = 200
"""Maximum number of a subagent's calls that its starting call shows: the last ones."""
CUT: Final = 2000
"""Maximum characters of a result, and bytes of an input, of a subagent's call: a preview; the log has the rest."""

_PASSED: Final = frozenset({"record", "text.delta", "thinking.delta", "input.delta", "hook.progress", "tool.progress"})
"""Frequent kinds without rows: they are not even decoded."""


class HistoryTool(msgspec.Struct):
    """A subagent's call."""

    toolId: str
    toolName: str
    toolInput: Any
    timestamp: str
    toolResult: Any = None


class HistoryCall(msgspec.Struct):
    """A call of the main thread, with its stored row. `ended`: it has its result, but its subagent still runs."""

    row: bytes
    tools: list[HistoryTool] = []
    ended: bool = False


class HistoryRequest(msgspec.Struct):
    """A request that waits for a person, in the form of `chat_subscribed`."""

    fields: Any = msgspec.field(name="told")
    at: int


class HistoryMemory(msgspec.Struct):
    session: str = ""
    """Fairlead's id of the session, whichever id the client used."""
    seq: int = 0
    """The last entry that was reduced; `at` is its time."""
    at: int = 0
    run: int = 0
    """The log position before the current run; 0 without one."""
    running: bool = False
    queued: dict[str, None] = {}
    last: int = 0
    """The number of the last frame of a run, or a number between it and the next frame."""
    pending: dict[str, HistoryRequest] = {}
    calls: dict[str, HistoryCall] = {}
    known: RenderContext = msgspec.field(default_factory=RenderContext)
    tokens: ev.TokenCount | None = None
    """The size of the context when the agent last reported it."""
    commands: tuple[str, ...] = ()
    """Slash commands that the agent reported."""

    @property
    def processing(self) -> bool:
        return self.running or bool(self.queued)


read_memory: Final = msgspec.msgpack.Decoder(HistoryMemory).decode


class HistoryReducer(MemoryReducer[HistoryMemory]):
    """Implements `model.views.Reducer`."""

    def __init__(self, session: SessionId) -> None:
        super().__init__(HistoryMemory(session))
        self._session = session

    def step(self, entry: Entry) -> Sequence[Made]:
        memory = self._memory
        before, memory.seq, memory.at = memory.seq, entry.seq, entry.at
        if entry.kind in _PASSED:
            return ()
        event = ev.decode(entry.event)
        if event.turn is not None:
            memory.last = number(entry.seq, AFTER)
        memory.known = memory.known.after(entry.seq, event)
        self._note(event, before)
        if event.subagent is not None:
            self._glimpse(event)
            return ()
        return self._made(event)

    # --- the session's current state

    def _note(self, event: ev.Event, before: int) -> None:
        memory = self._memory
        match event:
            case ev.TurnStarted():
                memory.running, memory.run = True, before
            case ev.TurnEnded():
                memory.running, memory.run = False, 0
            case ev.MessageQueued():
                memory.queued[event.message] = None
            case ev.MessageDequeued() | ev.MessageCancelled():
                memory.queued.pop(event.message, None)
            case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed():
                memory.pending[event.request] = HistoryRequest(request_fields(event), event.at)
            case ev.PermissionResolved() | ev.PermissionCancelled():
                memory.pending.pop(event.request, None)
            case ev.Text() | ev.Thinking() | ev.ToolCalled():
                memory.tokens = context_tokens(event) or memory.tokens
            case ev.AgentReady():
                memory.commands = event.commands
            case ev.SessionForked():
                # A run, message or request that is open in the parent is not open in the fork.
                memory.running, memory.run = False, 0
                memory.queued.clear()
                memory.pending.clear()
            case _:
                pass

    # --- rows

    def _made(self, event: ev.Event) -> Sequence[Made]:
        match event:
            case ev.ToolEnded():
                return self._result(event)
            case ev.SubagentEnded():
                return self._subagent_ended(event)
            case _:
                row = rows.row_of(self._session, event)
        if row is None:
            return ()
        data = rows.encoded(row)
        if isinstance(event, ev.ToolCalled):
            self._memory.calls[event.call] = HistoryCall(data)
            drop_oldest(self._memory.calls, CALLS)
        return (NewRow(data, row["id"]),)

    def _result(self, event: ev.ToolEnded) -> Sequence[Made]:
        call = self._memory.calls.get(event.call)
        if call is None:
            return ()
        call.ended = True
        row = self._with(call, {"toolResult": rows.result_fields(event)})
        if not event.background:
            del self._memory.calls[event.call]
        return (row,)

    def _subagent_ended(self, event: ev.SubagentEnded) -> Sequence[Made]:
        """Complete the row of a background subagent, whose call got its result earlier."""
        call = self._memory.calls.get(event.call)
        if call is None or not call.ended:
            return ()
        del self._memory.calls[event.call]
        return (self._with(call, {}),) if call.tools else ()

    def _with(self, call: HistoryCall, more: Fields) -> ReplaceRow:
        row: Fields = msgspec.json.decode(call.row)
        row |= more
        if call.tools:
            row["subagentTools"] = msgspec.to_builtins(call.tools)
        data = rows.encoded(row)
        call.row = data
        return ReplaceRow(row["id"], data)

    def _glimpse(self, event: ev.Event) -> None:
        """Attach a preview of a subagent's call to the call that started the subagent."""
        call = self._memory.calls.get(self._memory.known.parents.get(event.subagent or "", ""))
        if call is None:
            return
        if isinstance(event, ev.ToolCalled):
            given = event.input if len(rows.encoded(event.input)) <= CUT else {}
            call.tools.append(HistoryTool(event.call, event.name, given, iso_timestamp(event.at)))
            del call.tools[:-TOOLS]
        elif isinstance(event, ev.ToolEnded):
            for tool in call.tools:
                if tool.toolId == event.call:
                    content = rows.result_text(event.content)[:CUT]
                    tool.toolResult = {"content": content, "isError": event.is_error}


PROJECTION: Final = ReducerProjection(NAME, HistoryReducer)
