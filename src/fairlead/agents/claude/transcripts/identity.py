"""Identifies a record without decoding its content. Pure; no record is rejected for a field of an unexpected type."""

import hashlib
from typing import Any, Final

import msgspec

from fairlead.agents.claude.wire.records import as_text
from fairlead.model.formats.json_repair import decode_repaired

CONVERSATION: Final = frozenset({"user", "assistant"})
SYNTHETIC: Final = "<synthetic>"
"""Model name of messages that the CLI wrote itself; it writes some of them to the transcript only."""


class RecordIdentity(msgspec.Struct):
    """A row of a transcript or a record of the wire. A row that adds something to the CLI's queue has `operation` and
    `content`."""

    type: Any = None
    subtype: Any = None
    uuid: Any = None
    parentUuid: Any = None
    sessionId: Any = None
    isSidechain: Any = None
    parent_tool_use_id: Any = None
    parentToolUseID: Any = None
    agentId: Any = None
    isReplay: Any = None
    isMeta: Any = None
    requestId: Any = None
    timestamp: Any = None
    operation: Any = None
    content: Any = None
    message: msgspec.Raw = msgspec.Raw()
    toolUseResult: msgspec.Raw = msgspec.Raw()
    attachment: msgspec.Raw = msgspec.Raw()

    @property
    def is_conversation(self) -> bool:
        return self.type in CONVERSATION and as_text(self.uuid) != "" and self.isReplay is not True

    @property
    def is_main_thread(self) -> bool:
        """Whether the record belongs to the main thread, not to a subagent."""
        return self.isSidechain is not True and not self.parent_tool_use_id

    @property
    def has_result(self) -> bool:
        """Whether the row has a tool's structured result."""
        return bytes(self.toolUseResult) not in (b"", b"null")


_named: Final = msgspec.json.Decoder(RecordIdentity)


def identify(raw: bytes) -> RecordIdentity:
    """The record's identity; an empty one for bytes that are not a JSON object."""
    return decode_repaired(_named.decode, raw) or RecordIdentity()


def name_of(row: RecordIdentity, raw: bytes) -> str:
    """The record's name as in the interpreter: its uuid, or a hash of its bytes."""
    return as_text(row.uuid) or hashlib.sha256(raw).hexdigest()[:32]
