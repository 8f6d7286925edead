"""The agent's output: assistant records, one per content block, and the stream that precedes each.

A block is identified by its message and its index in it. Deltas are emitted with running offsets; the block that
repeats them lists them in its marks and drops them from the log.
"""

import hashlib
import zlib
from typing import Any, Final

import msgspec

from fairlead.agents.claude.interpreter import costs, subagents, turns
from fairlead.agents.claude.interpreter.state import (
    MESSAGES_KEPT,
    PIECES_OPEN,
    STREAMS_OPEN,
    MessageStream,
    StreamedBlock,
)
from fairlead.agents.claude.interpreter.step import Step
from fairlead.agents.claude.transcripts.identity import SYNTHETIC
from fairlead.agents.claude.versions import Abilities, parse_version
from fairlead.agents.claude.wire.records import AssistantRecord, StreamRecord, as_dicts, as_text
from fairlead.model.events import Delta, InputDelta, Text, TextDelta, Thinking, ThinkingDelta
from fairlead.model.formats.bounded_tables import put, trim
from fairlead.model.ids import CallId, MessageId, event_id

FINAL: Final = frozenset({"end_turn", "stop_sequence"})
"""Stop reasons after which the agent waits for a prompt."""

FILLER: Final = "No response requested."
"""The CLI writes this in place of a missing answer when it resumes an interrupted conversation. It is only for the
model; the CLI's own screen does not show it."""


# --- whole blocks --------------------------------------------------------------------------------------


def as_blocks(content: Any) -> list[dict[str, Any]]:
    """A message's content as blocks; a plain string becomes a text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return as_dicts(content)


def assistant(step: Step, record: AssistantRecord, thread: str) -> None:
    blocks = as_blocks(record.message.content)
    if record.message.model == SYNTHETIC and [block.get("text") for block in blocks] == [FILLER]:
        step.store_record("assistant", "filler", thread=thread)
        return
    if record.isCompactSummary:
        step.store_record("assistant", "compact_summary", thread=thread)
        return
    if blocks:
        turns.on_output(step, thread)
    if not thread:
        update_final_flag(step, record)
    message = record.message.id or step.source
    first = len(step.events)
    for block in blocks:
        _block(step, record, block, message, thread, len(blocks) == 1)
    costs.attach_tokens(step, first, record.message.usage)
    if len(step.events) == first:
        step.store_record("assistant", thread=thread)


def _block(step: Step, record: AssistantRecord, block: dict[str, Any], message: str, thread: str, alone: bool) -> None:
    kind = _kind(block)
    index = _place(step, message, thread, block, record.apiBlockIndex if alone else None)
    if index is None:
        return
    model = record.message.model or ""
    where: dict[str, Any] = {"message": MessageId(message), "block": index, "model": model}
    if kind == "text":
        text = block["text"]
        marks = _marks(step, message, thread, index, len(text))
        step.emit(Text, part=index, thread=thread, text=text, marks=marks, error=record.error or "", **where)
    elif kind == "thinking":
        text = as_text(block.get("thinking"))
        signature = as_text(block.get("signature") or block.get("data"))
        marks = _marks(step, message, thread, index, len(text))
        step.emit(Thinking, part=index, thread=thread, text=text, signature=signature, marks=marks, **where)
    elif kind == "tool_use":
        given = block.get("input")
        arguments = given if isinstance(given, dict) else {} if given is None else {"input": given}
        marks = _marks(step, message, thread, index, None)
        subagents.called(step, block["id"], block["name"], arguments, thread, marks=marks, **where)
    else:
        step.store_record("assistant", as_text(block.get("type")), known=False, part=index, thread=thread)


def _kind(block: dict[str, Any]) -> str:
    """The block's kind; empty if the kind is unknown or a required field is missing."""
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        return "text"
    if kind in ("thinking", "redacted_thinking"):
        return "thinking"
    if kind == "tool_use" and isinstance(block.get("id"), str) and isinstance(block.get("name"), str):
        return "tool_use"
    return ""


def _place(step: Step, message: str, thread: str, block: dict[str, Any], given: int | None) -> int | None:
    """The block's index in its message; None if the block was emitted already."""
    state = step.state
    kind = _kind(block)
    if kind == "tool_use" and (block["id"] in state.calls or block["id"] in state.ended):
        return None
    emitted = state.messages.setdefault(message, [])
    trim(state.messages, MESSAGES_KEPT)
    index = given
    if index is None:
        index = _streamed_index(step, message, thread, kind, block)
    hashes = state.block_hashes.setdefault(message, [])
    trim(state.block_hashes, MESSAGES_KEPT)
    digest = _hash(block)
    if index in emitted or (index is None and step.origin == "transcript" and digest in hashes):
        return None
    if index is None:
        index = max(emitted, default=-1) + 1
    emitted.append(index)
    hashes.append(digest)
    return index


def _hash(block: dict[str, Any]) -> int:
    encoded = msgspec.json.encode(block, order="sorted")
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=8).digest(), "big")


def _streamed_index(step: Step, message: str, thread: str, kind: str, block: dict[str, Any]) -> int | None:
    """The block's index in the stream: the CLI may omit a block that it streamed."""
    stream = step.state.streams.get(thread)
    if stream is None or stream.message != message:
        return None
    open_ = [
        (index, piece) for index, piece in sorted(stream.pieces.items()) if not piece.emitted and piece.kind == kind
    ]
    if kind == "tool_use":
        return next((index for index, piece in open_ if piece.call == block["id"]), None)
    # Match the streamed piece that is the longest prefix of this block: the other pieces belong to omitted blocks.
    # If no piece is a prefix (the whole text differs), take the first: blocks come in the order of the stream.
    whole = as_text(block.get("text") if kind == "text" else block.get("thinking"))
    return max(open_, key=lambda found: _streamed_part(found[1], whole), default=(None,))[0]


def _streamed_part(piece: StreamedBlock, whole: str) -> int:
    """The length of the piece if it is a prefix of the text, else -1."""
    return piece.length if _checksum(whole[: piece.length]) == piece.checksum else -1


def _checksum(text: str, before: int = 0) -> int:
    return zlib.crc32(text.encode(errors="surrogatepass"), before)


def _marks(step: Step, message: str, thread: str, index: int, length: int | None) -> tuple[tuple[int, int], ...]:
    """Return the marks of a streamed block and drop its deltas from the log.

    A block may be longer than its deltas (the connection broke, the transcript has the rest). A shorter block gets no
    marks: offsets into the deltas would not be valid in the block."""
    stream = step.state.streams.get(thread)
    piece = stream.pieces.get(index) if stream is not None and stream.message == message else None
    if piece is None or piece.emitted:
        return ()
    piece.emitted = True
    step.drop.extend(seq for seq, _ in piece.marks)
    marks = tuple(piece.marks)
    piece.marks = []
    return marks if length is None or length >= piece.length else ()


def update_final_flag(step: Step, record: AssistantRecord) -> None:
    """Record whether the main thread's answer is the turn's last one.

    Assistant records on the wire have no stop reason; their copies in the transcript have one."""
    turn = step.state.turn
    if turn is None:
        return
    kinds = {_kind(block) for block in as_blocks(record.message.content)}
    stop = record.message.stop_reason
    turn.error = record.error or ""
    if "tool_use" in kinds:
        turn.final = False
    elif "text" in kinds and (stop in FINAL or (stop is None and _omits_stop_reasons(step, record))):
        turn.final = True


def _omits_stop_reasons(step: Step, record: AssistantRecord) -> bool:
    """Whether this is a transcript row of a version that never writes a stop reason: there a text without a later call
    is the turn's end."""
    version = parse_version(record.version or "") if step.origin == "transcript" else None
    return version is not None and not Abilities(version).stops_in_transcript


# --- the stream ------------------------------------------------------------------------------------------


def streamed(step: Step, record: StreamRecord, thread: str, known: bool = True) -> None:
    """Handle a stream event. With `known` false the stream's thread is not known yet: its records are stored, but no
    deltas are emitted."""
    event, state = record.event, step.state
    if event.type == "message_start":
        step.end_stream(thread)
        name = event.message.id if event.message is not None else None
        put(state.streams, thread, MessageStream(name or step.source), STREAMS_OPEN)
        if state.turn is not None and not thread:
            state.turn.final = False
    stream = state.streams.get(thread)
    if stream is not None and event.index is not None:
        if event.type == "content_block_start":
            put(stream.pieces, event.index, _piece(event.content_block or {}), PIECES_OPEN)
        elif event.type == "content_block_delta" and known and _delta(step, stream, event.index, event.delta, thread):
            return
    if stream is not None and event.type == "message_delta":
        stream.stop = as_text((event.delta or {}).get("stop_reason")) or stream.stop
    if stream is not None and event.type == "message_stop":
        stream.over = True
        if state.turn is not None and not thread and stream.stop in FINAL:
            state.turn.final = True
    step.store_record("stream_event", event.type, thread=thread if known else "")
    if stream is not None:
        state.expecting[event_id(step.source, "record")] = thread


def _piece(block: dict[str, Any]) -> StreamedBlock:
    kind = block.get("type")
    if kind == "tool_use":
        return StreamedBlock(kind, as_text(block.get("id")), as_text(block.get("name")))
    return StreamedBlock("thinking" if kind == "redacted_thinking" else as_text(kind))


_DELTAS: Final = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
    "input_json_delta": ("tool_use", "partial_json"),
}
"""Maps the type of a delta to the kind of its block and the field that holds the text."""


def _delta(step: Step, stream: MessageStream, index: int, delta: dict[str, Any] | None, thread: str) -> bool:
    """Emit a delta. Return False if its kind is unknown, or an earlier part of the stream is missing."""
    found = _DELTAS.get(as_text((delta or {}).get("type")))
    piece_text = (delta or {}).get(found[1]) if found else None
    if found is None or stream.torn or not isinstance(piece_text, str):
        return False
    piece = stream.pieces.setdefault(index, StreamedBlock(found[0]))
    trim(stream.pieces, PIECES_OPEN)
    if piece.kind != found[0] or (piece.kind == "tool_use" and not piece.call):
        return False
    where: dict[str, Any] = {"message": MessageId(stream.message), "block": index, "offset": piece.length}
    if found[1] == "signature":
        step.emit(ThinkingDelta, thread=thread, signature=piece_text, **where)
        return True
    piece.length += len(piece_text)
    piece.checksum = _checksum(piece_text, piece.checksum)
    if piece.kind == "text":
        step.emit(TextDelta, thread=thread, text=piece_text, **where)
    elif piece.kind == "thinking":
        step.emit(ThinkingDelta, thread=thread, text=piece_text, **where)
    else:
        step.emit(InputDelta, thread=thread, call=CallId(piece.call), name=piece.name, json=piece_text, **where)
    return True


def add_mark(streams: dict[str, MessageStream], event: Delta, seq: int) -> None:
    """Add the seq that the log gave to a delta to the marks of its block."""
    size = len(event.json) if isinstance(event, InputDelta) else len(event.text)
    for stream in streams.values():
        piece = stream.pieces.get(event.block) if stream.message == event.message else None
        if piece is not None and not piece.emitted:
            piece.marks.append((seq, event.offset + size))
