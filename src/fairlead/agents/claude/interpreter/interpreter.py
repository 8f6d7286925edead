"""The interpreter: turns Claude's records into events. Pure; its entire state is one `InterpreterState`.

This module identifies a record (was it seen before, to which thread does it belong) and dispatches it to the module
that handles it: `assistant` (the agent's output), `user` (user records), `subagents` and `tasks` (calls and the
subagents that make them), `system` (the other records), `turns` (the table of turn phases).
"""

import hashlib
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from fairlead.agents.claude.interpreter import (
    assistant,
    costs,
    deferred,
    subagents,
    system,
    tasks,
    terminal_prompts,
    turns,
    user,
)
from fairlead.agents.claude.interpreter.state import RECORDS_SEEN, STREAMED_SEEN, DeferredRecord, InterpreterState
from fairlead.agents.claude.interpreter.step import Step
from fairlead.agents.claude.interpreter.turns import TurnEnding, TurnPhase, TurnSignal
from fairlead.agents.claude.wire import markers
from fairlead.agents.claude.wire import records as wire
from fairlead.agents.claude.wire.decode import decode, decode_row
from fairlead.agents.claude.wire.records import AssistantRecord, StreamRecord, UserRecord, WireRecord
from fairlead.model.agents import Interpretation, Record
from fairlead.model.events import Compaction, Delta, Event, ModeChanged, RateLimit, RecordStored
from fairlead.model.ids import SessionId, TurnId
from fairlead.model.store import Origin

_Conversation = UserRecord | AssistantRecord | StreamRecord
R = TypeVar("R")


class ClaudeInterpreter:
    """Implements `model.agents.Interpreter` for Claude. The core calls `assign_seq` for every event that it has stored,
    right after `step`."""

    def __init__(self, session: SessionId) -> None:
        self._session = session
        self._state = InterpreterState()

    # --- the port

    def step(self, record: Record) -> Interpretation:
        message = decode_row(record.raw) if record.origin == "transcript" else decode(record.raw)
        if isinstance(message, wire.ControlRequest) and message.subtype != "can_use_tool":
            # Handled by the driver. Its id is not remembered either: a held hook uses it for its permission request.
            return Interpretation()
        step, seen = self._recognise(message, record)
        if record.origin == "gateway":
            self._ours(step, message, seen)
        elif not seen:
            if isinstance(message, markers.Marker):
                # Only the gateway makes these; from the agent it is an unknown type.
                step.store_record("fairlead", known=False)
            elif (handle := HANDLERS.get(type(message))) is not None:
                handle(step, message)
            if record.origin == "transcript" and isinstance(message, wire.BaseRecord):
                _between(step, message)
            terminal_prompts.end_if_stopped(step)
        elif isinstance(message, AssistantRecord) and not message.parent_call and not message.in_sidechain:
            # The transcript's copy of a wire record has the true stop reason.
            assistant.update_final_flag(step, message)
        if step.anonymous and step.events:
            # Count only stored records: when they are read again from the log, they get the same names.
            self._state.anonymous += 1
        return step.outcome()

    def assign_seq(self, event: Event, seq: int) -> None:
        if isinstance(event, Delta):
            assistant.add_mark(self._state.streams, event, seq)
        elif isinstance(event, RecordStored):
            thread = self._state.expecting.pop(event.id, None)
            if thread is not None and thread in self._state.streams:
                self._state.streams[thread].kept.append(seq)
        elif isinstance(event, ModeChanged):
            # Also an event of the core: 2.1.37 does not report a changed mode, only the answer to the request does.
            self._state.mode = event.mode

    def exited(self, reason: str, cause: str) -> Interpretation:
        step = self._step(cause, Record(b"", ""))
        state = self._state
        terminal_prompts.emit_unconfirmed(step)
        deferred.release_all(step)
        ending = turns.ending_without_result(step, reason)
        if state.compacting:
            state.compacting = False
            step.emit(Compaction, phase="ended")
        closed = subagents.close(step, everything=True)
        turns.signal(step, TurnSignal.EXIT, ending, closed)
        for thread in list(state.streams):
            step.end_stream(thread)
        state.tasks.clear()
        state.agents.clear()
        state.expecting.clear()
        state.base = costs.next_process(state.base)
        return step.outcome()

    def end_quiet_turn(self) -> Interpretation:
        turn = self._state.turn
        step = self._step("" if turn is None else turn.id, Record(b"", "transcript"))
        turns.end_if_final(step)
        return step.outcome()

    def flush_unresolved(self, cause: str) -> Interpretation:
        step = self._step(cause, Record(b"", "transcript"))
        deferred.release_all(step)
        return step.outcome()

    @property
    def deferred_count(self) -> int:
        return sum(map(len, self._state.held.values()))

    @property
    def turn(self) -> TurnId | None:
        turn = self._state.turn
        return None if turn is None else TurnId(turn.id)

    @property
    def busy(self) -> bool:
        """Whether the main thread works, so that a prompt would join its turn. Background subagents do not count."""
        return self._state.phase not in (TurnPhase.IDLE, TurnPhase.BACKGROUND)

    @property
    def background_work(self) -> tuple[str, ...]:
        return tuple(task.about or name for name, task in self._state.tasks.items() if task.background)

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self._state)

    def restore(self, data: bytes) -> None:
        self._state = msgspec.msgpack.decode(data, type=InterpreterState)

    # --- identifying records

    def _step(self, source: str, record: Record, anonymous: bool = False) -> Step:
        self._state.expecting.clear()
        return Step(self._session, self._state, source, record, _replay, anonymous)

    def _recognise(self, message: WireRecord, record: Record) -> tuple[Step, bool]:
        """Return the step for a record, under the record's name, and whether the record was seen before."""
        state = self._state
        name = message.request_id if isinstance(message, wire.ControlRequest) else getattr(message, "uuid", None)
        if not name:
            name = hashlib.sha256(record.raw).hexdigest()[:32]
            if record.origin != "transcript":
                # Two equal lines on the wire are two records; a transcript row is the same however often it is read.
                return self._step(f"{name}-{state.anonymous + 1}", record, anonymous=True), False
        streamed = isinstance(message, StreamRecord)
        recent = state.streamed if streamed else state.records
        seen = name in recent
        if not seen:
            recent.add(name, STREAMED_SEEN if streamed else RECORDS_SEEN)
        return self._step(name, record), seen

    def _ours(self, step: Step, message: WireRecord, seen: bool) -> None:
        """Interpret a record of the gateway: a prompt or a marker. Other records of ours have no meaning."""
        match message:
            case markers.InterruptMarker():
                turns.signal(step, TurnSignal.INTERRUPT)
            case markers.ConnectionMarker():
                system.on_reconnect(step, message)
            case markers.TerminalMarker():
                terminal_prompts.screen(step, message)
            case markers.SubagentLink() if not seen:
                step.store_record("subagent_link", message.agentId)
                subagents.link_agent(step, message.agentId, message.toolUseId)
            case markers.TypedPrompt() if not seen:
                terminal_prompts.prompt(step, message)
            case UserRecord() if not seen:
                user.prompt(step, message)
            case _:
                pass


# --- records of the agent ---------------------------------------------------------------------------------


def _conversation(step: Step, message: _Conversation) -> None:
    if isinstance(message, UserRecord) and message.isReplay:
        user.replayed(step, message)
        return
    thread, key = subagents.resolve_thread(step, message)
    if thread is not None:
        _in_thread(step, message, thread)
    elif isinstance(message, StreamRecord):
        assistant.streamed(step, message, key, known=False)
    elif deferred.defer(step, key):
        step.store_record("assistant" if isinstance(message, AssistantRecord) else "user")
    else:
        _in_thread(step, message, "")


def _between(step: Step, row: wire.BaseRecord) -> None:
    """Link a sidechain row without content: later rows name it as their parent."""
    if isinstance(row, UserRecord | AssistantRecord) or row.agentId:
        return
    if row.in_sidechain and row.uuid and row.parent_row:
        thread, key = subagents.resolve_thread(step, row)
        if thread is None:
            deferred.defer(step, key)
        else:
            subagents.link_row(step, row, thread)


def _in_thread(step: Step, message: _Conversation, thread: str) -> None:
    if isinstance(message, StreamRecord):
        turns.on_output(step, thread)
        assistant.streamed(step, message, thread)
    elif isinstance(message, AssistantRecord):
        assistant.assistant(step, message, thread)
    else:
        user.user(step, message, thread)
    subagents.link_row(step, message, thread)


def _replay(step: Step, held: DeferredRecord, thread: str) -> None:
    """Interpret a deferred record under its own name. A record that only links two others emits nothing."""
    message = decode(held.raw)
    outer = (step.source, step.origin, step.raw, step.released)
    step.source, step.raw, step.released = held.source, held.raw, True
    step.origin = msgspec.convert(held.origin, Origin)
    if isinstance(message, UserRecord | AssistantRecord):
        _in_thread(step, message, thread)
    elif isinstance(message, wire.BaseRecord):
        subagents.link_row(step, message, thread)
    step.source, step.origin, step.raw, step.released = outer


def _result(step: Step, message: wire.ResultRecord) -> None:
    state = step.state
    cancelled, error = (state.turn.cancelled, state.turn.error) if state.turn is not None else (False, "")
    carries = step.abilities is not None and step.abilities.carries_totals
    ending, state.base = costs.ending(message, state.base, cancelled, error, carries_totals=carries)
    turns.signal(step, TurnSignal.RESULT, ending)


def _unknown(step: Step, message: wire.UnknownRecord) -> None:
    if message.type == "result" and step.state.turn is not None:
        # A turn must end, even if its result cannot be decoded.
        turns.signal(step, TurnSignal.RESULT, TurnEnding(status="failed", reason="the result could not be read"))
    step.store_record(message.type, message.subtype, known=False)


def _on(kind: type[R], handle: Callable[[Step, R], None]) -> tuple[type[Any], Callable[[Step, Any], None]]:
    return kind, handle


HANDLERS: Final = dict(
    (
        _on(UserRecord, _conversation),
        _on(AssistantRecord, _conversation),
        _on(StreamRecord, _conversation),
        _on(wire.ResultRecord, _result),
        _on(wire.Init, system.init),
        _on(wire.Status, system.status),
        _on(wire.CompactBoundary, system.on_compact_boundary),
        _on(wire.TaskStarted, tasks.started),
        _on(wire.TaskProgress, tasks.progressed),
        _on(wire.TaskUpdated, tasks.updated),
        _on(wire.TaskNotification, tasks.notified),
        _on(wire.BackgroundTasks, tasks.changed),
        _on(wire.HookRecord, system.hook),
        _on(wire.SystemNotice, system.notice),
        _on(wire.SystemQuiet, lambda step, quiet: step.store_record("system", quiet.subtype)),
        _on(wire.ToolProgressRecord, system.tool_progress),
        _on(wire.ToolUseSummary, system.summary),
        _on(wire.AuthStatus, system.auth),
        _on(wire.RateLimitRecord, lambda step, limit: step.emit(RateLimit, info=limit.rate_limit_info)),
        _on(wire.ProgressRecord, system.progress),
        _on(wire.ControlRequest, system.permission),
        _on(wire.TitleRecord, system.title),
        _on(wire.QuietRecord, lambda step, quiet: step.store_record(quiet.type)),
        _on(wire.UnknownRecord, _unknown),
        _on(wire.InvalidRecord, lambda step, _: step.store_record("garbage", known=False)),
    )
)
"""The handler of each class of record. The driver alone handles answers, cancellations and keep-alives."""
