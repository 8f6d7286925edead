"""The streamed message so far, for a client that connects in the middle of it.

It holds a thread's stream events since its last `message_stop` or `assistant` record, where a client clears its text.
Adjacent pieces of one block are joined, so that the size grows with the text and not with the number of events.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fairlead.clients.mylifedb.records import encode
from fairlead.model.formats.frames import decode_or_none

MOST: Final = 1 << 20
"""The maximum number of bytes kept. A late subscriber gets a longer message only when its whole record is there."""
DELTAS: Final = frozenset({"text.delta", "thinking.delta", "input.delta"})
"""Kinds of entries whose record is a stream event, for sure: the record's type need not be read."""
FIELDS: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "input_json_delta": "partial_json",
    "signature_delta": "signature",
}


class _Event(msgspec.Struct):
    type: str
    index: int | None = None
    delta: dict[str, Any] | None = None


class _Frame(msgspec.Struct):
    event: _Event
    parent_tool_use_id: str | None = None


_decoder = msgspec.json.Decoder(_Frame)


class StreamPiece(msgspec.Struct):
    """A stream event as received, or several joined pieces of one block (`delta` is their kind)."""

    thread: str
    raw: bytes = b""
    index: int = 0
    delta: str = ""
    text: str = ""

    def frame(self) -> bytes:
        if not self.delta:
            return self.raw
        delta = {"type": self.delta, FIELDS[self.delta]: self.text}
        return _frame({"type": "content_block_delta", "index": self.index, "delta": delta}, self.thread)


class StreamState(msgspec.Struct):
    """`open` lists the threads in which a message has started and not stopped."""

    open: list[str] = []
    pieces: list[StreamPiece] = []
    size: int = 0

    def add(self, raw: bytes) -> None:
        frame = decode_or_none(_decoder.decode, raw)
        if frame is None:
            return
        event, thread = frame.event, frame.parent_tool_use_id or ""
        if event.type == "message_start" and thread not in self.open:
            self.open.append(thread)
        elif event.type == "message_stop":
            if thread in self.open:
                self.open.remove(thread)
            self.clear(thread)
            return
        self.size += len(raw)
        if self.size > MOST:
            self.pieces = []
            return
        piece = _piece(raw, event, thread)
        last = self.pieces[-1] if self.pieces else None
        if last is not None and piece.delta and _same(last, piece):
            last.text += piece.text
        else:
            self.pieces.append(piece)

    def clear(self, thread: str) -> None:
        """Drop a thread's pieces: the whole record has arrived."""
        self.pieces = [piece for piece in self.pieces if piece.thread != thread]
        if not self.pieces:
            self.size = 0

    def end(self) -> Sequence[bytes]:
        """End the stream (the turn is over); return the frames that clear unfinished messages."""
        unfinished = [stop(thread) for thread in self.open]
        self.open = []
        self.pieces = []
        self.size = 0
        return unfinished

    def frames(self) -> Sequence[bytes]:
        return [piece.frame() for piece in self.pieces]


def stop(thread: str) -> bytes:
    """Build a frame that clears a client's partial message, because it will not be finished or is sent again."""
    return _frame({"type": "message_stop"}, thread)


def _frame(event: dict[str, Any], thread: str) -> bytes:
    return encode({"type": "stream_event", "event": event, "parent_tool_use_id": thread or None})


def _piece(raw: bytes, event: _Event, thread: str) -> StreamPiece:
    delta = event.delta or {}
    kind = delta.get("type")
    text = delta.get(FIELDS.get(kind, "")) if isinstance(kind, str) else None
    if event.type == "content_block_delta" and event.index is not None and isinstance(text, str):
        return StreamPiece(thread=thread, index=event.index, delta=str(kind), text=text)
    return StreamPiece(thread=thread, raw=raw)


def _same(last: StreamPiece, piece: StreamPiece) -> bool:
    return (last.thread, last.index, last.delta) == (piece.thread, piece.index, piece.delta)
