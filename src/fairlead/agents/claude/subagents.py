"""Calls and subagents: which are open, who made them, how they end. A thread is named by the call that began it.

A record whose thread is not known yet is kept at once and held; its meaning follows when the call comes, or is
told in the main thread when the turn ends without it.
"""

from typing import Any, Final, Literal

from fairlead.agents.claude.state import (
    CALLS_OPEN,
    CALLS_SEEN,
    HELD_BYTES,
    HELD_RECORDS,
    THREADS_KEPT,
    Call,
    Held,
    Subagent,
    Task,
    trim,
)
from fairlead.agents.claude.step import Step
from fairlead.model.content import content_blocks, plain_text
from fairlead.model.events import Notice, SubagentEnded, SubagentStarted, ToolCalled, ToolEnded
from fairlead.model.ids import CallId, MessageId, subagent_id

SPAWNING: Final = frozenset({"Task", "Agent"})
"""Tools that start a subagent: `Task` was renamed `Agent`, and both occur."""

AGENT_KEY: Final = "agent:"
"""Prefix of the key under which records are held whose subagent is known only by the CLI's own id."""

End = Literal["completed", "failed", "stopped"]


# --- threads -----------------------------------------------------------------------------------------


def thread_of(step: Step, parent: str | None, agent: str, sidechain: bool = False) -> tuple[str | None, str]:
    """The thread of a record: its name, or None and the key under which to hold it."""
    state = step.state
    if not parent:
        if not agent or not sidechain:
            return "", ""
        call = state.agents.get(agent)
        return call, AGENT_KEY + agent
    if parent in state.calls and parent not in state.subagents:
        adopt(step, parent)
    known = parent in state.subagents or parent in state.threads or parent in state.ended
    if known and agent:
        learn(step, agent, parent)
    return (parent if known else None), parent


def learn(step: Step, agent: str, call: str) -> None:
    """The CLI's own id of a subagent: what waited for it can be told."""
    if step.state.agents.get(agent) != call:
        step.state.agents[agent] = call
        trim(step.state.agents, THREADS_KEPT)
        release(step, AGENT_KEY + agent, call)


def hold(step: Step, key: str) -> bool:
    """Keep the record until its thread is known. False: there is no more room."""
    state = step.state
    held = sum(map(len, state.held.values()))
    if held >= HELD_RECORDS or state.held_bytes + len(step.raw) > HELD_BYTES:
        return False
    state.held.setdefault(key, []).append(Held(step.raw, step.source, step.origin))
    state.held_bytes += len(step.raw)
    return True


def release(step: Step, key: str, thread: str) -> None:
    held = step.state.held.pop(key, ())
    step.state.held_bytes -= sum(len(record.raw) for record in held)
    for record in held:
        step.replay(step, record, thread)


def release_all(step: Step) -> None:
    """What is still held belongs to nobody we know: it is told in the main thread, and said so."""
    for key, held in list(step.state.held.items()):
        step.tell(
            Notice,
            part=key,
            kind="unresolved",
            text="Said by a subagent that is not known here.",
            data={"parent": key.removeprefix(AGENT_KEY), "records": len(held)},
        )
        release(step, key, "")


# --- calls -------------------------------------------------------------------------------------------


def called(
    step: Step, call: str, name: str, arguments: dict[str, Any], thread: str, message: str, block: int, **more: Any
) -> None:
    """A tool call, and the subagent that it starts."""
    state = step.state
    plan = arguments.get("plan")
    state.calls[call] = Call(name, thread, plan if name == "ExitPlanMode" and isinstance(plan, str) else "")
    trim(state.calls, CALLS_OPEN)
    step.tell(
        ToolCalled,
        part=block,
        thread=thread,
        call=CallId(call),
        name=name,
        input=arguments,
        message=MessageId(message),
        block=block,
        **more,
    )
    if name in SPAWNING:
        start(step, call, thread, arguments)
    elif call in state.held:
        adopt(step, call)
    release(step, call, call)


def ended(step: Step, call: str, content: Any, data: Any, is_error: bool, thread: str, part: int) -> None:
    """A tool's result; what it says about subagents and background work."""
    state = step.state
    known = state.calls.pop(call, None)
    if known is None and call in state.ended:
        step.keep("user", "tool_result", part=part, thread=thread)
        return
    where = thread if known is None else known.thread
    interrupted = is_error and (
        (state.turn is not None and state.turn.cancelled) or "[Request interrupted by user" in text_of(content)
    )
    status = "interrupted" if interrupted else "failed" if is_error else "done"
    step.tell(
        ToolEnded,
        part=part,
        thread=where,
        call=CallId(call),
        name="" if known is None else known.name,
        content=content,
        data=data,
        is_error=is_error,
        status=status,
    )
    state.ended.add(call, CALLS_SEEN)
    facts = data if isinstance(data, dict) else {}
    if call in state.subagents:
        _result_of_subagent(step, call, content, facts, is_error, interrupted)
    else:
        _background_shell(step, call, facts)


def _result_of_subagent(
    step: Step, call: str, content: Any, facts: dict[str, Any], is_error: bool, interrupted: bool
) -> None:
    subagent = step.state.subagents[call]
    agent = facts.get("agentId")
    if isinstance(agent, str):
        learn(step, agent, call)
    launched = facts.get("isAsync") is True or facts.get("status") == "async_launched"
    if launched or (subagent.background and not is_error):
        subagent.background = True
        task = step.state.tasks.setdefault(agent if isinstance(agent, str) else call, Task(call))
        task.background = True
        return
    status: End = "stopped" if interrupted else "failed" if is_error else noted(subagent.noted)
    # The structured result has the subagent's words alone, the model's copy notes for the model as well.
    finish(step, call, status, text_of(facts.get("content") or content))


def _background_shell(step: Step, call: str, facts: dict[str, Any]) -> None:
    """Shells that go on after their result; and results of the tools that ask after them."""
    tasks = step.state.tasks
    shell = facts.get("backgroundTaskId")
    if isinstance(shell, str):
        tasks.setdefault(shell, Task(call)).background = True
    else:
        for key in [key for key, task in tasks.items() if task.call == call and not task.background]:
            del tasks[key]
    asked = facts.get("task")
    if isinstance(asked, dict) and asked.get("status") not in (None, "running", "pending"):
        tasks.pop(str(asked.get("task_id")), None)


def text_of(content: Any) -> str:
    return plain_text(content_blocks(content))


# --- subagents ---------------------------------------------------------------------------------------


def start(step: Step, call: str, thread: str, facts: dict[str, Any], background: bool = False) -> None:
    state = step.state
    background = background or facts.get("run_in_background") is True
    state.subagents[call] = Subagent(thread, background)
    trim(state.subagents, CALLS_OPEN)
    state.threads.pop(call, None)
    step.tell(
        SubagentStarted,
        part=call,
        thread=thread,
        child=subagent_id(call),
        call=CallId(call),
        title=_text(facts.get("description")),
        kind=_text(facts.get("subagent_type")),
        prompt=_text(facts.get("prompt")),
        background=background,
    )


def adopt(step: Step, call: str) -> None:
    """Another tool than those we know has a subagent: its call begins it."""
    known = step.state.calls[call]
    start(step, call, known.thread, {"description": known.name})


def noted(status: str) -> End:
    """The CLI's word for how a task ended, in ours."""
    if status == "failed":
        return "failed"
    return "stopped" if status in ("stopped", "killed") else "completed"


def finish(step: Step, call: str, status: End, summary: str) -> None:
    """A subagent's real end; calls of its own that are open end with it."""
    state = step.state
    subagent = state.subagents.pop(call)
    state.threads[call] = subagent.thread
    trim(state.threads, THREADS_KEPT)
    for key in [key for key, task in state.tasks.items() if task.call == call]:
        del state.tasks[key]
    _interrupt(step, [key for key, open_call in state.calls.items() if open_call.thread == call])
    step.tell(
        SubagentEnded,
        part=call,
        thread=subagent.thread,
        child=subagent_id(call),
        call=CallId(call),
        status=status,
        summary=summary,
    )


def in_background(step: Step, thread: str) -> bool:
    """Whether a thread goes on after the turn: it or one above it is an open background subagent."""
    # No circles: a subagent's thread was known before its own call was.
    while (subagent := step.state.subagents.get(thread)) is not None:
        if subagent.background:
            return True
        thread = subagent.thread
    return False


def foreground_calls(step: Step) -> list[str]:
    return [key for key, call in step.state.calls.items() if not in_background(step, call.thread)]


def close(step: Step, everything: bool = False) -> list[str]:
    """The turn is over (or the process, `everything`): what it left open ends; calls, then subagents."""
    state = step.state
    calls = list(state.calls) if everything else foreground_calls(step)
    _interrupt(step, calls)
    for call in [key for key in state.subagents if everything or not in_background(step, key)]:
        finish(step, call, "stopped", "")
    return calls


def _interrupt(step: Step, calls: list[str]) -> None:
    for key in calls:
        call = step.state.calls.pop(key)
        step.state.ended.add(key, CALLS_SEEN)
        step.tell(
            ToolEnded,
            part=key,
            thread=call.thread,
            call=CallId(key),
            name=call.name,
            is_error=True,
            status="interrupted",
        )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
