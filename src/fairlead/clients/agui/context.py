"""What a run has sent so far: the immutable context of `encoder.RunEncoder`. Pure."""

from typing import Any, Final

import msgspec

from fairlead.clients.agui.wire import Event, event
from fairlead.model.store import Entry

LIMIT: Final = 256
"""Maximum number of entries of each table of a run."""

Key = tuple[str, int]
"""A block: the agent's message and the number of the block in it."""


class OpenBlock(msgspec.Struct, frozen=True):
    """A text or reasoning message that was started and not ended."""

    id: str
    reasoning: bool
    subagent: str | None


class SubagentFacts(msgspec.Struct, frozen=True):
    name: str = "subagent"
    description: str | None = None
    parent: str | None = None
    call: str | None = None


class Ask(msgspec.Struct, frozen=True):
    """A request to a person. `settled`: it was answered elsewhere, while another one still waits."""

    request: str
    subagent: str | None
    interrupt: Event
    settled: bool = False


class RunContext(msgspec.Struct, frozen=True):
    """`turn`: the turn whose end is the run's end, once it is known. `running`: the turn that runs now. `sent`: the
    characters of unfinished blocks that were sent. `active` and `closed`: the subagents that were started, and those
    that were finished, in this run. `calls`: the calls without a result. `asks`: requests that wait; while there are
    any, later entries are in `held`, and belong to the run that answers. `quiet`: only reading what an earlier run
    has sent."""

    quiet: bool = False
    turn: str = ""
    running: str = ""
    finished: bool = False
    withdrawn: bool = False
    blocks: tuple[tuple[Key, OpenBlock], ...] = ()
    sent: tuple[tuple[Key, int], ...] = ()
    subagents: tuple[tuple[str, SubagentFacts], ...] = ()
    active: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    calls: tuple[tuple[str, str | None], ...] = ()
    asks: tuple[Ask, ...] = ()
    held: tuple[Entry, ...] = ()
    queue: tuple[str, ...] = ()


def without(pairs: tuple[tuple[Any, Any], ...], key: Any) -> tuple[tuple[Any, Any], ...]:
    return tuple(pair for pair in pairs if pair[0] != key)


def with_pair(pairs: tuple[tuple[Any, Any], ...], key: Any, value: Any) -> tuple[tuple[Any, Any], ...]:
    """The pairs with this one as the newest; the oldest leave a table that is full."""
    return (*without(pairs, key), (key, value))[-LIMIT:]


def found(pairs: tuple[tuple[Any, Any], ...], key: Any) -> Any:
    return next((value for name, value in pairs if name == key), None)


def end_block(block: OpenBlock) -> list[Event]:
    if not block.reasoning:
        return [event("TEXT_MESSAGE_END", messageId=block.id, subagentRunId=block.subagent)]
    ends = ("REASONING_MESSAGE_END", "REASONING_END")
    return [event(kind, messageId=block.id, subagentRunId=block.subagent) for kind in ends]


def start_block(block: OpenBlock, role: str = "assistant") -> list[Event]:
    named = {"messageId": block.id, "subagentRunId": block.subagent}
    if not block.reasoning:
        return [event("TEXT_MESSAGE_START", role=role, **named)]
    return [event("REASONING_START", **named), event("REASONING_MESSAGE_START", role="reasoning", **named)]


def block_content(block: OpenBlock, delta: str) -> Event:
    kind = "REASONING_MESSAGE_CONTENT" if block.reasoning else "TEXT_MESSAGE_CONTENT"
    return event(kind, messageId=block.id, delta=delta, subagentRunId=block.subagent)


def close_all(context: RunContext) -> list[Event]:
    """The events that end everything open, so that the run may finish. A subagent that still works is suspended, and
    the next run that has something of it starts it again."""
    events = [item for _, block in context.blocks for item in end_block(block)]
    for child in reversed(context.active):
        waits = [ask.request for ask in context.asks if ask.subagent == child]
        outcome = {"type": "suspended", **({"interruptIds": waits} if waits else {})}
        events.append(event("SUBAGENT_FINISHED", subagentRunId=child, outcome=outcome))
    return events
