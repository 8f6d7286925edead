"""Records whose thread is not known yet. They are deferred until it is known, and emitted in the main thread if that
takes too long; if the thread becomes known after that, an event corrects it.
"""

from typing import Final

from fairlead.agents.claude.interpreter.state import (
    ANCESTRY_KEPT,
    HELD_BYTES,
    HELD_RECORDS,
    ORPHANS_KEPT,
    DeferredRecord,
    UnresolvedRecords,
)
from fairlead.agents.claude.interpreter.step import Step
from fairlead.agents.claude.interpreter.subagent_ids import subagent_id
from fairlead.model.events import Block, Event, Notice, SubagentResolved, ToolCalled, UserMessage
from fairlead.model.formats.bounded_tables import trim
from fairlead.model.ids import CallId, MessageId

AGENT_KEY: Final = "agent:"
ROW_KEY: Final = "row:"
PROMPT_KEY: Final = "prompt:"
"""Prefixes of the keys under which records are held: their subagent is known only by the CLI's own id, by the parent
row, or by its prompt. A key without a prefix is the call itself."""


def defer(step: Step, key: str) -> bool:
    """Hold the record until its thread is known. Return False if there is no room left."""
    state = step.state
    held = sum(map(len, state.held.values()))
    if held >= HELD_RECORDS or state.held_bytes + len(step.raw) > HELD_BYTES:
        return False
    state.held.setdefault(key, []).append(DeferredRecord(step.raw, step.source, step.origin))
    state.held_bytes += len(step.raw)
    return True


def replay(step: Step, key: str, thread: str) -> None:
    """Replay the records held under `key`, and the records that turn out to follow them.

    Not recursive: chains can be long."""
    if thread and key in step.state.orphans:
        _resolve(step, key, thread)
    step.releasing.append((key, thread))
    if len(step.releasing) > 1:
        return
    while step.releasing:
        key, thread = step.releasing[0]
        held = step.state.held.pop(key, ())
        step.state.held_bytes -= sum(len(record.raw) for record in held)
        for record in held:
            step.replay(step, record, thread)
        del step.releasing[0]


def release_all(step: Step) -> None:
    """Emit the records that are still held in the main thread, with a notice that their subagent is unknown."""
    state = step.state
    roots = [key for key in state.held if key.startswith(PROMPT_KEY)]
    if len(roots) == len(state.prompts) == 1:
        # Exactly one subagent lacks its rows and one root lacks its subagent: link them, even if the prompts differ.
        replay(step, roots[0], state.prompts.popitem()[0])
    for key in list(state.held):
        if key not in state.held:
            continue  # already released as part of another chain
        chain = _chain(step, key)
        rows = [record.source for link in chain for record in state.held[link]]
        data = {"parent": key.removeprefix(AGENT_KEY), "records": len(rows)}
        text = "The next messages are from an unknown subagent."
        step.emit(Notice, part=key, kind="unresolved", text=text, data=data)
        first = len(step.events)
        for link in chain:
            replay(step, link, "")
        known = state.orphans.setdefault(key, UnresolvedRecords())
        trim(state.orphans, ORPHANS_KEPT)
        _note(known, step.events[first:], rows)


def _chain(step: Step, key: str) -> list[str]:
    """A key of held records, and the keys of the records that wait for one of them."""
    held = step.state.held
    chain = [key]
    for link in chain:
        chain.extend(row for record in held[link] if (row := ROW_KEY + record.source) in held)
    return chain


def _note(orphan: UnresolvedRecords, events: list[Event], rows: list[str]) -> None:
    messages = (event.message for event in events if isinstance(event, Block | UserMessage))
    orphan.messages = list(dict.fromkeys([*orphan.messages, *messages]))
    orphan.calls += [event.call for event in events if isinstance(event, ToolCalled)]
    orphan.rows += rows


def _resolve(step: Step, key: str, thread: str) -> None:
    """Assign records that were emitted in the main thread to their thread, which is now known."""
    state = step.state
    orphan = state.orphans.pop(key)
    if orphan.messages or orphan.calls:
        step.emit(
            SubagentResolved,
            part=key,
            thread=state.subagents[thread].thread if thread in state.subagents else "",
            child=subagent_id(thread),
            call=CallId(thread),
            messages=tuple(map(MessageId, orphan.messages)),
            calls=tuple(map(CallId, orphan.calls)),
        )
    for call in orphan.calls:
        if call in state.calls:
            state.calls[call].thread = thread
    for row in orphan.rows:
        state.ancestry[row] = thread
        if ROW_KEY + row in state.held or ROW_KEY + row in state.orphans:
            replay(step, ROW_KEY + row, thread)
    trim(state.ancestry, ANCESTRY_KEPT)
