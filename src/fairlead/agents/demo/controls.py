"""Control requests of the host and the demo agent's answers, in the format of CLI 2.1.325.

Rule: answers and settings only; turns run elsewhere. An unknown subtype is refused with an error that names it.
"""

import os
from collections.abc import Callable

from fairlead.agents.demo import records
from fairlead.agents.demo.checkpoints import NoCheckpoint
from fairlead.agents.demo.flags import MODES
from fairlead.agents.demo.records import VERSION, Record
from fairlead.agents.demo.session import DemoSession


class Refused(Exception):
    """The request is answered with an error. Carries its message and its code."""

    def __init__(self, sentence: str, code: str | None = None) -> None:
        super().__init__(sentence)
        self.fields = {"error_code": code} if code else {}


def answer_control(session: DemoSession, request: Record) -> Record | None:
    """Answer a request, except those that the agent handles. None: success without a response. Raises Refused."""
    subtype = str(request.get("subtype"))
    if subtype in _FACTS:
        return _FACTS[subtype](session)
    if subtype not in _HANDLERS:
        raise Refused(f"Unsupported control request subtype: {subtype}", "unsupported_request")
    return _HANDLERS[subtype](session, request)


def _initialize(session: DemoSession, request: Record) -> Record:
    hooks = request.get("hooks")
    # A second `initialize` without hooks removes them, as in CLI 2.1.325.
    session.hooks = hooks.get("PreToolUse") or [] if isinstance(hooks, dict) else []
    session.structured = request.get("jsonSchema") is not None
    session.forwards_subagents = request.get("forwardSubagentText") is True
    session.mcp.join([str(name) for name in request.get("sdkMcpServers") or []])
    return {
        "commands": [{"name": c, "description": f"/{c}", "argumentHint": ""} for c in records.COMMANDS],
        "agents": [{"name": a, "description": "a scripted subagent"} for a in records.AGENTS],
        "output_style": "default",
        "available_output_styles": ["default"],
        "models": records.models(),
        "account": {"tokenSource": "none", "apiKeySource": "none", "apiProvider": "firstParty"},
        "pid": os.getpid(),
        "claude_code_version": VERSION,
        "current_permission_mode": session.grants.mode,
    }


def _set_permission_mode(session: DemoSession, request: Record) -> Record:
    mode = request.get("mode")
    if mode not in MODES:
        raise Refused(f"Cannot set permission mode: must be one of {', '.join(MODES)}", "invalid_mode")
    if mode == "bypassPermissions" != session.options.mode:
        raise Refused(
            "Cannot set permission mode to bypassPermissions because the session was not launched with "
            "--dangerously-skip-permissions",
            "bypass_not_launched",
        )
    session.grants.mode = mode
    return {"mode": mode}


def _set_model(session: DemoSession, request: Record) -> Record:
    session.model = records.resolve_model(request.get("model"))
    return {"model": session.model}


def _set_thinking(session: DemoSession, request: Record) -> None:
    """Accept the budget without effect: the script determines the length of its thinking."""


def _mcp_server(session: DemoSession, request: Record) -> None:
    name = str(request.get("serverName"))
    if not session.mcp.known(name):
        raise Refused(f"Server not found: {name}")


def _mcp_set_servers(session: DemoSession, request: Record) -> Record:
    asked = request.get("servers") or {}
    return {"added": [], "removed": [], "errors": dict.fromkeys(asked, "the demo agent starts no servers")}


def _rewind_files(session: DemoSession, request: Record) -> Record:
    try:
        dry_run = bool(request.get("dry_run"))
        return session.checkpoints.rewind(str(request.get("user_message_id")), dry_run=dry_run)
    except (NoCheckpoint, OSError) as error:
        raise Refused(str(error)) from None


def _rename(session: DemoSession, request: Record) -> None:
    title = str(request.get("title", ""))
    session.emit_system("session_title_changed", title=title)
    session.transcript.line({"type": "custom-title", "customTitle": title, "sessionId": session.id})


def _stop_task(session: DemoSession, request: Record) -> Record:
    task = session.tasks.get(str(request.get("task_id")))
    if task is not None and task.work is not None:
        task.work.cancel()
    return {}


def _context_usage(session: DemoSession) -> Record:
    tokens = 19 * len(session.messages)
    categories = [{"id": "messages", "name": "Messages", "tokens": tokens, "kind": "used"}]
    return {"categories": categories, "totalTokens": tokens, "maxTokens": 1000000, "model": session.model}


_HANDLERS: dict[str, Callable[[DemoSession, Record], Record | None]] = {
    "initialize": _initialize,
    "set_permission_mode": _set_permission_mode,
    "set_model": _set_model,
    "set_max_thinking_tokens": _set_thinking,
    "mcp_reconnect": _mcp_server,
    "mcp_toggle": _mcp_server,
    "mcp_set_servers": _mcp_set_servers,
    "rewind_files": _rewind_files,
    "rename_session": _rename,
    "stop_task": _stop_task,
}

_FACTS: dict[str, Callable[[DemoSession], Record]] = {
    "background_tasks": lambda session: {},
    "get_binary_version": lambda session: {"version": VERSION},
    "get_context_usage": _context_usage,
    "get_hooks_listing": lambda session: {"events": ["PreToolUse"] if session.hooks else [], "hooks": []},
    "get_session_cost": lambda session: {"text": f"Total cost:            ${session.ledger.total_cost:.4f}"},
    "get_settings": lambda session: {"effective": {}, "sources": [], "applied": {"model": session.model}},
    "get_usage": lambda session: {"session": session.ledger.as_cost_state(), "rate_limits_available": False},
    "list_models": lambda session: {"models": records.models()},
    "list_permission_rules": lambda session: {"state": {"rules": [], "originalCwd": session.cwd}},
    "mcp_status": lambda session: {"mcpServers": session.mcp.status()},
}
"""The requests that only read."""
