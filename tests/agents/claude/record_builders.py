"""Short builders for the agent's records, for the tests of the interpreter."""

from typing import Any

from agents.claude.golden_claude import Input, Log
from fairlead.model import events as ev

_count = 0


def name() -> str:
    """Return a fresh uuid."""
    global _count
    _count += 1
    return f"00000000-0000-4000-8000-{_count:012d}"


def agent(kind: str, **fields: Any) -> Input:
    return {"agent": {"type": kind, "uuid": name(), "session_id": "s", **fields}}


def system(subtype: str, **fields: Any) -> Input:
    return agent("system", subtype=subtype, **fields)


def prompt(text: str = "hello", uuid: str = "") -> Input:
    message = {"role": "user", "content": text}
    uuid = uuid or name()
    return {"gateway": {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": "", "uuid": uuid}}


def init(**fields: Any) -> Input:
    facts = {"cwd": "/srv", "model": "m", "permissionMode": "default", "claude_code_version": "2.1.325"}
    return system("init", **{**facts, "tools": ["Bash"], **fields})


def assistant(*blocks: Any, message: str = "msg_1", parent: str | None = None, **fields: Any) -> Input:
    content = {"id": message, "role": "assistant", "model": "m", "content": list(blocks), "stop_reason": None}
    return agent("assistant", message=content, parent_tool_use_id=parent, **fields)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def use(call: str, tool: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": tool, "input": arguments}


def user(content: Any, parent: str | None = None, **fields: Any) -> Input:
    return agent("user", message={"role": "user", "content": content}, parent_tool_use_id=parent, **fields)


def result_of(
    call: str, content: Any = "ok", parent: str | None = None, is_error: bool = False, **fields: Any
) -> Input:
    block = {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": is_error}
    return user([block], parent, **fields)


def stream(kind: str, parent: str | None = None, **event: Any) -> Input:
    return agent("stream_event", event={"type": kind, **event}, parent_tool_use_id=parent)


def start(message: str = "msg_1", parent: str | None = None) -> Input:
    return stream("message_start", parent, message={"id": message, "content": []})


def begin(index: int, block: dict[str, Any], parent: str | None = None) -> Input:
    return stream("content_block_start", parent, index=index, content_block=block)


def piece(index: int, words: str, kind: str = "text_delta", parent: str | None = None) -> Input:
    fields = {"thinking_delta": "thinking", "signature_delta": "signature", "input_json_delta": "partial_json"}
    delta = {"type": kind, fields.get(kind, "text"): words}
    return stream("content_block_delta", parent, index=index, delta=delta)


def stop(reason: str = "end_turn") -> list[Input]:
    return [stream("message_delta", delta={"stop_reason": reason}), stream("message_stop")]


def result(subtype: str = "success", **fields: Any) -> Input:
    return agent("result", **{"subtype": subtype, "is_error": subtype != "success", "num_turns": 1, **fields})


def row(kind: str, message: dict[str, Any] | None = None, **fields: Any) -> Input:
    """Build a row of a transcript."""
    body = {} if message is None else {"message": message}
    return {"transcript": {"type": kind, "uuid": name(), "isSidechain": False, "version": "2.1.325", **body, **fields}}


def permission(request: str, tool: str = "Bash", call: str = "toolu_1", **fields: Any) -> Input:
    asked = {"subtype": "can_use_tool", "tool_name": tool, "input": {}, "tool_use_id": call, **fields}
    return {"agent": {"type": "control_request", "request_id": request, "request": asked}}


def interpret(*given: Input) -> Log:
    return Log().run(list(given))


def kinds(log: Log, kept: bool = False) -> list[str]:
    """Return the kinds of the events, without the records that were only stored."""
    return [ev.kind_of(event) for event in log.events if kept or not isinstance(event, ev.RecordStored)]


def the(log: Log, kind: type[Any]) -> Any:
    """Return the only event of a kind."""
    (found,) = [event for event in log.events if isinstance(event, kind)]
    return found


def all_of(log: Log, kind: type[Any]) -> list[Any]:
    return [event for event in log.events if isinstance(event, kind)]
