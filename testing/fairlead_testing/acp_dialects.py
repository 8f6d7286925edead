"""Three APIs of models, as far as ACP agents use them: Gemini, OpenAI chat completions and OpenAI responses. Pure.

Each dialect reads a request into the common form (`Asked`) and writes the blocks of an answer, as one body or as
server-sent events. The pace is a field of each piece; the socket and the clock belong to acp_models.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fairlead.agents.scripts import ApiError, ScriptText, SlowText, ToolUse, chunks
from fairlead_testing.acp_scripts import FREE_TEXT, AcpBlock, Said
from fairlead_testing.model_messages import new_id
from fairlead_testing.model_stream import Piece

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request to the model: the conversation, and the names of the tools that the model may call."""

    conversation: tuple[Said, ...]
    tools: frozenset[str]
    model: str
    structured: bool = False
    """Whether the answer must be a JSON value instead of a text."""


class Dialect(Protocol):
    """One API of a model."""

    name: str

    def read(self, body: Json) -> Asked: ...
    def events(self, blocks: Sequence[AcpBlock], asked: Asked) -> Iterator[Piece]: ...
    def answer(self, blocks: Sequence[AcpBlock], asked: Asked) -> Json: ...
    def refusal(self, error: ApiError) -> Json: ...


def deltas(block: ScriptText | SlowText) -> tuple[list[str], float]:
    """The pieces of a text, and the delay after each."""
    if isinstance(block, SlowText):
        return [block.text] * block.count, block.delay
    return chunks(block.text, block.chunks), 0.0


def is_thought(block: AcpBlock) -> bool:
    return isinstance(block, ScriptText) and block.kind == "thinking"


def text_of(blocks: Sequence[AcpBlock]) -> str:
    """The whole text of an answer, without its thoughts."""
    texts = [b for b in blocks if isinstance(b, ScriptText | SlowText) and not is_thought(b)]
    return "".join("".join(deltas(block)[0]) for block in texts)


def flat(content: Any) -> str:
    """The text in a message's content, which may be a text, a block or a list of blocks."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return flat(content.get("text") or content.get("content") or content.get("output") or "")
    return "\n".join(flat(block) for block in content or [])


def event(data: Json, delay: float = 0.0, name: str = "") -> Piece:
    head = f"event: {name}\n" if name else ""
    return Piece(f"{head}data: {json.dumps(data)}\n\n".encode(), delay)


class Gemini:
    """generateContent and streamGenerateContent."""

    name = "gemini"

    def read(self, body: Json) -> Asked:
        said: list[Said] = []
        for content in body.get("contents") or []:
            for part in content.get("parts") or []:
                if "functionResponse" in part:
                    said.append(Said("tool", json.dumps(part["functionResponse"].get("response"))))
                elif "text" in part:
                    said.append(Said("model" if content.get("role") == "model" else "user", part["text"]))
        declared = [f for tool in body.get("tools") or [] for f in tool.get("functionDeclarations") or []]
        structured = (body.get("generationConfig") or {}).get("responseMimeType") == "application/json"
        return Asked(tuple(said), frozenset(f["name"] for f in declared), "", structured)

    def events(self, blocks: Sequence[AcpBlock], asked: Asked) -> Iterator[Piece]:
        for block in blocks:
            if isinstance(block, ToolUse):
                yield event(self._candidate([_function_call(block)]))
            elif isinstance(block, ScriptText | SlowText):
                pieces, delay = deltas(block)
                if is_thought(block):
                    # This API sends a thought as a whole.
                    yield event(self._candidate([{"text": "".join(pieces), "thought": True}]))
                    continue
                for piece in pieces:
                    yield event(self._candidate([{"text": piece}]), delay)
        yield event(self._candidate([{"text": ""}], "STOP"))

    def answer(self, blocks: Sequence[AcpBlock], asked: Asked) -> Json:
        calls = [_function_call(block) for block in blocks if isinstance(block, ToolUse)]
        return self._candidate(calls or [{"text": text_of(blocks)}], "STOP")

    def refusal(self, error: ApiError) -> Json:
        return {"error": {"code": error.status, "message": error.message, "status": "INVALID_ARGUMENT"}}

    def _candidate(self, parts: list[Json], finish: str = "") -> Json:
        candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
        if finish:
            candidate["finishReason"] = finish
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}


def _function_call(block: ToolUse) -> Json:
    return {"functionCall": {"name": block.name, "args": block.input}}


class Chat:
    """OpenAI's chat completions."""

    name = "chat"

    def read(self, body: Json) -> Asked:
        roles = {"user": "user", "tool": "tool"}
        said = [
            Said(roles.get(message.get("role", ""), "model"), flat(message.get("content")))  # type: ignore[arg-type]
            for message in body.get("messages") or []
        ]
        tools = frozenset(tool["function"]["name"] for tool in body.get("tools") or [])
        return Asked(tuple(said), tools, str(body.get("model", "")), bool(body.get("response_format")))

    def events(self, blocks: Sequence[AcpBlock], asked: Asked) -> Iterator[Piece]:
        answer = {"id": new_id("chatcmpl-"), "object": "chat.completion.chunk", "created": 1, "model": asked.model}

        def chunk(delta: Json, finish: str | None = None, delay: float = 0.0) -> Piece:
            return event({**answer, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}, delay)

        yield chunk({"role": "assistant", "content": ""})
        called = 0
        for block in blocks:
            if isinstance(block, ToolUse):
                yield chunk({"tool_calls": [{"index": called, **_chat_call(block)}]})
                called += 1
            elif isinstance(block, ScriptText | SlowText):
                pieces, delay = deltas(block)
                field = "reasoning_content" if is_thought(block) else "content"
                for piece in pieces:
                    yield chunk({field: piece}, delay=delay)
        yield chunk({}, "tool_calls" if called else "stop")
        yield event({**answer, "choices": [], "usage": _CHAT_USAGE})
        yield Piece(b"data: [DONE]\n\n")

    def answer(self, blocks: Sequence[AcpBlock], asked: Asked) -> Json:
        calls = [_chat_call(block) for block in blocks if isinstance(block, ToolUse)]
        message: Json = {"role": "assistant", "content": text_of(blocks)}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "finish_reason": "tool_calls" if calls else "stop", "message": message}
        head = {"id": new_id("chatcmpl-"), "object": "chat.completion", "created": 1, "model": asked.model}
        return {**head, "choices": [choice], "usage": _CHAT_USAGE}

    def refusal(self, error: ApiError) -> Json:
        return {"error": {"message": error.message, "type": error.type, "code": error.type}}


_CHAT_USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def _chat_call(block: ToolUse) -> Json:
    function = {"name": block.name, "arguments": json.dumps(block.input)}
    return {"id": new_id("call_"), "type": "function", "function": function}


class Responses:
    """OpenAI's responses, which Codex uses; always streamed."""

    name = "responses"

    def read(self, body: Json) -> Asked:
        said: list[Said] = []
        for item in body.get("input") or []:
            if item.get("type") in ("function_call_output", "custom_tool_call_output"):
                said.append(Said("tool", flat(item.get("output"))))
            elif item.get("type", "message") == "message":
                said.append(Said("user" if item.get("role") == "user" else "model", flat(item.get("content"))))
        tools = frozenset(str(tool.get("name", tool.get("type"))) for tool in body.get("tools") or [])
        return Asked(tuple(said), tools, str(body.get("model", "")))

    def events(self, blocks: Sequence[AcpBlock], asked: Asked) -> Iterator[Piece]:
        response: Json = {"id": new_id("resp_"), "object": "response", "model": asked.model, "output": []}
        yield _named("response.created", response={**response, "status": "in_progress"})
        items: list[Json] = []
        for index, block in enumerate(blocks):
            item = _item(block)
            place = {"item_id": item["id"], "output_index": index}
            yield _named("response.output_item.added", output_index=index, item={**item, **_opening(item)})
            if isinstance(block, ScriptText | SlowText):
                pieces, delay = deltas(block)
                for piece in pieces:
                    if is_thought(block):
                        kind = "response.reasoning_summary_text.delta"
                        yield _named(kind, delay, **place, summary_index=0, delta=piece)
                    else:
                        yield _named("response.output_text.delta", delay, **place, content_index=0, delta=piece)
            yield _named("response.output_item.done", output_index=index, item=item)
            items.append(item)
        usage: Json = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        yield _named(
            "response.completed", response={**response, "status": "completed", "output": items, "usage": usage}
        )

    def answer(self, blocks: Sequence[AcpBlock], asked: Asked) -> Json:
        items = [_item(block) for block in blocks]
        return {"id": new_id("resp_"), "object": "response", "status": "completed", "output": items}

    def refusal(self, error: ApiError) -> Json:
        return {"error": {"message": error.message, "type": error.type, "code": error.type}}


def _named(kind: str, delay: float = 0.0, **fields: Any) -> Piece:
    return event({"type": kind, **fields}, delay, name=kind)


def _item(block: AcpBlock) -> Json:
    """The whole output item of a block."""
    if isinstance(block, ToolUse):
        call = {"id": new_id("fc_"), "call_id": new_id("call_"), "name": block.name, "status": "completed"}
        if FREE_TEXT in block.input:
            return {"type": "custom_tool_call", **call, "input": block.input[FREE_TEXT]}
        return {"type": "function_call", **call, "arguments": json.dumps(block.input)}
    text = "".join(deltas(block)[0]) if isinstance(block, ScriptText | SlowText) else ""
    if is_thought(block):
        summary = [{"type": "summary_text", "text": text}]
        return {"type": "reasoning", "id": new_id("rs_"), "summary": summary, "encrypted_content": None}
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": new_id("msg_"), "role": "assistant", "status": "completed", "content": content}


def _opening(item: Json) -> Json:
    """The fields of an item that are still empty when it is announced."""
    if item["type"] == "message":
        return {"status": "in_progress", "content": []}
    return {"summary": []} if item["type"] == "reasoning" else {"status": "in_progress"}
