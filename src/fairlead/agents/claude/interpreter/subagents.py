"""Calls and subagents: which are open, which thread made them, how they end.

A thread is named by the call that started it. A record whose thread is not known yet is stored at once and deferred; it
is interpreted when the call comes, or in the main thread when the turn ends without it. If the call comes after that,
an event corrects the thread.
"""

import re
from typing import Any, Final, Literal

from fairlead.agents.claude.interpreter.deferred import AGENT_KEY, PROMPT_KEY, ROW_KEY, replay
from fairlead.agents.claude.interpreter.state import (
    ANCESTRY_KEPT,
    CALLS_OPEN,
    CALLS_SEEN,
    THREADS_KEPT,
    OpenCall,
    OpenSubagent,
    OpenTask,
)
from fairlead.agents.claude.interpreter.step import Step
from fairlead.agents.claude.interpreter.subagent_ids import subagent_id
from fairlead.agents.claude.wire.records import BaseRecord, UserRecord, as_text
from fairlead.model.content import content_blocks, plain_text
from fairlead.model.events import SubagentEnded, SubagentStarted, ToolCalled, ToolEnded
from fairlead.model.formats.bounded_tables import put
from fairlead.model.ids import CallId

SPAWNING: Final = frozenset({"Task", "Agent"})
"""Tools that start a subagent: `Task` was renamed to `Agent`, and both occur."""

_AGENT_ID: Final = re.compile(r"^agentId: ?([0-9A-Za-z_-]{1,64})\b", re.MULTILINE)

End = Literal["completed", "failed", "stopped"]


# --- threads -----------------------------------------------------------------------------------------


def resolve_thread(step: Step, row: BaseRecord) -> tuple[str | None, str]:
    """Return the thread of a record, or None and the key under which to hold the record.

    It is found by the call that the record names, else by the CLI's id of the subagent, else (older transcripts have
    neither) by the parent row; for the first row of a subagent by its prompt."""
    state = step.state
    if row.parent_call:
        parent = row.parent_call
        if parent in state.calls and parent not in state.subagents:
            promote_to_subagent(step, parent)
        known = _is_known(step, parent)
        if known and row.agent:
            link_agent(step, row.agent, parent)
        return (parent if known else None), parent
    if not row.in_sidechain:
        return "", ""
    prompt = text_of(row.message.content).strip() if isinstance(row, UserRecord) else ""
    if row.agent:
        if row.agent not in state.agents and prompt and not row.parent_row:
            # Link the subagent to its call by the prompt, if only this subagent and one call have it; else it waits.
            put(state.roots, row.agent, prompt, THREADS_KEPT)
            _match(step, prompt)
        call = state.agents.get(row.agent)
        return (call if call is not None and _is_known(step, call) else None), AGENT_KEY + row.agent
    thread = state.ancestry.get(row.parent_row)
    if thread is not None:
        return thread, ""
    if prompt:
        asked = next((call for call, given in state.prompts.items() if given == prompt), None)
        if asked is not None:
            del state.prompts[asked]
            return asked, ""
    return None, (ROW_KEY + row.parent_row if row.parent_row else PROMPT_KEY + prompt)


def link_row(step: Step, row: BaseRecord, thread: str) -> None:
    """Remember the thread of a sidechain row, and release the deferred rows that follow it."""
    if thread and row.in_sidechain and not row.agent and not row.parent_call and row.uuid:
        put(step.state.ancestry, row.uuid, thread, ANCESTRY_KEPT)
        replay(step, ROW_KEY + row.uuid, thread)


def _match(step: Step, prompt: str) -> None:
    state = step.state
    agents = [agent for agent, wanted in state.roots.items() if wanted == prompt]
    calls = [call for call, given in state.prompts.items() if given == prompt]
    if len(agents) == 1 and len(calls) == 1:
        link_agent(step, agents[0], calls[0])


def link_agent(step: Step, agent: str, call: str) -> None:
    """Link the CLI's own id of a subagent to its call, and release the records that wait for it."""
    state = step.state
    state.roots.pop(agent, None)
    state.prompts.pop(call, None)
    put(state.agents, agent, call, THREADS_KEPT)
    if _is_known(step, call):
        replay(step, AGENT_KEY + agent, call)


def _is_known(step: Step, call: str) -> bool:
    """Whether the call of a subagent was emitted: the subagent works, or has worked before."""
    state = step.state
    return call in state.subagents or call in state.threads or call in state.ended


# --- calls -------------------------------------------------------------------------------------------


def called(
    step: Step, call: str, name: str, arguments: dict[str, Any], thread: str, *, block: int, **more: Any
) -> None:
    """Handle a tool call, and start its subagent if it has one. `more`: other fields of the event."""
    state = step.state
    plan = as_text(arguments.get("plan")) if name == "ExitPlanMode" else ""
    put(state.calls, call, OpenCall(name, thread, plan), CALLS_OPEN)
    fields: dict[str, Any] = {"call": CallId(call), "name": name, "input": arguments, "block": block, **more}
    step.emit(ToolCalled, part=block, thread=thread, **fields)
    if name in SPAWNING:
        start(step, call, thread, arguments)
    elif call in state.held:
        promote_to_subagent(step, call)
    replay(step, call, call)


def ended(step: Step, call: str, content: Any, data: Any, is_error: bool, thread: str, part: int) -> None:
    """Handle a tool's result, including its information about subagents and background work."""
    state = step.state
    known = state.calls.pop(call, None)
    if known is None and call in state.ended:
        step.store_record("user", "tool_result", part=part, thread=thread)
        return
    where = thread if known is None else known.thread
    interrupted = is_error and (
        (state.turn is not None and state.turn.cancelled) or "[Request interrupted by user" in text_of(content)
    )
    status = "interrupted" if interrupted else "failed" if is_error else "done"
    facts = data if isinstance(data, dict) else {}
    goes_on = call in state.subagents and _goes_on(state.subagents[call], facts, is_error)
    name = "" if known is None else known.name
    step.emit(
        ToolEnded,
        part=part,
        thread=where,
        call=CallId(call),
        name=name,
        content=content,
        data=data,
        is_error=is_error,
        status=status,
        background=goes_on,
    )
    state.ended.add(call, CALLS_SEEN)
    if call in state.subagents:
        _result_of_subagent(step, call, name, content, facts, is_error, interrupted)
    else:
        _background_shell(step, call, name, facts)


def _goes_on(subagent: OpenSubagent, facts: dict[str, Any], is_error: bool) -> bool:
    """Whether a subagent still works although its call's result has come."""
    launched = facts.get("isAsync") is True or facts.get("status") == "async_launched"
    return launched or (subagent.background and not is_error)


def _result_of_subagent(
    step: Step, call: str, name: str, content: Any, facts: dict[str, Any], is_error: bool, interrupted: bool
) -> None:
    subagent = step.state.subagents[call]
    agent = facts.get("agentId") or _agent_in(content)
    if isinstance(agent, str):
        link_agent(step, agent, call)
    if _goes_on(subagent, facts, is_error):
        subagent.background = True
        task = step.state.tasks.setdefault(agent if isinstance(agent, str) else call, OpenTask(call, about=name))
        task.background = True
        return
    status: End = "stopped" if interrupted else "failed" if is_error else end_status(subagent.noted)
    # The structured result has only the subagent's text; the model's copy also has notes for the model.
    finish(step, call, status, text_of(facts.get("content") or content))


def _background_shell(step: Step, call: str, name: str, facts: dict[str, Any]) -> None:
    """Handle shells that continue after their result, and the results of tools that query them."""
    tasks = step.state.tasks
    shell = facts.get("backgroundTaskId")
    if isinstance(shell, str):
        tasks.setdefault(shell, OpenTask(call, about=name)).background = True
    else:
        for key in [key for key, task in tasks.items() if task.call == call and not task.background]:
            del tasks[key]
    asked = facts.get("task")
    if isinstance(asked, dict) and asked.get("status") not in (None, "running", "pending"):
        tasks.pop(str(asked.get("task_id")), None)


def text_of(content: Any) -> str:
    return plain_text(content_blocks(content))


def _agent_in(content: Any) -> str | None:
    """The CLI's id of a subagent from a result's text for the model, for results without structured data."""
    found = _AGENT_ID.findall(text_of(content))
    # The last match: the text before it is the subagent's own.
    return found[-1] if found else None


# --- subagents ---------------------------------------------------------------------------------------


def start(step: Step, call: str, thread: str, facts: dict[str, Any], background: bool = False) -> None:
    state = step.state
    background = background or facts.get("run_in_background") is True
    again = call in state.threads or call in state.ended
    put(state.subagents, call, OpenSubagent(thread, background), CALLS_OPEN)
    state.threads.pop(call, None)
    turn = state.began.get(thread) or (state.turn.id if state.turn is not None else "")
    if turn and call not in state.began:
        put(state.began, call, turn, CALLS_OPEN)
    prompt = as_text(facts.get("prompt")).strip()
    if prompt and not again and call not in state.agents.values():
        put(state.prompts, call, prompt, THREADS_KEPT)
    step.emit(
        SubagentStarted,
        part=call,
        thread=thread,
        child=subagent_id(call),
        call=CallId(call),
        title=as_text(facts.get("description")),
        kind=as_text(facts.get("subagent_type")),
        prompt=as_text(facts.get("prompt")),
        background=background,
    )
    for agent in [agent for agent, known in state.agents.items() if known == call]:
        replay(step, AGENT_KEY + agent, call)
    if call in state.prompts and PROMPT_KEY + prompt in state.orphans:
        del state.prompts[call]
        replay(step, PROMPT_KEY + prompt, call)
    if call in state.prompts:
        _match(step, prompt)
        if call in state.prompts and PROMPT_KEY + prompt in state.held:
            _take_root(step, call, prompt)


def _take_root(step: Step, call: str, prompt: str) -> None:
    """Assign the first root that waits for this prompt to the call; the others wait for the next call."""
    state = step.state
    waiting = state.held[PROMPT_KEY + prompt]
    first = waiting.pop(0)
    if not waiting:
        del state.held[PROMPT_KEY + prompt]
    state.held_bytes -= len(first.raw)
    del state.prompts[call]
    step.replay(step, first, call)


def promote_to_subagent(step: Step, call: str) -> None:
    """Start a subagent for a call of a tool that is not in `SPAWNING`."""
    known = step.state.calls[call]
    start(step, call, known.thread, {"description": known.name})


def end_status(status: str) -> End:
    """Translate the CLI's status of an ended task into ours."""
    if status == "failed":
        return "failed"
    return "stopped" if status in ("stopped", "killed") else "completed"


def finish(step: Step, call: str, status: End, summary: str) -> None:
    state = step.state
    subagent = state.subagents.pop(call)
    put(state.threads, call, subagent.thread, THREADS_KEPT)
    for key in [key for key, task in state.tasks.items() if task.call == call]:
        del state.tasks[key]
    if step.origin != "transcript":
        # With a transcript, the subagent's own file may still show how they ended.
        _interrupt(step, [key for key, open_call in state.calls.items() if open_call.thread == call])
    names = {"child": subagent_id(call), "call": CallId(call)}
    step.emit(SubagentEnded, part=call, thread=subagent.thread, status=status, summary=summary, **names)


def in_background(step: Step, thread: str) -> bool:
    """Whether a thread continues after the turn: it or one of its ancestors is an open background subagent."""
    # This cannot loop: a subagent's parent thread was known before its own call.
    while (subagent := step.state.subagents.get(thread)) is not None:
        if subagent.background:
            return True
        thread = subagent.thread
    return False


def foreground_calls(step: Step) -> list[str]:
    return [key for key, call in step.state.calls.items() if not in_background(step, call.thread)]


def close(step: Step, everything: bool = False) -> list[str]:
    """End all calls and then all subagents that the turn (with `everything`: the process) has left open.

    Return the calls."""
    state = step.state
    calls = list(state.calls) if everything else foreground_calls(step)
    if not everything and step.origin == "transcript":
        calls = [call for call in calls if not state.calls[call].thread]
    _interrupt(step, calls, everything)
    for thread, stream in state.streams.items():
        if everything or not in_background(step, thread):
            step.end_unfinished_calls(thread, stream)
    for call in [key for key in state.subagents if everything or not in_background(step, key)]:
        finish(step, call, "stopped", "")
    return calls


def _interrupt(step: Step, calls: list[str], everything: bool = False) -> None:
    for key in calls:
        goes_on = not everything and in_background(step, key)
        call = step.state.calls.pop(key)
        step.interrupt_call(key, call.name, call.thread, background=goes_on)
