"""The facts from earlier events that an event's updates need: the context of `encoder.AcpEncoder`. Pure.

A context is an immutable value that belongs to a position in the log. It is the same for every reader of a position,
except `answered_opening`, which depends on the call that opened the session.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct, structs

from fairlead.clients.acp.options import CurrentOptions, current_options
from fairlead.clients.acp.requests import PersonRequest
from fairlead.clients.acp.tools import TODOS
from fairlead.model import events as ev
from fairlead.model.formats.bounded_tables import drop_oldest

TABLE: Final = 256
"""Maximum number of calls, subagents, turns and requests that are remembered; many times the number that an agent has
at once."""
SUBAGENT_TEXT: Final = 8_000
"""Maximum characters of a subagent's output that its call shows while it runs: the last ones."""

V = TypeVar("V")


class RunningCall(Struct, frozen=True):
    """A call without a result; `text` is the output of the subagent that it started."""

    name: str
    text: str = ""


class SessionContext(Struct, frozen=True):
    """`parents`: the call that started each subagent. `waiting`: the open requests to a person. `turns`: the messages
    of each running turn. `used`: tokens in the model's context window. `compaction`: the id of the running one."""

    answered_opening: bool = False
    cwd: str = ""
    calls: Mapping[str, RunningCall] = {}
    parents: Mapping[str, str] = {}
    waiting: Mapping[str, PersonRequest] = {}
    turns: Mapping[str, tuple[str, ...]] = {}
    options: CurrentOptions = CurrentOptions()
    commands: tuple[str, ...] = ()
    used: int = 0
    cost_usd: float = 0.0
    compaction: str = ""

    def after(self, event: ev.Event) -> "SessionContext":
        """The context after an event of the log."""
        changes = _changes(self, event)
        return structs.replace(self, **changes) if changes else self


START: Final = SessionContext()

_Changes = dict[str, Any]


def is_plan(event: ev.ToolCalled) -> bool:
    """Whether editors show this call as the session's plan. The list of a subagent is a call like others."""
    return event.name == TODOS and event.subagent is None


def _changes(now: SessionContext, event: ev.Event) -> _Changes:
    match event:
        case ev.ToolCalled() if not is_plan(event):
            return {"calls": _with(now.calls, event.call, RunningCall(event.name)), **_used(event)}
        case ev.Text() | ev.Thinking() | ev.ToolCalled():
            return {**_subagent_text(now, event), **_used(event)}
        case ev.ToolEnded() if event.call in now.calls and not event.background:
            return {"calls": _without(now.calls, event.call)}
        case ev.SubagentStarted():
            return {"parents": _with(now.parents, event.child, event.call)}
        case ev.SubagentEnded() if event.call in now.calls:
            return {"calls": _without(now.calls, event.call)}
        case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed():
            return {"waiting": _with(now.waiting, event.request, event)}
        case ev.PermissionResolved() | ev.PermissionCancelled() if event.request in now.waiting:
            return {"waiting": _without(now.waiting, event.request)}
        case ev.UserMessage() if event.turn is not None:
            return {"turns": _with(now.turns, event.turn, (*now.turns.get(event.turn, ()), event.message)[-TABLE:])}
        case ev.TurnEnded():
            calls = {name: call for name, call in now.calls.items() if name not in event.closed}
            turns = _without(now.turns, event.turn or "")
            return {"calls": calls, "turns": turns, "cost_usd": now.cost_usd + event.cost_usd}
        case ev.SessionForked():
            # The work and the requests that are open in the parent are not open in the fork.
            return {"calls": {}, "waiting": {}, "turns": {}, "cost_usd": 0.0, "compaction": ""}
        case ev.Compaction():
            return {"compaction": event.id if event.phase == "started" else ""}
        case _:
            return _setting_changes(now, event)


def _setting_changes(now: SessionContext, event: ev.Event) -> _Changes:
    match event:
        case ev.SessionOpened():
            return {"cwd": event.cwd}
        case ev.SessionChanged() if event.settings is not None:
            return {"options": current_options(event.settings)}
        case ev.ModeChanged():
            return {"options": structs.replace(now.options, mode=event.mode)}
        case ev.ModelChanged():
            return {"options": structs.replace(now.options, model=event.model)}
        case ev.ThinkingChanged():
            return {"options": structs.replace(now.options, thinking=event.budget)}
        case ev.AgentReady():
            return {"commands": event.commands}
        case _:
            return {}


def _subagent_text(now: SessionContext, event: ev.Text | ev.Thinking | ev.ToolCalled) -> _Changes:
    call = now.parents.get(event.subagent or "", "")
    if not isinstance(event, ev.Text) or not event.text or call not in now.calls:
        return {}
    before = now.calls[call]
    text = f"{before.text}\n\n{event.text}" if before.text else event.text
    return {"calls": {**now.calls, call: RunningCall(before.name, text[-SUBAGENT_TEXT:])}}


def _used(event: ev.Text | ev.Thinking | ev.ToolCalled) -> _Changes:
    tokens = event.tokens
    if tokens is None or event.subagent is not None:
        return {}
    used = tokens.input + tokens.output + tokens.cache_read + tokens.cache_write
    return {"used": used} if used else {}


def _with(table: Mapping[str, V], key: str, value: V) -> dict[str, V]:
    made = {**table, key: value}
    drop_oldest(made, TABLE)
    return made


def _without(table: Mapping[str, V], key: str) -> dict[str, V]:
    return {name: value for name, value in table.items() if name != key}
