"""Updates outside the conversation: plans, commands, options, modes, usage, notices, compaction. Pure."""

from typing import Any

from fairlead.agents.acp import tools, usage, wire
from fairlead.agents.acp.interpreter.calls import close_call, emit_call
from fairlead.agents.acp.interpreter.state import AcpCall
from fairlead.agents.acp.interpreter.step import Step
from fairlead.agents.acp.wire import as_dict, as_text
from fairlead.model import events as ev


def on_plan(step: Step, update: dict[str, Any]) -> None:
    """Show a plan as the list of tasks that every client knows, when it has changed."""
    given = tools.todo_input(update.get("entries"))
    turn = step.state.turn
    if turn is None or given["todos"] == step.state.todos:
        step.store(wire.UPDATE, "plan")
        return
    step.state.todos = given["todos"]
    name = f"{step.source}-plan"
    call = AcpCall({"kind": "other", "rawInput": given})
    emit_call(step, name, call)
    close_call(step, name, call.name, "", failed=False)


def on_commands(step: Step, update: dict[str, Any]) -> None:
    commands = [as_text(item.get("name")) for item in wire.as_dicts(update.get("availableCommands"))]
    _change_ready(step, "available_commands_update", commands=commands)


def on_options(step: Step, update: dict[str, Any]) -> None:
    model = option_value(update.get("configOptions"), "model")
    _change_ready(step, "config_option_update", **({"model": model} if model else {}))


def option_value(options: Any, category: str) -> str:
    """The current value of the option of this category."""
    found = (item for item in wire.as_dicts(options) if item.get("category") == category)
    return next((as_text(item.get("currentValue")) for item in found), "")


def _change_ready(step: Step, kind: str, **changes: Any) -> None:
    ready = step.state.ready
    if not ready or all(list(ready[key]) == list(value) for key, value in changes.items()):
        step.store(wire.UPDATE, kind)
        return
    ready.update(changes)
    emit_ready(step)


def on_mode(step: Step, update: dict[str, Any]) -> None:
    mode = as_text(update.get("currentModeId"))
    step.emit(ev.Notice, kind="agent_mode", text=f"The agent's own mode is now {mode}.", data={"mode": mode})


def on_info(step: Step, update: dict[str, Any]) -> None:
    title = as_text(update.get("title"))
    if title:
        step.emit(ev.Notice, kind="title", text=title)
    else:
        step.store(wire.UPDATE, "session_info_update")


def on_usage(step: Step, update: dict[str, Any]) -> None:
    step.state.window = usage.number(update.get("size"))
    cost = as_dict(update.get("cost"))
    if cost.get("currency") == "USD" and isinstance(cost.get("amount"), int | float):
        step.state.cost = float(cost["amount"])
    step.store(wire.UPDATE, "usage_update")


def on_notice(step: Step, update: dict[str, Any]) -> None:
    words = [as_text(update.get("title")), as_text(update.get("description"))]
    step.emit(ev.Notice, kind="notice", text=": ".join(filter(None, words)), data={"severity": update.get("severity")})


def on_compaction(step: Step, update: dict[str, Any]) -> None:
    started = update.get("status") == "in_progress"
    if started == step.state.compacting:
        step.store(wire.UPDATE, "compaction_update")
        return
    step.state.compacting = started
    step.emit(ev.Compaction, phase="started" if started else "ended")


def emit_ready(step: Step) -> None:
    ready = step.state.ready
    names = ("agent_session", "version", "model", "cwd")
    step.emit(ev.AgentReady, commands=tuple(ready["commands"]), **{name: ready[name] for name in names})
