"""The number of messages in a session: the user and assistant records of its main thread, each counted once. Pure.

This is a separate projection without rows, so that listing sessions does not have to store the records of each one.
"""

from collections.abc import Sequence
from typing import Any, Final, get_args

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


_Message: Final = ev.UserMessage | ev.Text | ev.Thinking | ev.ToolCalled | ev.ToolEnded
"""The events of which `model.formats.cli_records` makes such records."""
_MESSAGES: Final = frozenset(str(kind.__struct_config__.tag) for kind in get_args(_Message))


class MessageCounter(msgspec.Struct):
    """`foreign`: the agent's records do not have the form of the CLI, so its events are counted."""

    messages: int = 0
    foreign: bool = False


read_counted: Final = msgspec.msgpack.Decoder(MessageCounter).decode


class CountReducer(MemoryReducer[MessageCounter]):
    """Implements `model.views.Reducer`."""

    def __init__(self, session: SessionId) -> None:
        super().__init__(MessageCounter())

    def step(self, entry: Entry) -> Sequence[Made]:
        memory = self._memory
        if entry.kind == "session.opened":
            opened = ev.decode(entry.event)
            memory.foreign = isinstance(opened, ev.SessionOpened) and opened.foreign
        elif memory.foreign:
            memory.messages += entry.kind in _MESSAGES and _is_of_main_thread(ev.decode(entry.event))
        elif entry.raw is not None and entry.kind not in DELTAS and not _is_copy(entry):
            memory.messages += _is_message(entry.raw)
        return ()


def _is_of_main_thread(event: ev.Event) -> bool:
    return isinstance(event, _Message) and event.subagent is None


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
