"""Events as records in the form of the CLI, for clients that show such records and agents that write others. Pure.

Each block is streamed as a message of its own, and a subagent has the name of the call that started it, so that every
record depends on one event only.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from fairlead.model import events as ev
from fairlead.model.content import to_wire
from fairlead.model.ids import SessionId

Line = dict[str, Any]


def cli_records(event: ev.Event, session: SessionId) -> Sequence[Line]:
    """The records that the CLI would have written for this event. A prompt is the record that was sent to the CLI."""
    match event:
        case ev.AgentReady():
            return (_init(event, session),)
        case ev.UserMessage():
            message = {"role": "user", "content": to_wire(event.content)}
            return (_record("user", event.message, session, event, message=message),)
        case ev.TextDelta():
            return _streamed(event, session, {"type": "text", "text": ""}, {"type": "text_delta", "text": event.text})
        case ev.ThinkingDelta():
            block = {"type": "thinking", "thinking": ""}
            return _streamed(event, session, block, {"type": "thinking_delta", "thinking": event.text})
        case ev.InputDelta():
            call: Line = {"type": "tool_use", "id": event.call, "name": event.name, "input": {}}
            return _streamed(event, session, call, {"type": "input_json_delta", "partial_json": event.json})
        case ev.Text():
            return _block(event, session, {"type": "text", "text": event.text})
        case ev.Thinking():
            thought = {"type": "thinking", "thinking": event.text, "signature": event.signature}
            return _block(event, session, thought)
        case ev.ToolCalled():
            call = {"type": "tool_use", "id": event.call, "name": event.name, "input": event.input}
            return _block(event, session, call)
        case ev.ToolEnded():
            return (_result_of_call(event, session),)
        case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed():
            request = {"tool_name": event.tool, "input": event.input, "tool_use_id": event.call}
            asked = {"subtype": "can_use_tool", **request}
            return ({"type": "control_request", "request_id": event.request, "request": asked},)
        case ev.TurnEnded():
            return (_result(event, session),)
        case _:
            return ()


def record_uuid(event: str) -> str:
    """A UUID for the record of an event: always the same for the same event."""
    digits = hashlib.sha256(f"record:{event}".encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


def _record(kind: str, uuid: str, session: SessionId, source: ev.Event, /, **fields: Any) -> Line:
    return {"type": kind, **fields, "parent_tool_use_id": source.subagent, "session_id": session, "uuid": uuid}


def _init(event: ev.AgentReady, session: SessionId) -> Line:
    return {
        "type": "system",
        "subtype": "init",
        "cwd": event.cwd,
        "session_id": session,
        "tools": list(event.tools),
        "mcp_servers": list(event.mcp_servers),
        "model": event.model,
        "permissionMode": event.mode or "default",
        "slash_commands": list(event.commands),
        "output_style": "default",
        "uuid": record_uuid(event.id),
    }


def _streamed(event: ev.Delta, session: SessionId, block: Line, delta: Line) -> list[Line]:
    """A piece of a block; the first begins the message and the block."""
    steps: list[Line] = [{"type": "content_block_delta", "index": event.block, "delta": delta}]
    if event.offset == 0:
        message = {"id": event.message, "type": "message", "role": "assistant", "content": []}
        steps.insert(0, {"type": "content_block_start", "index": event.block, "content_block": block})
        steps.insert(0, {"type": "message_start", "message": message})
    return [_stream_event(event, number, step, session) for number, step in enumerate(steps)]


def _block(event: ev.Text | ev.Thinking | ev.ToolCalled, session: SessionId, block: Line) -> list[Line]:
    """A whole block, and the end of its stream."""
    message = {
        "id": event.message,
        "type": "message",
        "role": "assistant",
        "model": event.model,
        "content": [block],
        "stop_reason": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }
    whole = _record("assistant", record_uuid(event.id), session, event, message=message)
    if not event.marks:
        return [whole]
    ends: list[Line] = [{"type": "content_block_stop", "index": event.block}, {"type": "message_stop"}]
    return [whole, *(_stream_event(event, number, step, session) for number, step in enumerate(ends))]


def _stream_event(event: ev.Event, number: int, step: Line, session: SessionId) -> Line:
    return _record("stream_event", record_uuid(f"{event.id}/{number}"), session, event, event=step)


def _result_of_call(event: ev.ToolEnded, session: SessionId) -> Line:
    content = "" if event.content is None else event.content
    block: Line = {"type": "tool_result", "tool_use_id": event.call, "content": content}
    if event.is_error:
        block["is_error"] = True
    message = {"role": "user", "content": [block]}
    return _record("user", record_uuid(event.id), session, event, message=message, tool_use_result=event.data)


def _result(event: ev.TurnEnded, session: SessionId) -> Line:
    good = event.status == "completed"
    used = event.usage.values()
    return {
        "type": "result",
        "subtype": "success" if good else "error_during_execution",
        "is_error": not good,
        "duration_ms": event.duration_ms,
        "duration_api_ms": event.api_ms,
        "num_turns": event.model_turns or 1,
        "result": event.text or event.reason,
        "session_id": session,
        "total_cost_usd": event.cost_usd,
        "usage": {"input_tokens": sum(u.input for u in used), "output_tokens": sum(u.output for u in used)},
        "permission_denials": [],
        "uuid": record_uuid(event.id),
    }


def encode_record(record: Line) -> bytes:
    return msgspec.json.encode(record)
