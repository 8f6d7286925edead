"""The state of a session for AG-UI's shared state, and events that AG-UI has no type for. Pure."""

from typing import Any

import msgspec

from fairlead.clients.agui.wire import Event, event
from fairlead.model import events as ev
from fairlead.model.queries import SessionView


def session_state(view: SessionView) -> dict[str, Any]:
    summary = view.summary
    return {
        "session": summary.session,
        "seq": view.head,
        "logId": view.log_id,
        "agent": summary.agent,
        "mode": str(view.settings.get("mode") or summary.mode or "default"),
        "model": str(view.settings.get("model") or summary.model),
        "title": summary.title,
        "cwd": summary.cwd,
        "queue": [queued.message for queued in view.queue],
        "pending": [msgspec.json.decode(pending.event)["request"] for pending in view.pending],
    }


def snapshot_event(given: Any, view: SessionView) -> Event:
    """The state of the client's page, with the session's part under `fairlead`."""
    own = given if isinstance(given, dict) else {}
    return event("STATE_SNAPSHOT", snapshot={**own, "fairlead": session_state(view)})


def state_delta(one: ev.ModeChanged | ev.ModelChanged | ev.SessionChanged) -> list[Event]:
    match one:
        case ev.ModeChanged():
            changes: dict[str, Any] = {"mode": one.mode}
        case ev.ModelChanged():
            changes = {"model": one.model}
        case ev.SessionChanged():
            changes = {} if one.title is None else {"title": one.title}
    delta = [{"op": "replace", "path": f"/fairlead/{name}", "value": value} for name, value in changes.items()]
    return [event("STATE_DELTA", delta=delta)] if delta else []


def custom_event(one: ev.Compaction | ev.RateLimit | ev.Notice) -> Event:
    value = msgspec.to_builtins(one)
    kind = value.pop("type")
    for name in ("id", "at", "turn", "subagent"):
        value.pop(name, None)
    return event("CUSTOM", name=f"fairlead.{kind}", value=value, subagentRunId=one.subagent)
