"""The format of the wire: the records that the demo agent writes to stdout, as CLI 2.1.325 writes them.

Rule: formats only. Nothing here decides which records are emitted, or when.
"""

from dataclasses import dataclass
from typing import Any

from fairlead.agents.demo import usage
from fairlead.agents.demo.ids import new_uuid, timestamp

Record = dict[str, Any]

VERSION = "2.1.325"
TOOLS = ["Task", "AskUserQuestion", "Bash", "Edit", "ExitPlanMode", "Glob", "Read", "TodoWrite", "Write"]
AGENTS = ["general-purpose", "Explore", "Plan"]
COMMANDS = ["compact", "context", "cost", "init", "review"]

_MODELS = {
    "default": "claude-opus-5-5",
    "opus": "claude-opus-5-5",
    "sonnet": "claude-sonnet-5-5",
    "haiku": "claude-haiku-5-5",
}


def resolve_model(name: str | None) -> str:
    """The model that an alias stands for; any other name is unchanged, as in the real CLI."""
    return _MODELS.get(name or "default", name or "")


def models() -> list[Record]:
    return [
        {"value": value, "resolvedModel": model, "displayName": value.capitalize(), "description": "scripted"}
        for value, model in _MODELS.items()
    ]


def system(session_id: str, subtype: str, **fields: Any) -> Record:
    return {"type": "system", "subtype": subtype, **fields, "uuid": new_uuid(), "session_id": session_id}


@dataclass(frozen=True, slots=True)
class RecordSource:
    """The source of a record: the main thread, or a subagent inside a call."""

    session_id: str
    parent_tool_use_id: str | None = None
    agent_id: str | None = None
    subagent_type: str | None = None
    description: str | None = None
    run_id: str | None = None

    def head(self) -> Record:
        fields: Record = {"parent_tool_use_id": self.parent_tool_use_id}
        if self.agent_id is not None:
            fields["agent_id"] = self.agent_id
        return fields | {"session_id": self.session_id, "uuid": new_uuid(), "timestamp": timestamp()}

    def tail(self) -> Record:
        if self.agent_id is None:
            return {}
        return {"subagent_type": self.subagent_type, "task_description": self.description}


def message(message_id: str, model: str, content: list[Record]) -> Record:
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage.STARTED,
    }


def assistant(
    speaker: RecordSource, message_id: str, model: str, block: Record, request_id: str, **fields: Any
) -> Record:
    """One block of a message, as a separate record with the message's id."""
    body = message(message_id, model, [block]) | {"context_management": None}
    head = {"type": "assistant", "message": body, **speaker.head(), "request_id": request_id}
    return {**head, **fields, **speaker.tail()}


def stream_event(speaker: RecordSource, event: Record, message_id: str, **fields: Any) -> Record:
    return {
        "type": "stream_event",
        "event": event,
        "session_id": speaker.session_id,
        "parent_tool_use_id": speaker.parent_tool_use_id,
        "uuid": new_uuid(),
        **fields,
        "api_message_id": message_id,
    }


def user(speaker: RecordSource, content: Any, **fields: Any) -> Record:
    head = {"type": "user", "message": {"role": "user", "content": content}, **speaker.head()}
    return {**head, **fields, **speaker.tail()}


def failed_start(session_id: str, error: str) -> Record:
    """The single result of a process that cannot start, for example when there is no session to resume."""
    return {
        "type": "result",
        "subtype": "error_during_execution",
        "duration_ms": 0,
        "duration_api_ms": 0,
        "is_error": True,
        "num_turns": 0,
        "stop_reason": None,
        "session_id": session_id,
        "total_cost_usd": 0,
        "usage": usage.full_usage(0),
        "modelUsage": {},
        "permission_denials": [],
        "uuid": new_uuid(),
        "errors": [error],
        "result_index": 0,
    }
