"""Turns the blocks of a script into Messages API answers: whole, or as server-sent events.

Rule: pure. The pace is a field of each piece; the socket and the clock belong to model_api.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.agents.demo.scripts import (
    ApiError,
    Block,
    Crash,
    CutStream,
    ScriptText,
    ScriptThinking,
    SlowText,
    ToolUse,
    UnknownRecords,
    chunks,
)

# Round numbers without a meaning: the CLI adds them up, and tests can check the sums.
USAGE = {"input_tokens": 11, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 3}
OUTPUT_TOKENS = 42
SIGNATURE = "c2NyaXB0ZWQ="


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes to send, and the delay after them; with None the server sets the pace."""

    data: bytes
    delay: float | None = 0.0


@dataclass(frozen=True, slots=True)
class CutHere:
    """The point where the connection breaks."""


def new_id(prefix: str) -> str:
    return prefix + uuid.uuid4().hex[:24]


def stop_reason(blocks: Sequence[Block]) -> str:
    return "tool_use" if any(isinstance(b, ToolUse) for b in blocks) else "end_turn"


def answer(blocks: Sequence[Block], model: str) -> dict[str, Any]:
    """The whole message, for a request that does not stream."""
    content = [c for b in blocks if (c := _content(b)) is not None]
    message = _message(model)
    message |= {"content": content, "stop_reason": stop_reason(blocks)}
    message["usage"] = {**USAGE, "output_tokens": OUTPUT_TOKENS}
    return message


def server_events(blocks: Sequence[Block], model: str) -> Iterator[Piece | CutHere]:
    """The stream of one message; a fault among the blocks ends it early."""
    yield _event({"type": "message_start", "message": _message(model)})
    yield _event({"type": "ping"})
    index = 0
    for block in blocks:
        if isinstance(block, CutStream | Crash):
            yield CutHere()
            return
        opening = _opening(block)
        if opening is None:
            continue
        yield _event({"type": "content_block_start", "index": index, "content_block": opening})
        for delta, delay in _deltas(block):
            yield _event({"type": "content_block_delta", "index": index, "delta": delta}, delay)
        yield _event({"type": "content_block_stop", "index": index})
        index += 1
    delta = {"stop_reason": stop_reason(blocks), "stop_sequence": None}
    usage = {**USAGE, "output_tokens": OUTPUT_TOKENS}
    yield _event({"type": "message_delta", "delta": delta, "usage": usage})
    yield _event({"type": "message_stop"})


def _message(model: str) -> dict[str, Any]:
    return {
        "id": new_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**USAGE, "output_tokens": 1},
    }


def _event(data: dict[str, Any], delay: float | None = 0.0) -> Piece:
    return Piece(f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode(), delay)


def _content(block: Block) -> dict[str, Any] | None:
    match block:
        case ScriptText(text):
            return {"type": "text", "text": text}
        case SlowText(text, count):
            return {"type": "text", "text": text * count}
        case ScriptThinking(text):
            return {"type": "thinking", "thinking": text, "signature": SIGNATURE}
        case ToolUse(name, arguments):
            return {"type": "tool_use", "id": new_id("toolu_"), "name": name, "input": arguments}
        case ApiError() | CutStream() | Crash() | UnknownRecords():
            return None


def _opening(block: Block) -> dict[str, Any] | None:
    """A content block before its first delta."""
    content = _content(block)
    if content is not None:
        for grows in ("text", "thinking", "signature"):
            if grows in content:
                content[grows] = ""
        if "input" in content:
            content["input"] = {}
    return content


def _deltas(block: Block) -> Iterator[tuple[dict[str, Any], float | None]]:
    match block:
        case ScriptText(text, count):
            for part in chunks(text, count):
                yield {"type": "text_delta", "text": part}, None
        case SlowText(text, count, delay):
            for _ in range(count):
                yield {"type": "text_delta", "text": text}, delay
        case ScriptThinking(text, count):
            for part in chunks(text, count):
                yield {"type": "thinking_delta", "thinking": part}, None
            yield {"type": "signature_delta", "signature": SIGNATURE}, 0.0
        case ToolUse(_, arguments):
            for part in chunks(json.dumps(arguments), 4):
                yield {"type": "input_json_delta", "partial_json": part}, 0.0
        case ApiError() | CutStream() | Crash() | UnknownRecords():
            return
