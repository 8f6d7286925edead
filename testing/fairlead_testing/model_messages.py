"""Messages of the Messages API, as both stand-ins build them: ids, token counts, content streamed or whole."""

import uuid
from collections.abc import Iterable
from itertools import repeat
from typing import Any

import msgspec

from fairlead.agents.scripts import ContentBlock, ScriptText, SlowText, ToolUse, chunks

Record = dict[str, Any]

STARTED = {"input_tokens": 11, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 3, "output_tokens": 1}
"""The usage that a message starts with. The numbers have no meaning, but they add up."""
FINISHED = {**STARTED, "output_tokens": 42}


def new_id(prefix: str) -> str:
    """An id such as msg_... or toolu_...: the prefix and hexadecimal digits."""
    return prefix + uuid.uuid4().hex[:24]


def message(message_id: str, model: str, content: list[Record]) -> Record:
    head = {"id": message_id, "type": "message", "role": "assistant", "model": model, "content": content}
    return {**head, "stop_reason": None, "stop_sequence": None, "usage": STARTED}


def stream_block(block: ContentBlock) -> tuple[Record, Iterable[Record], float | None]:
    """The content before its first delta, its deltas, and the seconds after each (None: at the caller's pace)."""
    match block:
        case ScriptText(text, count, kind):
            deltas = [{"type": f"{kind}_delta", kind: part} for part in chunks(text, count)]
            if kind == "text":
                return {"type": "text", "text": ""}, deltas, None
            signature = {"type": "signature_delta", "signature": "c2NyaXB0ZWQ="}
            return {"type": kind, kind: "", "signature": ""}, [*deltas, signature], None
        case SlowText(text, count, delay):
            return {"type": "text", "text": ""}, repeat({"type": "text_delta", "text": text}, count), delay
        case ToolUse(name, arguments):
            parts = chunks(msgspec.json.encode(arguments).decode(), 4)
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
            return {"type": "tool_use", "id": new_id("toolu_"), "name": name, "input": {}}, deltas, 0.0


def complete(opening: Record, deltas: Iterable[Record]) -> Record:
    """The content after these deltas, a tool's input parsed."""
    pieces: dict[str, list[str]] = {}
    for delta in deltas:
        for name, piece in delta.items():
            if name != "type":
                pieces.setdefault(name, []).append(piece)
    content = opening | {name: "".join(parts) for name, parts in pieces.items()}
    typed = content.pop("partial_json", None)
    return content if typed is None else content | {"input": msgspec.json.decode(typed)}
