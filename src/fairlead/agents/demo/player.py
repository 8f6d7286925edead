"""Plays the blocks of a script as one message of the model: deltas, one assistant record per block, transcript lines.

Rule: this module knows only the order of a message's records. Cancelling `play` interrupts it; the rest of the message
then waits in `Player.unfinished`, because the host must first receive the answer to its interrupt.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fairlead.agents.demo import records, usage
from fairlead.agents.demo.blocks import add_delta, complete, stream_block
from fairlead.agents.demo.ids import new_id
from fairlead.agents.demo.records import Record, RecordSource
from fairlead.agents.demo.scripts import (
    Block,
    ContentBlock,
    Crash,
    CutStream,
    ScriptThinking,
    SlowText,
    UnknownRecords,
)
from fairlead.agents.demo.session import DemoSession
from fairlead.agents.demo.transcript import Transcript

# Fast, but a person still sees a stream.
_DELTA_DELAY = 0.005
# Lines of a burst between two yields to the event loop.
_BURST_BATCH = 200
_DISPLAY = {"thinking_display": "updates"}


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
        self.unfinished: _Message | None = None

    async def play(self, blocks: list[Block], fields: Record) -> Played:
        """Play one message; `fields` are added to each of its assistant records."""
        message = _Message(new_id("msg_"), new_id("req_"), self._session.model, dict(fields))
        played = Played()
        if self._streams:
            self._session.emit_status("requesting")
            start = records.message(message.id, message.model, [])
            self._event(message, {"type": "message_start", "message": start}, ttft_ms=1, **_DISPLAY)
        try:
            for block in blocks:
                if isinstance(block, CutStream):
                    played.cut = True
                    break
                await self._play_block(message, block, played)
        except asyncio.CancelledError:
            self.unfinished = message
            raise
        played.stop_reason = None if played.cut else "tool_use" if played.calls else "end_turn"
        if played.cut:
            self._abandon(message, message.index)
        else:
            delta = {"stop_reason": played.stop_reason, "stop_sequence": None}
            self._event(message, {"type": "message_delta", "delta": delta, "usage": usage.FINISHED})
            self._event(message, {"type": "message_stop"})
        self._write(message, played.stop_reason, usage.full_usage(1))
        return played

    async def _play_block(self, message: _Message, block: Block, played: Played) -> None:
        if isinstance(block, Crash):
            self._session.crash()
        if isinstance(block, UnknownRecords):
            self._emit_unknown(message)
            return
        assert isinstance(block, ContentBlock), block
        opening, deltas, delay = stream_block(block)
        event = {"type": "content_block_start", "index": message.index, "content_block": dict(opening)}
        self._event(message, event, **(_DISPLAY if isinstance(block, ScriptThinking) else {}))
        message.open = opening
        if isinstance(block, SlowText) and not block.delay:
            await self._burst(message, block)
        else:
            for delta in deltas:
                self._delta(message, opening, delta)
                if delay != 0.0:
                    await asyncio.sleep(_DELTA_DELAY if delay is None else delay)
        played.content.append(complete(message.open or opening))
        self._finish_block(message, played.content[-1])

    def _delta(self, message: _Message, block: Record, delta: Record) -> None:
        fields: Record = {}
        if delta["type"] == "thinking_delta":
            message.thought += len(delta["thinking"]) // 3 or 1
            self._session.emit_system("thinking_tokens", estimated_tokens=message.thought, estimated_tokens_delta=1)
            fields = _DISPLAY
        add_delta(block, delta)
        self._event(message, {"type": "content_block_delta", "index": message.index, "delta": delta}, **fields)

    async def _burst(self, message: _Message, block: SlowText) -> None:
        """Emit many equal deltas, encoded once, so that a load test measures the gateway and not this process."""
        delta = {"type": "text_delta", "text": block.text}
        event = {"type": "content_block_delta", "index": message.index, "delta": delta}
        record = records.stream_event(self._speaker, event, message.id)
        head, tail = msgspec.json.encode(record).split(str(record["uuid"]).encode())
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

    def _finish_block(self, message: _Message, block: Record) -> None:
        message.open = None
        fields = {"thinking_duration_ms": 1, **_DISPLAY} if block["type"] == "thinking" else {}
        record = self._record(message, block, **fields)
        if self._forwards(block):
            self._session.emit(record)
        self._event(message, {"type": "content_block_stop", "index": message.index})
        message.index += 1

    def _record(self, message: _Message, block: Record, **fields: Any) -> Record:
        record = records.assistant(
            self._speaker, message.id, message.model, block, message.request_id, **fields, **message.fields
        )
        message.emitted.append(record)
        return record

    def _write(self, message: _Message, stop_reason: str | None, spent: Record, **fields: Any) -> None:
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

    def _abandon(self, message: _Message, first: int) -> None:
        lost = {"api_message_id": message.id, "from_block_index": first}
        self._event(message, {"type": "message_stop"}, abandoned_blocks=lost)

    def _emit_unknown(self, message: _Message) -> None:
        """Emit records of types that no gateway knows: the gateway must pass them through."""
        session = self._session
        session.emit({"type": "demo_unheard_of", "session_id": session.id, "note": "an unknown type"})
        session.emit_system("demo_never_seen", note="an unknown subtype", nested={"list": [1, None, "ü"]})
        self._event(message, {"type": "demo_event", "note": "an unknown event"})

    # -- the rest of an interrupted message: first its text so far, later the end of its stream

    def emit_unfinished(self) -> list[Record]:
        """Emit and write the text so far; return the content for the conversation."""
        message = self.unfinished
        if message is None:
            return []
        block = complete(message.open) if message.open is not None else {}
        if block.get("text"):
            self._session.emit(self._record(message, block, aborted=True))
        self._write(message, None, usage.STARTED, isAbortedMidStream=True)
        return [record["message"]["content"][0] for record in message.emitted]

    def end_unfinished(self) -> None:
        """Emit the closing stream events, so that no reader waits for the message's end."""
        message, self.unfinished = self.unfinished, None
        if message is None:
            return
        if message.open is not None:
            self._event(message, {"type": "content_block_stop", "index": message.index})
        delta = {"stop_reason": None, "stop_sequence": None}
        self._event(message, {"type": "message_delta", "delta": delta, "usage": usage.STARTED})
        self._abandon(message, message.index + 1)
