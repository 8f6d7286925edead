"""What names a record, without reading what it says. Pure; no record is refused for a field of an odd type."""

import hashlib
from typing import Any, Final, TypeVar

import msgspec

from fairlead.model.json_repair import mend

T = TypeVar("T")

CONVERSATION: Final = frozenset({"user", "assistant"})


class RecordIdentity(msgspec.Struct):
    """A row of a transcript or a record of the wire."""

    type: Any = None
    subtype: Any = None
    uuid: Any = None
    isSidechain: Any = None
    parent_tool_use_id: Any = None
    parentToolUseID: Any = None
    agentId: Any = None
    isReplay: Any = None
    message: msgspec.Raw = msgspec.Raw()

    @property
    def speaks(self) -> bool:
        """It is part of a conversation."""
        return (
            self.type in CONVERSATION and isinstance(self.uuid, str) and bool(self.uuid) and self.isReplay is not True
        )

    @property
    def main(self) -> bool:
        """It is no subagent's."""
        return self.isSidechain is not True and not self.parent_tool_use_id


_named: Final = msgspec.json.Decoder(RecordIdentity)


def named(raw: bytes) -> RecordIdentity | None:
    return decoded(_named, raw)


def name_of(row: RecordIdentity | None, raw: bytes) -> str:
    """As the interpreter names it: by its uuid, or by its bytes."""
    if row is not None and isinstance(row.uuid, str) and row.uuid:
        return row.uuid
    return hashlib.sha256(raw).hexdigest()[:32]


def decoded(decoder: "msgspec.json.Decoder[T]", data: bytes) -> T | None:
    """None for what is no object; half an emoji or a stray byte makes it no other."""
    for mending in (False, True):
        try:
            return decoder.decode(mend(data) if mending else data)
        except msgspec.ValidationError:
            return None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return None
