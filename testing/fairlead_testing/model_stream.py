"""Turns the blocks of a script into Messages API answers: whole, or as server-sent events.

Rule: pure. The pace is a field of each piece; the socket and the clock belong to model_api.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.agents.scripts import Block, ContentBlock, Fault, ToolUse
from fairlead_testing.model_messages import FINISHED, complete, message, new_id, stream_block


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes to send, and the delay after them; with None the server sets the pace."""

    data: bytes
    delay: float | None = 0.0


@dataclass(frozen=True, slots=True)
class CutHere:
    """The point where the connection breaks."""


def stop_reason(blocks: Sequence[Block]) -> str:
    return "tool_use" if any(isinstance(b, ToolUse) for b in blocks) else "end_turn"


def answer(blocks: Sequence[Block], model: str) -> dict[str, Any]:
    """The whole message, for a request that does not stream."""
    streams = [stream_block(block) for block in blocks if isinstance(block, ContentBlock)]
    content = [complete(opening, deltas) for opening, deltas, _ in streams]
    return message(new_id("msg_"), model, content) | {"stop_reason": stop_reason(blocks), "usage": FINISHED}


def server_events(blocks: Sequence[Block], model: str) -> Iterator[Piece | CutHere]:
    """The stream of one message; a fault among the blocks ends it early."""
    yield _event({"type": "message_start", "message": message(new_id("msg_"), model, [])})
    yield _event({"type": "ping"})
    index = 0
    for block in blocks:
        if block in (Fault.CUT, Fault.CRASH):
            yield CutHere()
            return
        if not isinstance(block, ContentBlock):
            continue
        opening, deltas, delay = stream_block(block)
        yield _event({"type": "content_block_start", "index": index, "content_block": opening})
        for delta in deltas:
            yield _event({"type": "content_block_delta", "index": index, "delta": delta}, delay)
        yield _event({"type": "content_block_stop", "index": index})
        index += 1
    ending = {"stop_reason": stop_reason(blocks), "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": ending, "usage": FINISHED})
    yield _event({"type": "message_stop"})


def _event(data: dict[str, Any], delay: float | None = 0.0) -> Piece:
    return Piece(f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode(), delay)
