"""Subagents of a run: each is started before its first event, once in a run, and its parent before it. Pure."""

from msgspec import structs

from fairlead.clients.agui.context import LIMIT, RunContext, SubagentFacts, end_block, found, with_pair
from fairlead.clients.agui.wire import Event, event
from fairlead.model import events as ev

_DEPTH = 16


def started(context: RunContext, one: ev.SubagentStarted) -> tuple[RunContext, list[Event]]:
    name = one.title or one.kind or "subagent"
    facts = SubagentFacts(name, one.prompt or None, one.subagent, one.call)
    context = structs.replace(context, subagents=with_pair(context.subagents, one.child, facts))
    return ensure_started(context, one.child)


def ended(context: RunContext, one: ev.SubagentEnded) -> tuple[RunContext, list[Event]]:
    if one.child in context.closed:
        return context, []
    context, events = ensure_started(context, one.child)
    mine = [pair for pair in context.blocks if pair[1].subagent == one.child]
    for _, block in mine:
        events = [*events, *end_block(block)]
    if one.status == "completed":
        outcome, result = {"type": "success"}, one.summary or None
        events = [*events, event("SUBAGENT_FINISHED", subagentRunId=one.child, result=result, outcome=outcome)]
    else:
        message = one.summary or f"The subagent {one.status}."
        events = [*events, event("SUBAGENT_ERROR", subagentRunId=one.child, message=message, code=one.status)]
    return structs.replace(
        context,
        blocks=tuple(pair for pair in context.blocks if pair not in mine),
        active=tuple(child for child in context.active if child != one.child),
        closed=(*context.closed, one.child)[-LIMIT:],
    ), events


def ensure_started(context: RunContext, child: str | None, depth: int = 0) -> tuple[RunContext, list[Event]]:
    """Start a subagent that this run has not started yet: it may have worked in an earlier run."""
    if child is None or child in context.active or child in context.closed:
        return context, []
    facts: SubagentFacts = found(context.subagents, child) or SubagentFacts()
    parent = facts.parent if depth < _DEPTH and facts.parent != child else None
    context, events = ensure_started(context, parent, depth + 1)
    start = event(
        "SUBAGENT_STARTED",
        subagentRunId=child,
        name=facts.name,
        description=facts.description,
        parentSubagentRunId=parent,
        parentToolCallId=facts.call,
    )
    return structs.replace(context, active=(*context.active, child)), [*events, start]
