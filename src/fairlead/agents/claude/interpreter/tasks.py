"""Tasks: the CLI's reports on its subagents and background shells while they run and when they end."""

from fairlead.agents.claude.interpreter import subagents, turns, user_text
from fairlead.agents.claude.interpreter.state import CALLS_OPEN, OpenTask
from fairlead.agents.claude.interpreter.step import Step
from fairlead.agents.claude.interpreter.turns import TurnSignal
from fairlead.agents.claude.wire import records as wire
from fairlead.agents.claude.wire.records import as_text
from fairlead.model.events import Notice
from fairlead.model.formats.bounded_tables import put, trim

_AGENT_TASK = "local_agent"


def started(step: Step, record: wire.TaskStarted) -> None:
    state = step.state
    call = record.tool_use_id or ""
    background = record.is_backgrounded is True
    about = record.description or (state.tasks[record.task_id].about if record.task_id in state.tasks else "")
    put(state.tasks, record.task_id, OpenTask(call, background, about), CALLS_OPEN)
    if record.task_type == _AGENT_TASK and call:
        subagent = state.subagents.get(call)
        if subagent is not None:
            subagent.background = subagent.background or background
        elif call in state.calls or call in state.ended:
            # The subagent had ended and is resumed, or its tool is not in `SPAWNING`.
            thread = state.calls[call].thread if call in state.calls else state.threads.get(call, "")
            facts = {"description": record.description, "subagent_type": record.subagent_type, "prompt": record.prompt}
            subagents.start(step, call, thread, facts, background or call in state.ended)
        if call in state.subagents:
            subagents.link_agent(step, record.task_id, call)
    step.store_if_silent("system", "task_started")


def progressed(step: Step, record: wire.TaskProgress) -> None:
    task = step.state.tasks.get(record.task_id)
    call = record.tool_use_id or (task.call if task is not None else "")
    if not call:
        step.store_record("system", "task_progress")
        return
    elapsed = (record.usage or {}).get("duration_ms")
    step.emit_progress(call, elapsed / 1000 if isinstance(elapsed, int | float) else 0.0, record.description or "")


def updated(step: Step, record: wire.TaskUpdated) -> None:
    task = step.state.tasks.get(record.task_id)
    if task is not None and record.patch.get("is_backgrounded") is True:
        _to_background(step, task)
    step.store_record("system", "task_updated")


def changed(step: Step, record: wire.BackgroundTasks) -> None:
    """Handle the complete list of background tasks: a task that is not in it no longer runs in the background."""
    tasks = step.state.tasks
    named = {task_id: task for task in record.tasks if isinstance(task_id := task.get("task_id"), str)}
    for task_id, facts in named.items():
        task = tasks.setdefault(task_id, OpenTask())
        task.about = as_text(facts.get("description")) or task.about
        _to_background(step, task)
    trim(tasks, CALLS_OPEN)
    for task_id in [key for key, task in tasks.items() if task.background and key not in named]:
        del tasks[task_id]
    step.store_record("system", "background_tasks_changed")


def notified(step: Step, record: wire.TaskNotification) -> None:
    _over(step, record.task_id, record.tool_use_id or "", record.status or "", record.summary or "")
    step.store_if_silent("system", "task_notification")


def notified_by_text(step: Step, text: str) -> None:
    """Handle a notification from its text for the model: versions without task records, and transcripts, have only
    this."""
    _over(step, user_text.tag(text, "task-id"), user_text.tag(text, "tool-use-id"), user_text.tag(text, "status"), "")
    step.store_if_silent("user", "task_notification")


def _to_background(step: Step, task: OpenTask) -> None:
    task.background = True
    subagent = step.state.subagents.get(task.call)
    if subagent is not None:
        subagent.background = True


def _over(step: Step, task_id: str, call: str, status: str, summary: str) -> None:
    state = step.state
    task = state.tasks.pop(task_id, None)
    call = call or (task.call if task is not None else "") or state.agents.get(task_id, "")
    subagent = state.subagents.get(call)
    if subagent is None:
        if task is not None and task.background:
            data = {"task": task_id, "call": call, "status": status}
            step.emit(Notice, kind="task_notification", text=summary, data=data)
    elif call in state.calls and not subagent.background:
        # Its result, with its text, follows at once.
        subagent.noted = status
    else:
        subagents.finish(step, call, subagents.end_status(status), summary)
        last = not any(sub.background for sub in state.subagents.values())
        # Else the agent opens a turn by itself to report the end of the task.
        silent = step.abilities is not None and not step.abilities.reports_tasks
        if last and (silent or subagents.end_status(status) == "stopped"):
            turns.signal(step, TurnSignal.STOPPED)
