"""Records outside the conversation: init, status, compaction, hooks, notices, permissions, and our link markers."""

from typing import Any, Final

from fairlead.agents.claude.interpreter import subagents, turns, user_text
from fairlead.agents.claude.interpreter.step import Step
from fairlead.agents.claude.interpreter.turns import TurnSignal
from fairlead.agents.claude.wire import records as wire
from fairlead.agents.claude.wire.control import CanUseTool, parse_request
from fairlead.agents.claude.wire.decode import decode_object
from fairlead.agents.claude.wire.markers import ConnectionMarker, TerminalMarker
from fairlead.agents.claude.wire.records import as_dicts, as_text
from fairlead.model import events as ev
from fairlead.model.ids import CallId, RequestId

_ENVELOPE: Final = frozenset({"type", "subtype", "uuid", "session_id", "sessionId", "parentUuid", "timestamp"})


# --- the link --------------------------------------------------------------------------------------------


def on_reconnect(step: Step, marker: ConnectionMarker) -> None:
    """Handle a marker of the dial-in link: the agent's socket was disconnected for a while."""
    if marker.gap:
        for stream in step.state.streams.values():
            # Deltas after a gap would have wrong offsets: the whole block will bring their text.
            stream.torn = True
        text = "Some of the agent's output was lost. Its transcript has the complete messages."
        step.emit(ev.Notice, kind="link.gap", text=text)
    if marker.over:
        turns.end_if_final(step)
    # Measured: a request that the CLI sends while its socket is down is lost, and its turn hangs until an interrupt.
    waiting = [call for call in subagents.foreground_calls(step) if call not in marker.asked]
    if marker.back and step.state.turn is not None and waiting:
        text = (
            "The agent's connection was lost and is back. Requests that it sent in the meantime were lost: "
            "if the agent does not continue, interrupt the turn."
        )
        step.emit(ev.Notice, kind="link.back", text=text, data={"offers": ["interrupt"], "calls": waiting})


# --- init and status -------------------------------------------------------------------------------------


def init(step: Step, record: wire.Init) -> None:
    """Handle an init record. The CLI sends one in every turn; an event is emitted only if something changed."""
    turns.signal(step, TurnSignal.MAIN)
    state = step.state
    mode = record.permissionMode or state.mode
    ready: dict[str, Any] = {
        "agent_session": record.session_id or "",
        "version": record.claude_code_version or "",
        "model": record.model or "",
        "cwd": record.cwd or "",
        "tools": record.tools or [],
        "commands": record.slash_commands or [],
        "mcp_servers": record.mcp_servers or [],
    }
    before, state.ready = state.ready, ready
    if ready == before and mode == state.mode:
        step.store_record("system", "init")
    else:
        lists = {name: tuple(value) for name, value in ready.items() if isinstance(value, list)}
        step.emit(ev.AgentReady, mode=mode, **{**ready, **lists})
    if before:
        _mode(step, mode)
    state.mode = mode


def in_terminal(step: Step, marker: TerminalMarker) -> None:
    """Emit AgentReady with the launch parameters: the interactive CLI sends no init record."""
    state = step.state
    ready: dict[str, Any] = {"agent_session": marker.agent_session, "version": marker.version, "cwd": marker.cwd}
    state.ready, state.mode = ready, marker.mode
    step.emit(ev.AgentReady, mode=marker.mode, **ready)


def status(step: Step, record: wire.Status) -> None:
    state = step.state
    first = len(step.events)
    if record.status == "compacting" and not state.compacting:
        state.compacting = True
        step.emit(ev.Compaction, phase="started")
    elif record.status is None and state.compacting:
        state.compacting = False
        step.emit(ev.Compaction, phase="ended")
    if record.permissionMode:
        _mode(step, record.permissionMode)
    if len(step.events) == first:
        step.store_record("system", "status")


def _mode(step: Step, mode: str) -> None:
    if mode != step.state.mode:
        step.state.mode = mode
        step.emit(ev.ModeChanged, mode=mode)


def on_compact_boundary(step: Step, record: wire.CompactBoundary) -> None:
    """Handle a compact boundary. It comes before or after the status that ends the compaction: both orders occur."""
    facts = record.compact_metadata or record.compactMetadata or record.microcompactMetadata or {}
    tokens = facts.get("pre_tokens", facts.get("preTokens"))
    count = int(tokens) if isinstance(tokens, int | float) else 0
    step.emit(ev.Compaction, phase="boundary", trigger=as_text(facts.get("trigger")), pre_tokens=count)


# --- outside the conversation ----------------------------------------------------------------------------


def hook(step: Step, record: wire.HookRecord) -> None:
    phases = {"hook_started": "started", "hook_progress": "progress", "hook_response": "ended"}
    step.emit(
        ev.HookProgress,
        hook=record.hook_id,
        name=record.hook_name or "",
        event=record.hook_event or "",
        phase=phases[record.subtype],
        output=record.output or (record.stdout or "") + (record.stderr or ""),
        outcome=record.outcome or "",
        exit_code=record.exit_code,
    )


def notice(step: Step, record: wire.SystemNotice) -> None:
    data = {name: value for name, value in decode_object(step.raw).items() if name not in _ENVELOPE}
    words: list[Any] = [record.text, record.message, record.content, record.title, record.error]
    text = next((word for word in words if isinstance(word, str)), "")
    kind = record.subtype
    if kind in ("local_command", "local_command_output"):
        kind = "local_command"
        read = user_text.classify(text)
        text = read.text if read.kind in ("output", "command") else text
    elif kind == "api_retry":
        text = f"{text or 'error'}: try {data.get('attempt')} of {data.get('max_retries')}"
    step.emit(ev.Notice, kind=kind, text=text, data=data)


def auth(step: Step, record: wire.AuthStatus) -> None:
    data = {"isAuthenticating": record.isAuthenticating, "output": record.output or []}
    text = record.error or "\n".join(record.output or [])
    step.emit(ev.Notice, kind="auth_status", text=text, data=data)


def summary(step: Step, record: wire.ToolUseSummary) -> None:
    calls = record.preceding_tool_use_ids or []
    step.emit(ev.Notice, kind="tool_use_summary", text=record.summary, data={"calls": calls})


def title(step: Step, record: wire.TitleRecord) -> None:
    step.emit(ev.Notice, kind="title", text=record.summary or record.customTitle or "")


def tool_progress(step: Step, record: wire.ToolProgressRecord) -> None:
    """Handle tool progress. A heartbeat has a separate id, and names its call as the parent."""
    state = step.state
    call, thread = record.tool_use_id, record.parent_tool_use_id or ""
    if call not in state.calls and thread in state.calls and thread not in state.subagents:
        call, thread = thread, state.calls[thread].thread
    elapsed, name = record.elapsed_time_seconds or 0.0, record.tool_name or ""
    step.emit(ev.ToolProgress, thread=thread, call=CallId(call), name=name, elapsed_s=elapsed)


def progress(step: Step, record: wire.ProgressRecord) -> None:
    """Handle the output of a running shell, and link a subagent's id to its call."""
    kind = record.data.get("type")
    call = record.toolUseID or ""
    if kind == "bash_progress" and call:
        elapsed = record.data.get("elapsedTimeSeconds")
        seconds = float(elapsed) if isinstance(elapsed, int | float) else 0.0
        step.emit_progress(call, seconds, as_text(record.data.get("output")))
        return
    agent, parent = record.data.get("agentId"), record.parentToolUseID
    if kind == "agent_progress" and isinstance(agent, str) and parent in step.state.subagents:
        subagents.link_agent(step, agent, parent)
    step.store_if_silent("progress", as_text(kind))


# --- permission requests -------------------------------------------------------------------------------------


def permission(step: Step, record: wire.ControlRequest) -> None:
    """Handle can_use_tool; the driver handles every other control request."""
    request = parse_request(record)
    if not isinstance(request, CanUseTool):
        return
    state = step.state
    call = state.calls.get(request.tool_use_id)
    thread = call.thread if call is not None else state.agents.get(request.agent_id or "", "")
    turns.on_output(step, thread)
    about: dict[str, Any] = {"request": RequestId(record.request_id), "call": CallId(request.tool_use_id)}
    about |= {"tool": request.tool_name, "input": request.input}
    if request.tool_name == "AskUserQuestion":
        questions = tuple(as_dicts(request.input.get("questions")))
        step.emit(ev.QuestionAsked, thread=thread, questions=questions, **about)
    elif request.tool_name == "ExitPlanMode":
        given = request.input.get("plan")
        plan = given if isinstance(given, str) else call.plan if call is not None else ""
        step.emit(ev.PlanProposed, thread=thread, plan=plan, **about)
    else:
        handled = {"subtype", "tool_name", "input", "tool_use_id", "blocked_path", "decision_reason", "description"}
        step.emit(
            ev.PermissionRequested,
            thread=thread,
            title=request.title or request.description or "",
            reason=request.decision_reason or "",
            blocked_path=request.blocked_path or "",
            suggestions=rules(request.permission_suggestions),
            data={key: value for key, value in record.request.items() if key not in handled},
            **about,
        )


def rules(suggestions: list[Any] | None) -> tuple[str, ...]:
    """The suggested allow rules, in our notation: `Tool` or `Tool(content)`. Invalid ones are left out."""
    found: list[str] = []
    for suggestion in as_dicts(suggestions):
        if (suggestion.get("type"), suggestion.get("behavior")) == ("addRules", "allow"):
            for rule in as_dicts(suggestion.get("rules")):
                tool, content = rule.get("toolName"), rule.get("ruleContent") or ""
                if isinstance(tool, str) and isinstance(content, str):
                    found.append(f"{tool}({content})" if content else tool)
    return tuple(dict.fromkeys(found))
