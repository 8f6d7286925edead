"""Identifies a record without decoding its content. Pure; no record is rejected for a field of an unexpected type."""

import hashlib
from typing import Any, Final, TypeVar

import msgspec

from fairlead.agents.claude.wire.records import as_text
from fairlead.model.formats.json_repair import repair_json

T = TypeVar("T")

CONVERSATION: Final = frozenset({"user", "assistant"})
SYNTHETIC: Final = "<synthetic>"
"""Model name of messages that the CLI wrote itself; it writes some of them to the transcript only."""


class RecordIdentity(msgspec.Struct):
    """A row of a transcript or a record of the wire."""

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
    message: msgspec.Raw = msgspec.Raw()

    @property
    def is_conversation(self) -> bool:
        return self.type in CONVERSATION and as_text(self.uuid) != "" and self.isReplay is not True

    @property
    def is_main_thread(self) -> bool:
        """Whether the record belongs to the main thread, not to a subagent."""
        return self.isSidechain is not True and not self.parent_tool_use_id


class _Message(msgspec.Struct):
    """The fields of a record's `message` that are used."""

    id: Any = None
    model: Any = None
    content: Any = None


_named: Final = msgspec.json.Decoder(RecordIdentity)
_messages: Final = msgspec.json.Decoder(_Message)


def identify(raw: bytes) -> RecordIdentity:
    """The record's identity; an empty one for bytes that are not a JSON object."""
    return decoded(_named, raw) or RecordIdentity()


def decode_message(raw: msgspec.Raw) -> _Message:
    """Decode the `message` of a record; an empty one if it is missing or not an object."""
    return (decoded(_messages, bytes(raw)) if bytes(raw) else None) or _Message()


def name_of(row: RecordIdentity, raw: bytes) -> str:
    """The record's name as in the interpreter: its uuid, or a hash of its bytes."""
    return as_text(row.uuid) or hashlib.sha256(raw).hexdigest()[:32]


def decoded(decoder: "msgspec.json.Decoder[T]", data: bytes, *, mend: bool = True) -> T | None:
    """Decode a JSON object; None for anything else. With `mend`, half an emoji or a stray byte is repaired first."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decoded(decoder, repair_json(data), mend=False) if mend else None
