"""Rows of a transcript beside the records that the wire brought: which row is whose copy, and what differs. Pure.

Both have one uuid; where they do not, a block is known by its message and what it says. Equal must be type, order and
content (a plain string is one text block); all else differs by nature. An answer that the wire never brought is another
program's, which writes to the same file. Memory is bounded: far more than a turn has.
"""

import hashlib
from typing import Any, Final

import msgspec

from fairlead.agents.claude.interpreter.state import THREADS_KEPT, trim
from fairlead.agents.claude.transcripts.identity import CONVERSATION, RecordIdentity, decoded, name_of, named
from fairlead.agents.claude.wire.framing import OversizeSpill, stand_in
from fairlead.model.agents import Record
from fairlead.model.transcripts import FOREIGN, MirroredRow

KEPT: Final = 8192
"""Records of the wire that are remembered until their rows come; a long turn has some hundreds."""
WHOLE_ASIDE: Final = 32 << 10
"""Rows beside the conversation above this size are spilled: requests to the model, which newer versions write down with
every turn (100 kB each), are nothing that a client shows."""
ROWS_KEPT: Final = 32768
"""Rows that are known to be in the log already."""
SYNTHETIC: Final = "<synthetic>"
"""The CLI's own words in the model's place: some of them it only writes down."""
SHOWN: Final = 256
"""What is kept of such a row: enough to see what it was."""


class _Message(msgspec.Struct):
    id: Any = None
    model: Any = None
    content: Any = None


class _WireRecord(msgspec.Struct, frozen=True):
    """A record of the wire. `place` is its number among those of the main thread; -1: it has none. `call`: whose
    subagent said it."""

    kind: str
    content: bytes
    place: int = -1
    call: str = ""


_messages: Final = msgspec.json.Decoder(_Message)


class WireTranscriptMatcher:
    """Implements `model.transcripts.Copies`."""

    def __init__(self, spill: OversizeSpill | None = None) -> None:
        self._spill = spill
        self._told: dict[str, _WireRecord] = {}
        self._blocks: dict[tuple[str, bytes], str] = {}
        self._rows: dict[str, None] = {}
        self._calls: dict[str, str] = {}
        """The CLI's ids of subagents, to the call that started each."""
        self._count = self._last = 0

    def told(self, record: Record) -> None:
        row = named(record.raw)
        if record.origin == "transcript":
            self._note(name_of(row, record.raw))
            return
        if row is None or row.type not in CONVERSATION or not isinstance(row.uuid, str) or row.uuid in self._told:
            return
        message = _message(row)
        digest = _digest(message.content)
        # Our own lines have no place among the agent's: it takes a word into a running turn up when it likes.
        main = record.origin == "agent" and not row.parent_tool_use_id
        self._count += main
        call = row.parent_tool_use_id if isinstance(row.parent_tool_use_id, str) else ""
        self._told[row.uuid] = _WireRecord(row.type, digest, self._count if main else -1, call)
        trim(self._told, KEPT)
        if isinstance(message.id, str):
            self._blocks[message.id, digest] = row.uuid
            trim(self._blocks, KEPT)

    def row(self, record: Record) -> MirroredRow | None:
        row = named(record.raw)
        if row is not None and row.isSidechain is True:
            record = self._inside(record, row)
        name = name_of(row, record.raw)
        if name in self._rows:
            return None
        self._note(name)
        kind = row.type if row is not None and isinstance(row.type, str) else "garbage"
        subtype = row.subtype if row is not None and isinstance(row.subtype, str) else ""
        of, differs = self._same(name, row) if row is not None and kind in CONVERSATION else (name, "")
        kept = record if kind in CONVERSATION or len(record.raw) <= WHOLE_ASIDE else self._aside(record)
        return MirroredRow(record=kept, name=name, kind=kind, subtype=subtype, of=of, differs=differs)

    def _inside(self, record: Record, row: RecordIdentity) -> Record:
        """A subagent's row, which does not say itself which call it works for. Its bytes stay."""
        told = self._told.get(row.uuid) if isinstance(row.uuid, str) else None
        agent = row.agentId if isinstance(row.agentId, str) else ""
        call = (told.call if told is not None else "") or self._calls.get(agent, "")
        if not call:
            return record
        if agent:
            self._calls[agent] = call
            trim(self._calls, THREADS_KEPT)
        raw = record.raw.rstrip()
        if row.parentToolUseID is not None or not raw.endswith(b"}"):
            return record
        said = msgspec.json.encode(call)
        return msgspec.structs.replace(record, raw=raw[:-1] + b',"parentToolUseID":' + said + b"}")

    def _same(self, name: str, row: RecordIdentity) -> tuple[str, str]:
        """(the record of the wire that this row is, what differs); the row itself where the wire had none."""
        message = _message(row)
        digest = _digest(message.content)
        told = self._told.get(name)
        if told is None:
            other = self._blocks.get((message.id, digest), "") if isinstance(message.id, str) else ""
            if row.type != "assistant" or row.isSidechain is True or message.model == SYNTHETIC:
                return name, ""
            return (other, "uuid") if other else (name, FOREIGN)
        if told.kind != row.type:
            return name, "type"
        if told.content != digest:
            return name, "message.content"
        if told.place < 0 or row.isSidechain is True:
            return name, ""
        late, self._last = told.place < self._last, max(self._last, told.place)
        return name, "order" if late else ""

    def _note(self, name: str) -> None:
        self._rows[name] = None
        trim(self._rows, ROWS_KEPT)

    def _aside(self, record: Record) -> Record:
        if self._spill is None:
            return record
        self._spill.write(record.raw)
        raw = stand_in(self._spill.done(), len(record.raw), record.raw[:SHOWN])
        return msgspec.structs.replace(record, raw=raw)


def _message(row: RecordIdentity) -> _Message:
    return (decoded(_messages, bytes(row.message)) if bytes(row.message) else None) or _Message()


def _digest(content: Any) -> bytes:
    said = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return hashlib.blake2b(msgspec.json.encode(said, order="sorted"), digest_size=8).digest()
