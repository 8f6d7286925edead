"""A session's messages: one event, one row, the same live and in history. Pure.

A row's id is its record's uuid and the row's position in that record, so that a live row and the same row in history
have one id. Only messages of a person or the agent become rows; the agent's other records do not.
"""

from typing import Any, Final

import msgspec

from fairlead.clients.claudecodeui.chat.attachments import split_message
from fairlead.clients.claudecodeui.rest.project_fields import PROVIDER, Fields
from fairlead.model import events as ev
from fairlead.model.content import ToolResultBlock
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.ids import SessionId

COMPACTED: Final = "This session is being continued from a previous conversation"
"""The beginning of the agent's summary after a compaction."""

encoded: Final = msgspec.json.Encoder().encode


def enveloped(session: SessionId, event: ev.Event, name: str, fields: Fields) -> Fields:
    """Add the fields that every message has, whatever its kind."""
    head = {"id": name, "sessionId": session, "timestamp": iso_timestamp(event.at), "provider": PROVIDER}
    return {**head, **fields}


def row_of(session: SessionId, event: ev.Event) -> Fields | None:
    """The event's row; None if it is not a message or has no content."""
    fields = _fields(event)
    if fields is None:
        return None
    name = _name(event)
    return enveloped(session, event, f"{name}_tr_{event.call}" if isinstance(event, ev.ToolEnded) else name, fields)


def base_of(event: ev.Event) -> str:
    """The uuid of the record that the event came from."""
    return event.id.partition("/")[0]


def result_text(content: Any) -> str:
    """A text unchanged, anything else as JSON."""
    if content is None:
        return ""
    return content if isinstance(content, str) else encoded(content).decode()


def result_fields(event: ev.ToolEnded) -> Fields:
    """A call's result, for its own row and for the call's row in history."""
    fields: Fields = {"content": result_text(event.content), "isError": event.is_error}
    if event.data is not None:
        fields["toolUseResult"] = event.data
    return fields


def _name(event: ev.Event) -> str:
    base, _, rest = event.id.partition("/")
    return base if isinstance(event, ev.ToolEnded) else f"{base}_{rest.partition('/')[0]}"


def _fields(event: ev.Event) -> Fields | None:
    match event:
        case ev.Text() if event.text.strip():
            return {"kind": "text", "role": "assistant", "content": event.text}
        case ev.Thinking() if event.text.strip():
            return {"kind": "thinking", "content": event.text}
        case ev.ToolCalled():
            return {"kind": "tool_use", "toolName": event.name, "toolInput": event.input, "toolId": event.call}
        case ev.ToolEnded():
            return {"kind": "tool_result", "toolId": event.call, **result_fields(event)}
        case ev.UserMessage():
            return _user(event)
        case ev.Notice(kind="command") if event.text:
            name, _, arguments = event.text.partition(" ")
            command = {"commandName": name, "commandArgs": arguments, "isLocalCommand": True}
            return {"kind": "text", "role": "user", "content": event.text, **command}
        case ev.Notice(kind="local_command") if event.text.strip():
            return {"kind": "text", "role": "assistant", "content": event.text, "isLocalCommandStdout": True}
        case ev.Notice(kind="task_notification"):
            status = event.data.get("status") or "completed"
            return {"kind": "task_notification", "summary": event.text, "status": status}
        case _:
            return None


def _user(event: ev.UserMessage) -> Fields | None:
    """A person's own message, or the summary after a compaction; other input of the agent is not shown."""
    text, images, files = split_message(event.content)
    if text.startswith(COMPACTED):
        return {"kind": "text", "role": "user", "content": text, "isCompactSummary": True}
    if event.via == "agent" or event.synthetic or all(isinstance(block, ToolResultBlock) for block in event.content):
        return None
    if not text.strip() and not images and not files:
        return None
    fields: Fields = {"kind": "text", "role": "user", "content": text}
    return {**fields, **({"images": images} if images else {}), **({"files": files} if files else {})}
