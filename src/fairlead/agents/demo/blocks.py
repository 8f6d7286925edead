"""The blocks of a script as content of the Messages API, streamed or whole; both stand-ins use it."""

from collections.abc import Iterable
from itertools import repeat

import msgspec

from fairlead.agents.demo.ids import new_id
from fairlead.agents.demo.records import Record
from fairlead.agents.demo.scripts import ContentBlock, ScriptText, ScriptThinking, SlowText, ToolUse, chunks

_SIGNATURE = "c2NyaXB0ZWQ="


def stream_block(block: ContentBlock) -> tuple[Record, Iterable[Record], float | None]:
    """The content before its first delta, its deltas, and the seconds after each (None: at the caller's pace)."""
    match block:
        case ScriptText(text, count):
            deltas: Iterable[Record] = [{"type": "text_delta", "text": part} for part in chunks(text, count)]
            return {"type": "text", "text": ""}, deltas, None
        case SlowText(text, count, delay):
            return {"type": "text", "text": ""}, repeat({"type": "text_delta", "text": text}, count), delay
        case ScriptThinking(text, count):
            thoughts = [{"type": "thinking_delta", "thinking": part} for part in chunks(text, count)]
            deltas = [*thoughts, {"type": "signature_delta", "signature": _SIGNATURE}]
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas, None
        case ToolUse(name, arguments):
            parts = chunks(msgspec.json.encode(arguments).decode(), 4)
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
            return {"type": "tool_use", "id": new_id("toolu_"), "name": name, "input": {}}, deltas, 0.0


def add_delta(content: Record, delta: Record) -> None:
    for name, piece in delta.items():
        if name != "type":
            content[name] = content.get(name, "") + piece


def complete(content: Record) -> Record:
    """The content after its last delta, a tool's input parsed."""
    content = dict(content)
    typed = content.pop("partial_json", None)
    if typed is not None:
        content["input"] = msgspec.json.decode(typed)
    return content


def whole_block(block: ContentBlock) -> Record:
    content, deltas, _ = stream_block(block)
    for delta in deltas:
        add_delta(content, delta)
    return complete(content)
