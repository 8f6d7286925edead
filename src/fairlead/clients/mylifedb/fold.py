"""The projection: a session's records in order, one row each, and the transients between them.

Rows are the records, with their uuid as key. When the transcript delivers a record later, it replaces the wire's copy.
Stream events are transient. The state holds what a row needs from earlier rows (each thread's last record, open calls),
the pages, the running stream, and the session's current activity; all of it is small.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fairlead.clients.mylifedb import records, streaming
from fairlead.clients.mylifedb.pages import Pages
from fairlead.clients.mylifedb.records import Fields
from fairlead.clients.mylifedb.streaming import StreamState
from fairlead.model import events as ev
from fairlead.model.formats.bounded_tables import drop_oldest
from fairlead.model.formats.cli_records import cli_records, encode_record
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry, Origin
from fairlead.model.views import Made, MemoryReducer, NewRow, ReplaceRow, Transient

NAME: Final = "mylifedb.1"
"""Increment the number when the same log would give different rows."""
THREADS: Final = 256
CALLS: Final = 1024
UNCOPIED: Final = 8192
ASIDE: Final = 256
"""Limits for remembered threads, open calls, and records without a transcript row (`UNCOPIED` for the conversation,
`ASIDE` for `system` records); many times what an agent has at once."""
OURS: Final = "fairlead"
"""The type prefix of the gateway's own markers (such as for a record that was too large for the log). Not shown."""

STREAM: Final = b"s"
TASKS: Final = b"t"
STATE: Final = b"w"
"""The first byte of a transient. An encoder sends `STATE` only to clients that asked for it, the others to all."""

_WEIGHED: Final = frozenset(
    {
        "session.opened",
        "session.changed",
        "session.forked",
        "agent.started",
        "agent.exited",
        "turn.started",
        "turn.ended",
        "error",
    }
    | {"tool.called", "permission.asked", "question.asked", "plan.proposed"}
    | {"permission.resolved", "permission.cancelled", "mode.changed", "record", "subagent.started"}
)
"""Events that change the state beyond their record's bytes; the others are not even decoded."""


class MyLifeDbMemory(msgspec.Struct):
    pages: Pages = msgspec.field(default_factory=Pages)
    stream: StreamState = msgspec.field(default_factory=StreamState)
    tips: dict[str, str] = {}
    """The last record of each thread, by the call that started the thread; the main thread's key is empty."""
    calls: dict[str, str] = {}
    """The record of each open tool call: the parent of the call's result."""
    parents: dict[str, str] = {}
    """The call that started each subagent."""
    uncopied: dict[str, None] = {}
    """Records of the conversation whose transcript row has not been read yet."""
    aside: dict[str, None] = {}
    """The latest `system` records without a transcript row. Few of them are in the transcript at all, so they are kept
    apart and cannot evict entries of `uncopied`."""
    driven: bool = False
    """The gateway runs an agent process: the transcript is a copy of its output, not the source."""
    wired: bool = False
    """The agent writes to the wire: a turn ends with its `result`."""
    failed: bool = False
    """An error was raised since the last turn ended. Without an agent process: this turn could not be started."""
    turn: bool = False
    foreign: bool = False
    """The agent's records do not have the form of the CLI: rows are made from the events."""
    archived: bool = False
    pending: list[str] = []
    result: str = ""
    """The last `result` record."""
    ended: int = 0
    """The ordinal at the end of the last turn."""
    todos: Any = None
    shown_state: str = msgspec.field(default="idle", name="told")
    """The state that was last sent."""

    @property
    def state(self) -> str:
        if self.archived:
            return "archived"
        return "working" if self.turn or self.pending else "idle"


read_memory: Final = msgspec.msgpack.Decoder(MyLifeDbMemory).decode


class MyLifeDbReducer(MemoryReducer[MyLifeDbMemory]):
    """Implements `model.views.Reducer`, and `model.views.Resumable`: late subscribers get the transients since the last
    row."""

    def __init__(self, session: SessionId) -> None:
        super().__init__(MyLifeDbMemory())
        self._session = session

    def running(self, *, fresh: bool) -> Sequence[Transient]:
        memory = self._memory
        frames = memory.stream.frames()
        transients = [Transient(STATE + _state(memory.state))]
        if not fresh:
            # The client may have received part of the running stream: clear that part before sending it again.
            threads = dict.fromkeys(["", *memory.stream.open])
            frames = [*(streaming.stop(thread) for thread in threads), *frames]
            if memory.todos is not None:
                transients.append(Transient(TASKS + _todos(memory.todos)))
        return [*transients, *(Transient(STREAM + frame) for frame in frames)]

    def step(self, entry: Entry) -> Sequence[Made]:
        memory = self._memory
        made: list[Made] = []
        weighed = memory.foreign or entry.kind in _WEIGHED
        event = ev.decode(entry.event) if weighed else None
        if event is not None and memory.foreign:
            made.extend(self._foreign(event, entry))
            entry = msgspec.structs.replace(entry, raw=None)
        if isinstance(event, ev.TurnEnded):
            made.extend(self._end(event, entry))
        if entry.raw is not None:
            made.extend(self._record(entry, event))
        if event is not None:
            made.extend(self._apply(event, entry))
        for thing in made:
            if isinstance(thing, NewRow):
                memory.pages.add(len(thing.data))
                if not memory.stream.open:
                    memory.pages.seal()
        if isinstance(event, ev.TurnEnded):
            memory.ended = memory.pages.head
        if memory.state != memory.shown_state:
            memory.shown_state = memory.state
            made.append(Transient(STATE + _state(memory.state)))
        return made

    # --- records

    def _record(self, entry: Entry, event: ev.Event | None) -> Sequence[Made]:
        assert entry.raw is not None
        if entry.kind in streaming.DELTAS:
            return self._streamed(entry.raw)
        fields = records.fields_of(entry.raw)
        if fields is None:
            return ()
        kind, uuid = records.text_of(fields.get("type")), records.text_of(fields.get("uuid"))
        if kind == "stream_event":
            return self._streamed(entry.raw)
        if kind.startswith(OURS):
            return ()
        if entry.origin == "transcript":
            return self._transcript_row(entry, event, fields, kind, uuid)
        if entry.origin == "gateway":
            # Of the gateway's own lines only messages are records; the rest are markers for the interpreter.
            return (self._wire_record(entry, fields, kind, uuid),) if kind == "user" and uuid else ()
        if kind == "result":
            self._memory.result = uuid
            self._memory.wired = True
        return (self._wire_record(entry, fields, kind, uuid),)

    def _foreign(self, event: ev.Event, entry: Entry) -> Sequence[Made]:
        """Make the records of an agent that writes none of this form. Requests and results are made like those of an
        agent that died."""
        made: list[Made] = []
        if isinstance(event, ev.PermissionRequested | ev.QuestionAsked | ev.PlanProposed | ev.TurnEnded):
            return made
        for record in cli_records(event, self._session):
            raw = encode_record(record)
            if record["type"] == "stream_event":
                made.extend(self._streamed(raw))
                continue
            origin: Origin = "gateway" if isinstance(event, ev.UserMessage) else "agent"
            fields = records.fields_of(raw) or {}
            shown = msgspec.structs.replace(entry, raw=raw, origin=origin)
            made.append(self._wire_record(shown, fields, record["type"], record["uuid"]))
        return made

    def _streamed(self, raw: bytes) -> Sequence[Made]:
        memory = self._memory
        memory.stream.add(raw)
        if not memory.stream.open:
            memory.pages.seal()
        return (Transient(STREAM + records.readable(raw)),)

    def _transcript_row(
        self, entry: Entry, event: ev.Event | None, fields: Fields, kind: str, uuid: str
    ) -> Sequence[Made]:
        """Handle a transcript line, unchanged: as a new row, or in place of the wire's row. A subagent's line also gets
        the id of the call that started the subagent."""
        assert entry.raw is not None
        data = records.readable(entry.raw)
        side = records.is_true(fields.get("isSidechain")) or "agentId" in fields
        copy = event.of if isinstance(event, ev.RecordStored) else ""
        if side and not copy:
            child = (event or ev.decode(entry.event)).subagent or ""
            data = records.with_parent_call(data, fields, self._memory.parents.get(child, ""))
        if copy and copy != uuid and uuid:
            # Under a different uuid, every client that has the first record would take it for a second one.
            return ()
        for waiting in (self._memory.uncopied, self._memory.aside):
            if copy in waiting:
                del waiting[copy]
                return (ReplaceRow(uuid, data),)
        if self._memory.driven and not self._memory.turn and (kind == "progress" or (self._memory.wired and not uuid)):
            # Read after the turn's end. A progress record would make clients believe that a tool is running again, and
            # the agent's notes outside the conversation would come after the `result`, out of order.
            return ()
        if side and copy and (kind not in records.CHAINED or "parentToolUseID" not in fields):
            # Read after the turn's end, it would come after that end, and as if it belonged to the main thread.
            return ()
        if not side:
            if kind == "assistant":
                self._memory.stream.clear("")
            if uuid:
                self._chain("", uuid)
        return (NewRow(data, uuid),)

    def _wire_record(self, entry: Entry, fields: Fields, kind: str, uuid: str) -> NewRow:
        """Make the row of a wire record, or of a prompt sent by the gateway, with its position in its thread."""
        memory = self._memory
        if not uuid:
            return NewRow(records.readable(entry.raw or b""))
        thread = records.text_of(fields.get("parent_tool_use_id"))
        parent = memory.tips.get(thread)
        blocks = records.blocks_of(fields) if kind in records.CHAINED else []
        for call in records.block_ids(blocks, "tool_result", "tool_use_id"):
            parent = memory.calls.pop(call, parent)
        for call in records.block_ids(blocks, "tool_use", "id"):
            memory.calls[call] = uuid
            drop_oldest(memory.calls, CALLS)
        if kind == "assistant":
            memory.stream.clear(thread)
        at, session = entry.at, self._session
        if kind == "system" and records.text_of(fields.get("subtype")) == "compact_boundary":
            # A new root, as in the transcript: it is the parent of the records after it.
            data = records.complete_wire_record(
                {**fields, "logicalParentUuid": fields.get("logicalParentUuid", records.raw(parent))},
                parent=None,
                at=at,
                session=session,
            )
            self._chain(thread, uuid)
        elif entry.origin == "gateway":
            data = records.prompt(fields, parent=parent, at=at, session=session)
            self._chain(thread, uuid)
        else:
            data = records.complete_wire_record(fields, parent=parent, at=at, session=session)
            if kind in records.CHAINED:
                self._chain(thread, uuid)
        if kind in records.CHAINED:
            memory.uncopied[uuid] = None
            drop_oldest(memory.uncopied, UNCOPIED)
        elif kind == "system":
            memory.aside[uuid] = None
            drop_oldest(memory.aside, ASIDE)
        return NewRow(data, uuid)

    def _chain(self, thread: str, uuid: str) -> None:
        tips = self._memory.tips
        if thread:
            tips.pop(thread, None)
        tips[thread] = uuid
        drop_oldest(tips, THREADS, keep="")

    # --- events

    def _end(self, event: ev.TurnEnded, entry: Entry) -> Sequence[Made]:
        """End the stream and the turn. If the gateway ran the turn and the agent wrote no `result`, make one."""
        memory = self._memory
        made: list[Made] = [Transient(STREAM + frame) for frame in memory.stream.end()]
        own = entry.raw is not None and records.text_of((records.fields_of(entry.raw) or {}).get("type")) == "result"
        has_result = own or (bool(memory.result) and event.id.split("/", 1)[0] == memory.result)
        if not has_result and (memory.driven or memory.failed):
            data = records.result_record(event, at=entry.at, session=self._session)
            made.append(NewRow(data, records.record_uuid(event.id)))
        memory.turn = memory.failed = False
        return made

    def _apply(self, event: ev.Event, entry: Entry) -> Sequence[Made]:
        memory = self._memory
        match event:
            case ev.SessionOpened():
                memory.foreign = event.foreign
            case ev.TurnStarted():
                memory.turn = True
            case ev.AgentStarted():
                memory.driven, memory.wired = True, False
            case ev.SubagentStarted():
                memory.parents[event.child] = event.call
                drop_oldest(memory.parents, THREADS)
            case ev.AgentExited():
                memory.driven = False
                return [Transient(STREAM + frame) for frame in memory.stream.end()]
            case ev.ErrorRaised():
                memory.failed = True
            case ev.SessionChanged(archived=archived) if archived is not None:
                memory.archived = archived
            case ev.SessionForked():
                # Turns and requests in progress in the parent session are not in progress in the fork.
                gone, memory.pending = memory.pending, []
                memory.turn = memory.driven = memory.archived = False
                return [NewRow(records.cancel_record(request)) for request in gone]
            case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed():
                memory.pending.append(event.request)
                return () if entry.raw is not None else (NewRow(records.request_record(event)),)
            case ev.PermissionResolved(asked=True):
                self._settle(event.request)
                return (NewRow(records.response_record(event)),)
            case ev.PermissionCancelled():
                self._settle(event.request)
                return (NewRow(records.cancel_record(event.request)),)
            case ev.ModeChanged():
                return (NewRow(records.mode_record(event)),)
            case ev.ToolCalled(name="TodoWrite", subagent=None):
                return self._todo(event.input.get("todos"))
            case _:
                pass
        return ()

    def _settle(self, request: str) -> None:
        self._memory.pending = [other for other in self._memory.pending if other != request]

    def _todo(self, todos: Any) -> Sequence[Made]:
        if not isinstance(todos, list) or todos == self._memory.todos:
            return ()
        self._memory.todos = todos
        return (Transient(TASKS + _todos(todos)),)


def _state(state: str) -> bytes:
    return records.encode({"type": "session_state", "state": state})


def _todos(todos: Any) -> bytes:
    return records.encode({"type": "todo_update", "data": {"todos": todos}})
