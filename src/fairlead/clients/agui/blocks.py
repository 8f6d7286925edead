"""Texts and reasoning of a run: started with the first piece, ended with the whole block. Pure."""

from msgspec import structs

from fairlead.clients.agui.context import (
    OpenBlock,
    RunContext,
    block_content,
    end_block,
    found,
    start_block,
    with_pair,
    without,
)
from fairlead.clients.agui.subagents import ensure_started
from fairlead.clients.agui.wire import Event, block_id
from fairlead.model import events as ev

Piece = ev.TextDelta | ev.ThinkingDelta
Whole = ev.Text | ev.Thinking


def send_piece(context: RunContext, one: Piece, kept: tuple[str, ...]) -> tuple[RunContext, list[Event]]:
    """Send what is new of a piece. A piece after a hole is not sent: the whole block has it."""
    key = (one.message, one.block)
    sent: int = found(context.sent, key) or 0
    if one.offset > sent or block_id(*key) in kept:
        return context, []
    text = one.text[sent - one.offset :]
    if not text:
        return context, []
    context, events = _send(context, one, text)
    return structs.replace(context, sent=with_pair(context.sent, key, sent + len(text))), events


def send_whole(
    context: RunContext, one: Whole, kept: tuple[str, ...], sent_up_to: int
) -> tuple[RunContext, list[Event]]:
    """Send the rest of a block, and end it."""
    key = (one.message, one.block)
    if block_id(*key) in kept:
        return context, []
    earlier = max((offset for seq, offset in one.marks if seq <= sent_up_to), default=0)
    rest = one.text[max(found(context.sent, key) or 0, earlier) :]
    context, events = _send(context, one, rest) if rest else (context, [])
    block: OpenBlock | None = found(context.blocks, key)
    if block is not None:
        events = [*events, *end_block(block)]
    return structs.replace(context, blocks=without(context.blocks, key), sent=without(context.sent, key)), events


def _send(context: RunContext, one: Piece | Whole, text: str) -> tuple[RunContext, list[Event]]:
    key = (one.message, one.block)
    block: OpenBlock | None = found(context.blocks, key)
    events: list[Event] = []
    if block is None:
        context, events = ensure_started(context, one.subagent)
        block = OpenBlock(block_id(*key), isinstance(one, ev.Thinking | ev.ThinkingDelta), one.subagent)
        context = structs.replace(context, blocks=(*context.blocks, (key, block)))
        events = [*events, *start_block(block)]
    return context, [*events, block_content(block, text)]
