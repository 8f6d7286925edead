"""Translates the events of a log to actions: `translate(context, event) -> context, actions`. Pure.

This is the only source of the protocol's state: the encoder sends the actions, and snapshots fold them (`snapshots`).
"""

from typing import Any, Final, assert_never

from fairlead.clients.ahp import calls, turns
from fairlead.clients.ahp.context import DEFAULTS, MODE, MODEL, THINKING, Context, Sent
from fairlead.clients.ahp.translation import Translation
from fairlead.clients.ahp.wire import Fields
from fairlead.model import events as ev
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry

PASSED: Final = frozenset({"record", "input.delta", "hook.progress", "tool.progress", "rate.limit", "agent.started"})
"""Frequent kinds without actions: they are not even decoded."""
_SHOWN_NOTICES: Final = ("local_command", "task_notification")


def translate_entry(context: Context, session: SessionId, entry: Entry) -> tuple[Context, list[Sent]]:
    if entry.kind in PASSED:
        return context, []
    return translate(context, session, ev.decode(entry.event), entry.at)


def translate(context: Context, session: SessionId, event: ev.Event, at: int) -> tuple[Context, list[Sent]]:
    step = Translation(session, context, at)
    if event.subagent is None:
        _main(step, event)
    else:
        _subagent(step, event)
    status = step.context.current_status
    if status != step.context.status:
        step.change(status=status)
        step.update_chat(status=status)
    return step.context, step.sent


def _subagent(step: Translation, event: ev.Event) -> None:
    """Of a subagent only its requests to a person are shown, and what becomes of the calls that made them."""
    match event:
        case ev.PermissionRequested() | ev.PlanProposed():
            calls.asked(step, event)
        case ev.QuestionAsked():
            calls.question_asked(step, event)
        case ev.PermissionResolved():
            calls.resolved(step, event)
        case ev.PermissionCancelled():
            calls.cancelled(step, event)
        case ev.ToolEnded():
            calls.finished(step, event)
        case _:
            pass


def _main(step: Translation, event: ev.Event) -> None:
    match event:
        case ev.TurnStarted():
            turns.own_turn(step, event)
        case ev.TurnEnded():
            turns.ended(step, event)
        case ev.UserMessage():
            turns.user_message(step, event)
        case ev.TextDelta() | ev.ThinkingDelta():
            turns.delta(step, event)
        case ev.Text() | ev.Thinking():
            turns.text(step, event)
        case ev.ToolCalled():
            calls.called(step, event)
        case ev.ToolEnded():
            calls.finished(step, event)
        case ev.PermissionRequested() | ev.PlanProposed():
            calls.asked(step, event)
        case ev.QuestionAsked():
            calls.question_asked(step, event)
        case ev.PermissionResolved():
            calls.resolved(step, event)
        case ev.PermissionCancelled():
            calls.cancelled(step, event)
        case ev.InterruptRequested():
            turns.interrupted(step, event)
        case ev.QueueEvent():
            _queue(step, event)
        case ev.LifecycleEvent():
            _lifecycle(step, event)
        case ev.ModeChanged():
            _configure(step, {MODE: event.mode})
        case ev.ModelChanged():
            _configure(step, {MODEL: event.model})
        case ev.ThinkingChanged():
            _configure(step, {THINKING: event.budget or 0})
        case ev.Compaction(phase="boundary"):
            turns.note(step, "The conversation was compacted.")
        case ev.Notice() if event.kind in _SHOWN_NOTICES:
            turns.note(step, event.text)
        case ev.ErrorRaised():
            turns.note(step, event.message)
        case ev.HousekeepingEvent() | ev.InputDelta() | ev.ToolProgress() | ev.SubagentEvent():
            pass
        case ev.Rewound() | ev.RecordStored():
            pass
        case _:
            assert_never(event)


def _queue(
    step: Translation, event: ev.MessageQueued | ev.MessageDequeued | ev.MessageCancelled | ev.MessageMoved
) -> None:
    match event:
        case ev.MessageQueued():
            turns.queued(step, event)
        case ev.MessageDequeued():
            turns.dequeued(step, event.message)
        case ev.MessageCancelled():
            turns.withdrawn(step, event.message)
        case ev.MessageMoved():
            turns.moved(step, event)
        case _:
            assert_never(event)


def _lifecycle(step: Translation, event: ev.Event) -> None:
    match event:
        case ev.SessionOpened() if event.title:
            turns.set_title(step, event.title)
        case ev.SessionChanged():
            if event.title:
                turns.set_title(step, event.title)
            if event.archived is not None and event.archived != step.context.archived:
                step.change(archived=event.archived)
                step.on_session("isArchivedChanged", isArchived=event.archived)
            if event.settings is not None:
                _configure(step, {name: _setting(event.settings, name) for name in DEFAULTS})
        case ev.SessionForked():
            _forked(step)
        case _:
            pass


def _setting(settings: Fields, name: str) -> Any:
    value = settings.get({MODE: "mode"}.get(name, name))
    return value if type(value) is type(DEFAULTS[name]) else DEFAULTS[name]


def _configure(step: Translation, values: Fields) -> None:
    changed = {name: value for name, value in values.items() if step.context.config[name] != value}
    if changed:
        step.change(config={**step.context.config, **changed})
        step.on_session("configChanged", config=changed)


def _forked(step: Translation) -> None:
    """A turn, message or request that is open in the parent is not open in the fork."""
    for name in step.context.requests:
        step.on_session("inputNeededRemoved", id=name)
    turn = step.context.turn
    for message, prompt in step.context.queue.items():
        if turn is None or turn.message != message:
            step.on_chat("pendingMessageRemoved", kind="queued", id=prompt.id)
    if turn is not None:
        turns.end(step, "turnCancelled")
    step.change(requests={}, queue={})
