"""Events as updates of ACP v1. Pure.

The updates of an event depend on the event, on the context before and after it, and on how much of a streamed text the
client has. Everything else (which calls are answered, which requests are raised) is in `encoder`.
"""

from collections.abc import Mapping
from typing import Any, assert_never

import msgspec

from fairlead.clients.acp.context import SessionContext, is_plan
from fairlead.clients.acp.options import OfferedOptions, config_options
from fairlead.clients.acp.requests import questions_text
from fairlead.clients.acp.tools import acp_block, call_fields, plan_entries, result_fields
from fairlead.clients.acp.wire import Fields
from fairlead.model import events as ev
from fairlead.model.formats.timestamps import iso_timestamp


class EditorFeatures(msgspec.Struct, frozen=True):
    """What the client takes beyond the core of the protocol, and whether its credential may answer requests."""

    forms: bool = False
    notices: bool = False
    compaction: bool = False
    approves: bool = False


class UpdateWriter(msgspec.Struct, frozen=True):
    """Writes updates for clients with these features and choices."""

    features: EditorFeatures
    offered: OfferedOptions

    def updates_of(self, event: ev.Event, before: SessionContext, now: SessionContext, sent: int) -> list[Fields]:
        """The updates of an event, for a client that has `sent` characters of its text. `before` and `now`: the context
        without and with this event."""
        match event:
            case ev.TextDelta() | ev.ThinkingDelta() | ev.Text() | ev.Thinking():
                return _texts(event, now, sent)
            case ev.UserMessage():
                return _user_message(event)
            case ev.ToolCalled() | ev.ToolEnded() | ev.SubagentEvent():
                return _tools(event, before, now)
            case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed() | ev.PermissionResolved():
                return _status_of_request(event, now)
            case ev.TurnEnded():
                return _turn_ended(event, before, now)
            case ev.SettingEvent() | ev.LifecycleEvent():
                return self._session(event, before, now)
            case ev.HousekeepingEvent() | ev.ErrorRaised():
                return self._reports(event, before)
            case ev.DeltaEvent() | ev.QueueEvent() | ev.TurnStarted() | ev.ToolProgress() | ev.PermissionCancelled():
                return []
            case ev.InterruptRequested() | ev.Rewound() | ev.RecordStored():
                return []
            case _:
                assert_never(event)

    def options(self, now: SessionContext) -> Fields:
        return _update("config_option_update", configOptions=config_options(self.offered, now.options))

    def _session(
        self, event: ev.SettingEvent | ev.LifecycleEvent, before: SessionContext, now: SessionContext
    ) -> list[Fields]:
        updates = []
        if isinstance(event, ev.SessionChanged) and event.title is not None:
            updates.append(_info(event, event.title))
        if isinstance(event, ev.AgentReady) and event.commands:
            updates.append(commands_update(event.commands))
        if now.options.mode != before.options.mode:
            updates.append(_update("current_mode_update", currentModeId=now.options.mode))
        if now.options != before.options:
            updates.append(self.options(now))
        if isinstance(event, ev.AgentExited) and not event.expected:
            updates += self._notice("error", "The agent ended.", event.reason)
        return updates

    def _reports(self, event: ev.HousekeepingEvent | ev.ErrorRaised, before: SessionContext) -> list[Fields]:
        match event:
            case ev.Notice(kind="title") if event.text:
                return [_info(event, event.text)]
            case ev.Notice():
                return self._notice("info", event.text or event.kind)
            case ev.ErrorRaised():
                return self._notice("error", event.message)
            case ev.RateLimit() if event.info.get("status") != "allowed":
                return self._notice("warning", "The model's usage limit is near or reached.")
            case ev.Compaction() if self.features.compaction:
                return _compaction(event, before)
            case _:
                return []

    def _notice(self, severity: str, title: str, description: str = "") -> list[Fields]:
        """A notice, for clients that show notices: it is never a message of the agent."""
        if not self.features.notices or not title:
            return []
        more = {"description": description} if description else {}
        return [_update("notice", severity=severity, title=title, **more)]


def _update(kind: str, /, **fields: Any) -> Fields:
    return {"sessionUpdate": kind, **fields}


def commands_update(commands: tuple[str, ...]) -> Fields:
    listed = [{"name": name.removeprefix("/"), "description": ""} for name in commands]
    return _update("available_commands_update", availableCommands=listed)


def _info(event: ev.Event, title: str) -> Fields:
    return _update("session_info_update", title=title or None, updatedAt=iso_timestamp(event.at))


def _texts(
    event: ev.TextDelta | ev.ThinkingDelta | ev.Text | ev.Thinking, now: SessionContext, sent: int
) -> list[Fields]:
    """The next piece of a message or thought. The output of a subagent is shown at the call that started it."""
    if event.subagent is not None:
        call = now.parents.get(event.subagent, "")
        if not isinstance(event, ev.Text) or not event.text or call not in now.calls:
            return []
        return [_update("tool_call_update", toolCallId=call, content=[_text_content(now.calls[call].text)])]
    text = event.text[sent:]
    if not text:
        return []
    thought = isinstance(event, ev.Thinking | ev.ThinkingDelta)
    return [_chunk("agent_thought_chunk" if thought else "agent_message_chunk", event.message, _text_block(text))]


def _user_message(event: ev.UserMessage) -> list[Fields]:
    if event.synthetic or event.subagent is not None:
        return []
    blocks = [block for block in map(acp_block, event.content) if block is not None]
    return [_chunk("user_message_chunk", event.message, block) for block in blocks]


def _chunk(kind: str, message: str, block: Fields) -> Fields:
    return _update(kind, messageId=message, content=block)


def _text_block(text: str) -> Fields:
    return {"type": "text", "text": text}


def _text_content(text: str) -> Fields:
    return {"type": "content", "content": _text_block(text)}


def _tools(
    event: ev.ToolCalled | ev.ToolEnded | ev.SubagentEvent, before: SessionContext, now: SessionContext
) -> list[Fields]:
    match event:
        case ev.ToolCalled() if is_plan(event):
            return [_update("plan", entries=plan_entries(event.input))]
        case ev.ToolCalled():
            fields = call_fields(event.name, event.input, now.cwd)
            meta = {"_meta": _call_meta(event, now)}
            return [_update("tool_call", toolCallId=event.call, status="in_progress", **fields, **meta)]
        case ev.ToolEnded() if event.call in before.calls:
            if event.background:
                # The subagent goes on, and its end is the end of this call.
                return [_update("tool_call_update", toolCallId=event.call, status="in_progress")]
            failed = event.is_error or event.status != "done"
            fields = result_fields(before.calls[event.call].name, event.content, event.data, failed=failed)
            return [_ended(event.call, failed=failed, **fields)]
        case ev.SubagentEnded() if event.call in before.calls:
            text = event.summary or before.calls[event.call].text
            content = {"content": [_text_content(text)]} if text else {}
            return [_ended(event.call, failed=event.status != "completed", **content)]
        case _:
            return []


def _ended(call: str, *, failed: bool, **fields: Any) -> Fields:
    return _update("tool_call_update", toolCallId=call, status="failed" if failed else "completed", **fields)


def _call_meta(event: ev.ToolCalled, now: SessionContext) -> Mapping[str, Fields]:
    """The names by which clients know the tool and the call that started the subagent."""
    parent = now.parents.get(event.subagent or "")
    known = {"toolName": event.name, **({"parentToolUseId": parent} if parent else {})}
    return {"claudeCode": known, **({"fairlead": {"parent": parent}} if parent else {})}


def _status_of_request(
    event: ev.PermissionRequested | ev.QuestionAsked | ev.PlanProposed | ev.PermissionResolved, now: SessionContext
) -> list[Fields]:
    """A call waits while a person is asked. A denied call gets its result from the agent."""
    if event.call not in now.calls:
        return []
    if isinstance(event, ev.QuestionAsked):
        # For clients that can show neither a form nor a card.
        content = [_text_content(questions_text(event))]
        return [_update("tool_call_update", toolCallId=event.call, status="pending", content=content)]
    if not isinstance(event, ev.PermissionResolved):
        return [_update("tool_call_update", toolCallId=event.call, status="pending")]
    if not event.asked:
        return []
    status = "in_progress" if event.behavior == "allow" else "failed"
    return [_update("tool_call_update", toolCallId=event.call, status=status)]


def _turn_ended(event: ev.TurnEnded, before: SessionContext, now: SessionContext) -> list[Fields]:
    closed = [_ended(call, failed=True) for call in event.closed if call in before.calls]
    size = max((usage.window for usage in event.usage.values()), default=0)
    if not size or not now.used:
        return closed
    cost = {"cost": {"amount": now.cost_usd, "currency": "USD"}} if now.cost_usd else {}
    return [*closed, _update("usage_update", used=now.used, size=size, **cost)]


def _compaction(event: ev.Compaction, before: SessionContext) -> list[Fields]:
    """Agents report the start and the end, or only the boundary in their history."""
    if event.phase == "started":
        return [_update("compaction_update", compactionId=event.id, status="in_progress")]
    if not before.compaction:
        return []
    return [_update("compaction_update", compactionId=before.compaction, status="completed")]
