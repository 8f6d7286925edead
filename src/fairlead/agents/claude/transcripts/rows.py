"""Rows of a transcript as the same records. Pure parsing; finding and following the file is the driver's.

Only rows whose own type is user or assistant, with a uuid, are conversation: newer CLIs write others that carry a
`message` too. There is no `result` in a transcript: how a turn ended is judged from what was said.
"""

from fairlead.agents.claude.wire.decode import decode
from fairlead.agents.claude.wire.records import AssistantRecord, QuietRecord, UserRecord, WireRecord


def decode_row(raw: bytes) -> WireRecord:
    """One row as a record. Never raises."""
    record = decode(raw)
    if isinstance(record, UserRecord | AssistantRecord) and not record.uuid:
        return QuietRecord(type="user" if isinstance(record, UserRecord) else "assistant")
    return record


def in_sidechain(record: UserRecord | AssistantRecord) -> bool:
    """The row belongs to a subagent."""
    return record.isSidechain is True


def parent_uuid(record: WireRecord) -> str:
    """The row before it in its thread; empty for the first, or where the link is no link."""
    parent = getattr(record, "parentUuid", None)
    return parent if isinstance(parent, str) else ""
