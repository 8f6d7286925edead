"""Control requests of the host and the demo agent's answers, in the format of CLI 2.1.325.

Rule: answers and settings only; turns run elsewhere. An unknown subtype is refused with an error that names it.
"""

from __future__ import annotations

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


class Controls:
    """Answers every request except `interrupt`, which the agent handles."""

    def __init__(self, session: DemoSession) -> None:
        self._session = session

    def answer(self, request: Record) -> Record | None:
        """Return the response (None: success without one). Raises Refused."""
        subtype = str(request.get("subtype"))
        handler = _HANDLERS.get(subtype)
        if handler is None:
            raise Refused(f"Unsupported control request subtype: {subtype}", "unsupported_request")
        return handler(self._session, request)

    def after(self, request: Record) -> None:
        """Emit the records that follow the answer."""
        if request.get("subtype") == "set_permission_mode":
            session = self._session
            session.emit(records.status(session.id, None, permissionMode=session.grants.mode))


def _initialize(session: DemoSession, request: Record) -> Record:
    hooks = request.get("hooks")
    session.hooks.register(hooks if isinstance(hooks, dict) else {})
    session.structured = session.options.structured or request.get("jsonSchema") is not None
    if request.get("forwardSubagentText") is not None:
        session.forwards_subagents = request["forwardSubagentText"] is True
    session.mcp.join([str(name) for name in request.get("sdkMcpServers") or []])
    return records.initialized(mode=session.grants.mode, pid=os.getpid(), config=str(session.config))


def _set_permission_mode(session: DemoSession, request: Record) -> Record:
    mode = request.get("mode")
    if mode not in MODES:
        raise Refused(f"Cannot set permission mode: must be one of {', '.join(MODES)}", "invalid_mode")
    if mode == "bypassPermissions" and not session.options.may_bypass:
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


def _mcp_status(session: DemoSession, request: Record) -> Record:
    return {"mcpServers": session.mcp.status()}


def _mcp_server(session: DemoSession, request: Record) -> None:
    name = str(request.get("serverName"))
    if not session.mcp.known(name):
        raise Refused(f"Server not found: {name}")


def _mcp_set_servers(session: DemoSession, request: Record) -> Record:
    asked = request.get("servers") or {}
    return {"added": [], "removed": [], "errors": dict.fromkeys(asked, "the demo agent starts no servers")}


def _rewind_files(session: DemoSession, request: Record) -> Record:
    if session.checkpoints is None:
        raise Refused("File rewinding is not enabled.")
    try:
        dry_run = bool(request.get("dry_run"))
        return session.checkpoints.rewind(str(request.get("user_message_id")), dry_run=dry_run)
    except (NoCheckpoint, OSError) as error:
        raise Refused(str(error)) from None


def _context_usage(session: DemoSession, request: Record) -> Record:
    tokens = 19 * len(session.messages)
    return {
        "categories": [{"id": "messages", "name": "Messages", "tokens": tokens, "kind": "used"}],
        "totalTokens": tokens,
        "maxTokens": 1000000,
        "rawMaxTokens": 1000000,
        "percentage": 0,
        "model": session.model,
    }


def _settings(session: DemoSession, request: Record) -> Record:
    return {"effective": {}, "sources": [], "applied": {"model": session.model, "effort": "medium"}}


def _session_cost(session: DemoSession, request: Record) -> Record:
    return {"text": f"Total cost:            ${session.ledger.total_cost:.4f}"}


def _usage(session: DemoSession, request: Record) -> Record:
    state = session.ledger.as_cost_state()
    spent = {"total_cost_usd": state["totalCostUSD"], "model_usage": state["modelUsage"]}
    return {"session": spent, "subscription_type": None, "rate_limits_available": False, "rate_limits": None}


def _models(session: DemoSession, request: Record) -> Record:
    answer = records.initialized(mode=session.grants.mode, pid=os.getpid(), config=str(session.config))
    return {"models": answer["models"]}


def _version(session: DemoSession, request: Record) -> Record:
    return {"version": VERSION}


def _rules(session: DemoSession, request: Record) -> Record:
    rules = [{"toolName": tool, "ruleContent": rule, "behavior": how} for tool, rule, how in session.grants.rules]
    return {"state": {"rules": rules, "workspaceDirectories": session.grants.directories, "originalCwd": session.cwd}}


def _hooks(session: DemoSession, request: Record) -> Record:
    return {"events": session.hooks.events(), "hooks": [], "eventCatalog": []}


def _rename(session: DemoSession, request: Record) -> None:
    title = str(request.get("title", ""))
    session.emit_system("session_title_changed", title=title)
    session.transcript.line({"type": "custom-title", "customTitle": title, "sessionId": session.id})


def _background_tasks(session: DemoSession, request: Record) -> Record:
    return {}


def _stop_task(session: DemoSession, request: Record) -> Record:
    task = session.tasks.get(str(request.get("task_id")))
    if task is not None and task.work is not None:
        task.work.cancel()
    return {}


_HANDLERS: dict[str, Callable[[DemoSession, Record], Record | None]] = {
    "initialize": _initialize,
    "set_permission_mode": _set_permission_mode,
    "set_model": _set_model,
    "set_max_thinking_tokens": _set_thinking,
    "mcp_status": _mcp_status,
    "mcp_reconnect": _mcp_server,
    "mcp_toggle": _mcp_server,
    "mcp_set_servers": _mcp_set_servers,
    "rewind_files": _rewind_files,
    "get_context_usage": _context_usage,
    "get_settings": _settings,
    "get_session_cost": _session_cost,
    "get_usage": _usage,
    "list_models": _models,
    "get_binary_version": _version,
    "list_permission_rules": _rules,
    "get_hooks_listing": _hooks,
    "rename_session": _rename,
    "background_tasks": _background_tasks,
    "stop_task": _stop_task,
}
