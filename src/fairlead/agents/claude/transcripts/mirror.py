"""Matches transcript rows with the wire records that they copy, and reports differences. Pure.

A row and its record have the same uuid; otherwise a block is identified by its message id and content. Type, order and
content must be equal (a plain string equals one text block); all other fields differ anyway. An answer that the wire
never delivered was written to the same file by another program. Memory is bounded, far above the size of a turn.
"""

import hashlib
from typing import Any, Final

import msgspec

from fairlead.agents.claude.interpreter.state import THREADS_KEPT
from fairlead.agents.claude.transcripts import identity
from fairlead.agents.claude.wire.decode import decode_object
from fairlead.agents.claude.wire.records import as_text
from fairlead.agents.links.framing import OversizeSpill, spill_record
from fairlead.model.agents import Record
from fairlead.model.formats.bounded_tables import put
from fairlead.model.transcripts import FOREIGN, MirroredRow

KEPT: Final = 8192
"""Wire records that are remembered until their rows arrive; a long turn has some hundreds."""
SPILLED_ABOVE: Final = 32 << 10
"""Rows outside the conversation that are larger than this are spilled to a file: newer versions write their requests to
the model with every turn (100 kB each), and no client shows them."""
ROWS_KEPT: Final = 32768
"""Number of rows remembered as already in the log."""
HEAD_BYTES: Final = 256
"""Bytes kept of a spilled row: enough to recognize it."""


class _WireRecord(msgspec.Struct, frozen=True):
    """A record from the wire. `place` is its number among the agent's records of the main thread, or -1.
    `call` is the tool call whose subagent emitted it."""

    kind: str
    content: bytes
    place: int = -1
    call: str = ""


class WireTranscriptMatcher:
    """Implements `model.transcripts.MirrorMatcher`."""

    def __init__(self, spill: OversizeSpill | None = None) -> None:
        self._spill = spill
        self._on_wire: dict[str, _WireRecord] = {}
        self._blocks: dict[tuple[str, bytes], str] = {}
        self._rows: dict[str, None] = {}
        self._calls: dict[str, str] = {}
        """Maps the CLI's subagent id to the call that started the subagent."""
        self._count = self._last = 0

    def add_record(self, record: Record) -> None:
        row = identity.identify(record.raw)
        if record.origin == "transcript":
            put(self._rows, identity.name_of(row, record.raw), None, ROWS_KEPT)
            return
        if row.type not in identity.CONVERSATION or not isinstance(row.uuid, str) or row.uuid in self._on_wire:
            return
        message = decode_object(row.message)
        digest = _digest(message.get("content"))
        # Our own lines get no number: the CLI takes up a message sent into a running turn whenever it likes.
        main = record.origin == "agent" and not row.parent_tool_use_id
        self._count += main
        call = as_text(row.parent_tool_use_id)
        put(self._on_wire, row.uuid, _WireRecord(row.type, digest, self._count if main else -1, call), KEPT)
        if name := as_text(message.get("id")):
            put(self._blocks, (name, digest), row.uuid, KEPT)

    def match_row(self, record: Record) -> MirroredRow | None:
        row = identity.identify(record.raw)
        if row.isSidechain is True:
            record = self._inside(record, row)
        name = identity.name_of(row, record.raw)
        if name in self._rows:
            return None
        put(self._rows, name, None, ROWS_KEPT)
        kind = row.type if isinstance(row.type, str) else "garbage"
        of, differs = self._same(name, row) if kind in identity.CONVERSATION else (name, "")
        if self._spill is not None and kind not in identity.CONVERSATION and len(record.raw) > SPILLED_ABOVE:
            record = msgspec.structs.replace(record, raw=spill_record(record.raw, self._spill, HEAD_BYTES))
        return MirroredRow(record=record, name=name, kind=kind, subtype=as_text(row.subtype), of=of, differs=differs)

    def _inside(self, record: Record, row: identity.RecordIdentity) -> Record:
        """Append the call that a subagent's row belongs to, which the row itself lacks. Its own bytes stay."""
        wire = self._on_wire.get(row.uuid) if isinstance(row.uuid, str) else None
        agent = as_text(row.agentId)
        call = (wire.call if wire is not None else "") or self._calls.get(agent, "")
        if not call:
            return record
        if agent:
            put(self._calls, agent, call, THREADS_KEPT)
        raw = record.raw.rstrip()
        if row.parentToolUseID is not None or not raw.endswith(b"}"):
            return record
        encoded = msgspec.json.encode(call)
        return msgspec.structs.replace(record, raw=raw[:-1] + b',"parentToolUseID":' + encoded + b"}")

    def _same(self, name: str, row: identity.RecordIdentity) -> tuple[str, str]:
        """Return (name of the matching wire record, what differs); the row's own name if no wire record matches."""
        message = decode_object(row.message)
        digest = _digest(message.get("content"))
        wire = self._on_wire.get(name)
        if wire is None:
            other = self._blocks.get((as_text(message.get("id")), digest), "")
            if row.type != "assistant" or row.isSidechain is True or message.get("model") == identity.SYNTHETIC:
                return name, ""
            return (other, "uuid") if other else (name, FOREIGN)
        if wire.kind != row.type:
            return name, "type"
        if wire.content != digest:
            return name, "message.content"
        if wire.place < 0 or row.isSidechain is True:
            return name, ""
        late, self._last = wire.place < self._last, max(self._last, wire.place)
        return name, "order" if late else ""


def _digest(content: Any) -> bytes:
    encoded = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return hashlib.blake2b(msgspec.json.encode(encoded, order="sorted"), digest_size=8).digest()
