"""The format of the wire: every record that the demo agent writes to stdout, as CLI 2.1.325 writes it.

Rule: formats only. Nothing here decides which records are emitted, or when.
"""

from __future__ import annotations

from dataclasses import dataclass, field
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


def init(
    session_id: str, *, cwd: str, model: str, mode: str, tools: list[str], servers: list[Record], config: str
) -> Record:
    return {
        "type": "system",
        "subtype": "init",
        "cwd": cwd,
        "session_id": session_id,
        "tools": tools,
        "mcp_servers": servers,
        "model": model,
        "permissionMode": mode,
        "slash_commands": COMMANDS,
        "apiKeySource": "none",
        "claude_code_version": VERSION,
        "output_style": "default",
        "agents": AGENTS,
        "skills": [],
        "plugins": [],
        "capabilities": ["interrupt_receipt_v1", "msg_lifecycle_v1"],
        "uuid": new_uuid(),
        "memory_paths": {"auto": f"{config}/memory/"},
        "original_cwd": cwd,
        "additional_directories": [],
        "fast_mode_state": "off",
    }


def system(session_id: str, subtype: str, **fields: Any) -> Record:
    return {"type": "system", "subtype": subtype, **fields, "uuid": new_uuid(), "session_id": session_id}


def status(session_id: str, state: str | None, **fields: Any) -> Record:
    return system(session_id, "status", status=state, **fields)


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
        return fields | {"session_id": self.session_id}

    def tail(self) -> Record:
        if self.agent_id is None:
            return {}
        return {"subagent_type": self.subagent_type, "task_description": self.description}


def message(message_id: str, model: str, content: list[Record], spent: Record) -> Record:
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": spent,
    }


def assistant(
    speaker: RecordSource, message_id: str, model: str, block: Record, request_id: str, **fields: Any
) -> Record:
    """One block of a message, as a separate record with the message's id."""
    body = message(message_id, model, [block], usage.STARTED) | {"context_management": None}
    return {
        "type": "assistant",
        "message": body,
        **speaker.head(),
        "uuid": new_uuid(),
        "timestamp": timestamp(),
        "request_id": request_id,
        **fields,
        **speaker.tail(),
    }


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
    return {
        "type": "user",
        "message": {"role": "user", "content": content},
        **speaker.head(),
        "uuid": new_uuid(),
        "timestamp": timestamp(),
        **fields,
        **speaker.tail(),
    }


def api_error(speaker: RecordSource, text: str, status: int, kind: str, error: str, request_id: str) -> Record:
    """The assistant record that reports an error of the model's API."""
    body = message(new_uuid(), "<synthetic>", [{"type": "text", "text": text}], usage.full_usage(0))
    body |= {"stop_reason": "stop_sequence", "stop_sequence": "", "context_management": None}
    return {
        "type": "assistant",
        "message": body,
        **speaker.head(),
        "uuid": new_uuid(),
        "timestamp": timestamp(),
        "error": error,
        "request_id": request_id,
        "is_api_error_message": True,
        "api_error_status": status,
        "api_error_type": kind,
        **speaker.tail(),
    }


@dataclass(slots=True)
class SubagentStats:
    """The `subagent_stats` of results, over the whole process."""

    spawned: int = 0
    background: int = 0
    foreground: int = 0
    completed: int = 0
    killed: int = 0
    max_depth: int = 0
    by_type: dict[str, int] = field(default_factory=dict)

    def as_record(self) -> Record:
        return {
            "spawned": self.spawned,
            "requested": {"background": self.background, "foreground": self.foreground, "unset": 0},
            "started_in_background": self.background,
            "max_depth": self.max_depth,
            "spawned_by_subagents": 0,
            "completed": self.completed,
            "failed": 0,
            "killed": {"parent": 0, "user": self.killed, "system": 0},
            "refused": {"depth_limit": 0, "concurrency_limit": 0, "budget": 0},
            "by_type": self.by_type,
        }


def result(
    session_id: str,
    *,
    ending: Record,
    ledger: usage.TokenUsage,
    calls: int,
    turns: int,
    denials: list[Record],
    stats: SubagentStats,
    index: int,
    duration_ms: int,
    api_ms: int,
    stop_reason: str | None,
    extra: Record,
) -> Record:
    """The end of a turn. `ending` says how it ended: subtype, is_error, result or errors, terminal_reason."""
    news = ledger.since_last_result()
    return {
        "duration_api_ms": api_ms,
        "stop_reason": stop_reason,
        "session_id": session_id,
        "total_cost_usd": ledger.total_cost,
        "usage": usage.full_usage(calls),
        "modelUsage": usage.model_usage(ledger.calls),
        "permission_denials": denials,
        "fast_mode_state": "off",
        "subagent_stats": stats.as_record(),
        "safety_stops": 0,
        "num_turns": turns,
        **ending,
        "type": "result",
        "duration_ms": duration_ms,
        "uuid": new_uuid(),
        **extra,
        "queued_turn_count": 0,
        "result_index": index,
        "model_usage_since_last_result": usage.model_usage(news),
    }


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


def initialized(*, mode: str, pid: int, config: str) -> Record:
    """The answer to `initialize`."""
    models = [
        {"value": value, "resolvedModel": model, "displayName": value.capitalize(), "description": "scripted"}
        for value, model in _MODELS.items()
    ]
    return {
        "commands": [{"name": c, "description": f"/{c}", "argumentHint": "", "builtin": True} for c in COMMANDS],
        "agents": [{"name": a, "description": "a scripted subagent"} for a in AGENTS],
        "output_style": "default",
        "available_output_styles": ["default"],
        "user_output_styles_dir": f"{config}/output-styles",
        "models": models,
        "account": {"tokenSource": "none", "apiKeySource": "none", "apiProvider": "firstParty"},
        "pid": pid,
        "claude_code_version": VERSION,
        "current_permission_mode": mode,
        "hooks_applied": True,
        "fast_mode_state": "off",
        "session_state": "idle",
        "capabilities": [],
    }
