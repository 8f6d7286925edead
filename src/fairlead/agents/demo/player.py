"""Plays the blocks of a script as one message of the model: deltas, one assistant record per block, transcript lines.

Rule: this module knows only the order of a message's records. Cancelling `play` interrupts it; the rest of the message
then waits in `Player.unfinished`, because the host must first receive the answer to its interrupt.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from fairlead.agents.demo import records, usage
from fairlead.agents.demo.ids import new_id
from fairlead.agents.demo.records import Record, RecordSource
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
from fairlead.agents.demo.session import DemoSession
from fairlead.agents.demo.transcript import Transcript

# Fast, but a person still sees a stream.
_DELTA_DELAY = 0.005
# Lines of a burst between two yields to the event loop.
_BURST_BATCH = 200
_SIGNATURE = "c2NyaXB0ZWQ="


@dataclass(slots=True)
class Played:
    """A message that was played, whole or cut off."""

    content: list[Record] = field(default_factory=list)
    stop_reason: str | None = None
    cut: bool = False

    @property
    def text(self) -> str:
        return "".join(str(b["text"]) for b in self.content if b["type"] == "text")

    @property
    def calls(self) -> list[Record]:
        return [b for b in self.content if b["type"] == "tool_use"]


class Player:
    """Plays messages for one thread of the conversation."""

    def __init__(
        self, session: DemoSession, speaker: RecordSource, transcript: Transcript, forwards: Callable[[Record], bool]
    ) -> None:
        self._session = session
        self._speaker = speaker
        self._transcript = transcript
        self._forwards = forwards
        # The real CLI streams the main thread only.
        self._streams = session.options.partial and speaker.agent_id is None
        self.unfinished: Unfinished | None = None

    async def play(self, blocks: list[Block], fields: Record) -> Played:
        """Play one message; `fields` are added to each of its assistant records."""
        message = _Message(new_id("msg_"), new_id("req_"), self._session.model, dict(fields))
        played = Played()
        if self._streams:
            self._session.emit(records.status(self._session.id, "requesting"))
            start = records.message(message.id, message.model, [], usage.STARTED)
            self._event(message, {"type": "message_start", "message": start}, ttft_ms=1, thinking_display="updates")
        try:
            for block in blocks:
                if isinstance(block, CutStream):
                    played.cut = True
                    break
                await self._play_block(message, block, played)
        except asyncio.CancelledError:
            self.unfinished = Unfinished(self, message)
            raise
        played.stop_reason = None if played.cut else "tool_use" if played.calls else "end_turn"
        self._close(message, played.stop_reason)
        return played

    async def _play_block(self, message: _Message, block: Block, played: Played) -> None:
        if isinstance(block, Crash):
            self._session.crash()
        if isinstance(block, UnknownRecords):
            self._say_the_unknown(message)
            return
        opening = _opening(block)
        shown = {"thinking_display": "updates"} if isinstance(block, ScriptThinking) else {}
        event = {"type": "content_block_start", "index": message.index, "content_block": dict(opening)}
        self._event(message, event, **shown)
        message.open = opening
        if isinstance(block, SlowText) and not block.delay:
            await self._burst(message, block)
        else:
            async for delta in _deltas(block):
                self._delta(message, delta)
        self._finish_block(message, played)

    def _delta(self, message: _Message, delta: Record) -> None:
        assert message.open is not None
        fields: Record = {}
        if delta["type"] == "thinking_delta":
            message.thought += len(delta["thinking"]) // 3 or 1
            self._session.emit_system("thinking_tokens", estimated_tokens=message.thought, estimated_tokens_delta=1)
            fields["thinking_display"] = "updates"
        _grow(message.open, delta)
        self._event(message, {"type": "content_block_delta", "index": message.index, "delta": delta}, **fields)

    async def _burst(self, message: _Message, block: SlowText) -> None:
        """Emit many equal deltas, encoded once, so that a load test measures the gateway and not this process."""
        delta = {"type": "text_delta", "text": block.text}
        event = {"type": "content_block_delta", "index": message.index, "delta": delta}
        record = records.stream_event(self._speaker, event, message.id)
        head, tail = json.dumps(record, separators=(",", ":")).encode().split(str(record["uuid"]).encode())
        family = str(record["uuid"])[:24].encode()
        sent = 0
        try:
            while sent < block.count:
                if sent % _BURST_BATCH == 0:
                    await asyncio.sleep(0)
                if self._streams:
                    self._session.wire.emit_bytes(b"%b%b%012x%b\n" % (head, family, sent, tail))
                sent += 1
        finally:
            message.open = {"type": "text", "text": block.text * sent}

    def _finish_block(self, message: _Message, played: Played, **fields: Any) -> None:
        block = _complete(message)
        message.open = None
        played.content.append(block)
        if block["type"] == "thinking":
            fields |= {"thinking_duration_ms": 1, "thinking_display": "updates"}
        record = records.assistant(
            self._speaker, message.id, message.model, block, message.request_id, **fields, **message.fields
        )
        message.emitted.append(record)
        if self._forwards(block):
            self._session.emit(record)
        self._event(message, {"type": "content_block_stop", "index": message.index})
        message.index += 1

    def _close(self, message: _Message, stop_reason: str | None) -> None:
        if stop_reason is None:  # cut off
            lost = {"api_message_id": message.id, "from_block_index": message.index}
            self._event(message, {"type": "message_stop"}, abandoned_blocks=lost)
        else:
            delta = {"stop_reason": stop_reason, "stop_sequence": None}
            self._event(message, {"type": "message_delta", "delta": delta, "usage": usage.FINISHED})
            self._event(message, {"type": "message_stop"})
        self.write(message, stop_reason, usage.full_usage(1))

    def write(self, message: _Message, stop_reason: str | None, spent: Record, **fields: Any) -> None:
        """Write a message's transcript lines: at its end, with its final usage."""
        for index, record in enumerate(message.emitted):
            body = {k: v for k, v in record["message"].items() if k != "context_management"}
            self._transcript.add(
                {
                    "message": {**body, "stop_reason": stop_reason, "usage": spent},
                    "apiBlockIndex": index,
                    "requestId": message.request_id,
                    "type": "assistant",
                    "uuid": record["uuid"],
                    "timestamp": record["timestamp"],
                    **fields,
                }
            )

    def _event(self, message: _Message, event: Record, **fields: Any) -> None:
        if self._streams:
            self._session.emit(records.stream_event(self._speaker, event, message.id, **fields))

    def _say_the_unknown(self, message: _Message) -> None:
        """Emit records of types that no gateway knows: the gateway must pass them through."""
        session = self._session
        session.emit({"type": "demo_unheard_of", "session_id": session.id, "note": "nobody knows this type"})
        session.emit_system("demo_never_seen", note="nobody knows this subtype", nested={"list": [1, None, "ü"]})
        self._event(message, {"type": "demo_event", "note": "nobody knows this event"})


@dataclass(slots=True)
class _Message:
    """A message that is being played: the records emitted so far, and the open block."""

    id: str
    request_id: str
    model: str
    fields: Record
    index: int = 0
    thought: int = 0
    open: Record | None = None
    emitted: list[Record] = field(default_factory=list)


class Unfinished:
    """The rest of an interrupted message: first its text so far, later the end of its stream."""

    def __init__(self, player: Player, message: _Message) -> None:
        self._player = player
        self._message = message

    def emit_text(self) -> list[Record]:
        """Emit and write the text so far; return the content for the conversation."""
        player, message = self._player, self._message
        block = _complete(message) if message.open is not None else None
        if block is not None and block.get("text"):
            record = records.assistant(
                player._speaker,
                message.id,
                message.model,
                block,
                message.request_id,
                aborted=True,
                **message.fields,
            )
            message.emitted.append(record)
            player._session.emit(record)
        player.write(message, None, usage.STARTED, isAbortedMidStream=True)
        return [record["message"]["content"][0] for record in message.emitted]

    def end_stream(self) -> None:
        """Emit the closing stream events, so that no reader waits for the message's end."""
        player, message = self._player, self._message
        if message.open is not None:
            player._event(message, {"type": "content_block_stop", "index": message.index})
        delta = {"stop_reason": None, "stop_sequence": None}
        player._event(message, {"type": "message_delta", "delta": delta, "usage": usage.STARTED})
        lost = {"api_message_id": message.id, "from_block_index": message.index + 1}
        player._event(message, {"type": "message_stop"}, abandoned_blocks=lost)


def _opening(block: Block) -> Record:
    """A content block before its first delta."""
    match block:
        case ScriptText() | SlowText():
            return {"type": "text", "text": ""}
        case ScriptThinking():
            return {"type": "thinking", "thinking": "", "signature": ""}
        case ToolUse(name):
            return {"type": "tool_use", "id": new_id("toolu_"), "name": name, "input": {}}
        case ApiError() | CutStream() | Crash() | UnknownRecords():
            raise AssertionError(f"{block} is no content")


async def _deltas(block: Block) -> AsyncIterator[Record]:
    match block:
        case ScriptText(text, count):
            for part in chunks(text, count):
                yield {"type": "text_delta", "text": part}
                await asyncio.sleep(_DELTA_DELAY)
        case SlowText(text, count, delay):
            for _ in range(count):
                yield {"type": "text_delta", "text": text}
                await asyncio.sleep(delay)
        case ScriptThinking(text, count):
            for part in chunks(text, count):
                yield {"type": "thinking_delta", "thinking": part}
                await asyncio.sleep(_DELTA_DELAY)
            yield {"type": "signature_delta", "signature": _SIGNATURE}
        case ToolUse(_, arguments):
            for part in chunks(json.dumps(arguments), 4):
                yield {"type": "input_json_delta", "partial_json": part}
        case ApiError() | CutStream() | Crash() | UnknownRecords():
            return


def _grow(block: Record, delta: Record) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case "input_json_delta":
            block["json"] = block.get("json", "") + delta["partial_json"]


def _complete(message: _Message) -> Record:
    """The open block as content, a tool's input parsed."""
    assert message.open is not None
    block = dict(message.open)
    typed = block.pop("json", None)
    if typed is not None:
        block["input"] = json.loads(typed)
    return block
