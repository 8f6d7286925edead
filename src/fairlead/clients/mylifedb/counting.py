"""The number of messages in a session: the user and assistant records of its main thread, each counted once. Pure.

This is a separate projection without rows, so that listing sessions does not have to store the records of each one.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fairlead.clients.mylifedb.streaming import DELTAS
from fairlead.model import events as ev
from fairlead.model.formats.frames import decode_or_none
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry
from fairlead.model.views import Made, MemoryReducer

NAME: Final = "mylifedb.count"
_KINDS: Final = frozenset({"user", "assistant"})


class _Record(msgspec.Struct):
    type: Any = None
    parent_tool_use_id: Any = None
    isSidechain: Any = None
    isMeta: Any = None


_records: Final = msgspec.json.Decoder(_Record)


class MessageCounter(msgspec.Struct):
    messages: int = 0


read_counted: Final = msgspec.msgpack.Decoder(MessageCounter).decode


class CountReducer(MemoryReducer[MessageCounter]):
    """Implements `model.views.Reducer`."""

    def __init__(self, session: SessionId) -> None:
        super().__init__(MessageCounter())

    def step(self, entry: Entry) -> Sequence[Made]:
        if entry.raw is None or entry.kind in DELTAS or _is_copy(entry):
            return ()
        self._memory.messages += _is_message(entry.raw)
        return ()


def _is_copy(entry: Entry) -> bool:
    """Return whether the entry is a transcript row of a record that the wire already delivered."""
    if entry.kind != "record":
        return False
    event = ev.decode(entry.event)
    return isinstance(event, ev.RecordStored) and bool(event.of)


def _is_message(raw: bytes) -> bool:
    record = decode_or_none(_records.decode, raw)
    if record is None:
        return False
    aside = record.parent_tool_use_id or record.isSidechain is True or record.isMeta is True
    return not aside and isinstance(record.type, str) and record.type in _KINDS
