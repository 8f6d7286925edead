"""Plays the blocks of a script as one message of the model: deltas, one assistant record per block, transcript rows."""

import asyncio
import uuid
from dataclasses import dataclass, field

from fairlead.agents.demo.messages import FINISHED, Record, complete, message, new_id, stream_block
from fairlead.agents.demo.scripts import Block, ContentBlock, Fault
from fairlead.agents.demo.session import DemoSession, RecordSource
from fairlead.agents.demo.transcript import Transcript

# Fast, but a person still sees a stream.
_DELTA_DELAY = 0.005
# Deltas without a delay between two yields to the event loop.
_BURST_BATCH = 200


@dataclass(slots=True)
class Player:
    """Plays one message. Cancelling `play` interrupts it: a started text is sent as far as it came."""

    session: DemoSession
    source: RecordSource
    transcript: Transcript
    content: list[Record] = field(default_factory=list)
    """The blocks so far."""
    stop_reason: str | None = None
    _id: str = field(default_factory=lambda: new_id("msg_"))
    _records: list[Record] = field(default_factory=list)

    async def play(self, blocks: list[Block]) -> None:
        self._event("message_start", message=message(self._id, self.session.model, []))
        try:
            for block in blocks:
                if block is Fault.CUT:
                    return
                if block is Fault.CRASH:
                    self.session.crash()
                if block is Fault.UNKNOWN_RECORDS:
                    self._emit_unknown()
                elif isinstance(block, ContentBlock):
                    await self._play_block(block)
            self.stop_reason = "tool_use" if any(block["type"] == "tool_use" for block in self.content) else "end_turn"
        finally:
            delta = {"stop_reason": self.stop_reason, "stop_sequence": None}
            self._event("message_delta", delta=delta, usage=FINISHED)
            self._event("message_stop")
            self._write()

    async def _play_block(self, block: ContentBlock) -> None:
        opening, deltas, delay = stream_block(block)
        played: list[Record] = []
        index = len(self.content)
        self._event("content_block_start", index=index, content_block=opening)
        try:
            for delta in deltas:
                played.append(delta)
                self._event("content_block_delta", index=index, delta=delta)
                if delay != 0.0:
                    await asyncio.sleep(_DELTA_DELAY if delay is None else delay)
                elif len(played) % _BURST_BATCH == 0:
                    await asyncio.sleep(0)
            self._finish(complete(opening, played))
        except asyncio.CancelledError:
            if opening["type"] == "text" and played:
                self._finish(complete(opening, played))
            raise
        finally:
            self._event("content_block_stop", index=index)

    def _finish(self, block: Record) -> None:
        body = message(self._id, self.session.model, [block])
        record = self.source.record("assistant", message=body)
        self.session.wire.emit(record)
        self.content.append(block)
        self._records.append(record)

    def _write(self) -> None:
        """Write the message's transcript rows: at its end, with its final usage."""
        for index, record in enumerate(self._records):
            body = {**record["message"], "stop_reason": self.stop_reason, "usage": FINISHED}
            about = {name: record[name] for name in ("type", "uuid", "timestamp")}
            self.transcript.add({**about, "message": body, "apiBlockIndex": index})

    def _event(self, kind: str, **fields: object) -> None:
        # The real CLI streams the main thread only.
        if self.session.options.include_partial_messages and self.source.agent_id is None:
            head = {"parent_tool_use_id": None, "session_id": self.source.session_id, "uuid": str(uuid.uuid4())}
            self.session.wire.emit({"type": "stream_event", "event": {"type": kind, **fields}, **head})

    def _emit_unknown(self) -> None:
        """Emit records of types that no gateway knows: the gateway must pass them through."""
        self.session.emit("demo_unheard_of", note="an unknown type")
        self.session.emit_system("demo_never_seen", note="an unknown subtype", nested={"list": [1, None, "ü"]})
        self._event("demo_event", note="an unknown event")
