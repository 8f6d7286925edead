"""The host's control requests that only read or change settings, and the stand-in's answers."""

from collections.abc import Callable

from fairlead.agents.claude.wire.control import answer_line, error_line
from fairlead_testing.model_messages import Record
from fairlead_testing.standin_cli.flags import MODES
from fairlead_testing.standin_cli.session import COMMANDS, MODELS, StandinSession, resolve_model


class Refused(Exception):
    """The request is answered with an error. Carries its message."""


def answer_control(session: StandinSession, request_id: str, request: Record) -> bytes:
    """The line that answers a request. The interrupt itself is the agent's: it follows its answer."""
    handler = _HANDLERS.get(request["subtype"])
    if handler is None:
        return error_line(request_id, f"Unsupported control request subtype: {request['subtype']}")
    try:
        return answer_line(request_id, handler(session, request))
    except Refused as refused:
        return error_line(request_id, str(refused))


def _initialize(session: StandinSession, request: Record) -> Record:
    hooks = request.get("hooks")
    # A second `initialize` without hooks removes them, as in CLI 2.1.325.
    session.hooks = hooks.get("PreToolUse") or [] if isinstance(hooks, dict) else []
    session.structured = request.get("jsonSchema") is not None
    session.mcp.join([str(name) for name in request.get("sdkMcpServers") or []])
    return {
        "commands": [{"name": name, "description": f"/{name}", "argumentHint": ""} for name in COMMANDS],
        "models": [
            {"value": name, "resolvedModel": model, "displayName": name.capitalize(), "description": "scripted"}
            for name, model in MODELS.items()
        ],
        "account": {"tokenSource": "none", "apiKeySource": "none"},
    }


def _set_permission_mode(session: StandinSession, request: Record) -> Record:
    mode = request.get("mode")
    if mode not in MODES:
        raise Refused(f"Cannot set permission mode: must be one of {', '.join(MODES)}")
    if mode == "bypassPermissions" != session.options.permission_mode:
        raise Refused(
            "Cannot set permission mode to bypassPermissions because the session was not launched with "
            "--dangerously-skip-permissions"
        )
    session.grants.mode = mode
    session.emit_system("status", status=None, permissionMode=mode)
    return {"mode": mode}


def _set_model(session: StandinSession, request: Record) -> Record:
    session.model = resolve_model(request.get("model"))
    return {"model": session.model}


def _mcp_set_servers(session: StandinSession, request: Record) -> Record:
    asked = request.get("servers") or {}
    return {"added": [], "removed": [], "errors": dict.fromkeys(asked, "the stand-in starts no servers")}


def _rewind_files(session: StandinSession, request: Record) -> Record:
    try:
        return session.checkpoints.rewind(str(request.get("user_message_id")), dry_run=bool(request.get("dry_run")))
    except (LookupError, OSError) as error:
        raise Refused(str(error)) from None


def _stop_task(session: StandinSession, request: Record) -> Record:
    task = session.tasks.get(str(request.get("task_id")))
    if task is not None and task.work is not None:
        task.work.cancel()
    return {}


_HANDLERS: dict[str, Callable[[StandinSession, Record], Record | None]] = {
    "initialize": _initialize,
    "interrupt": lambda session, request: {},
    "set_permission_mode": _set_permission_mode,
    "set_model": _set_model,
    # Without effect: the script determines the length of its thinking.
    "set_max_thinking_tokens": lambda session, request: None,
    "mcp_set_servers": _mcp_set_servers,
    "mcp_status": lambda session, request: {"mcpServers": session.mcp.listing()},
    "rewind_files": _rewind_files,
    "stop_task": _stop_task,
}
