"""Decodes transcript rows into the same records as the wire's. Pure parsing; the driver finds and follows the file.

Only rows whose own type is user or assistant, with a uuid, are conversation: newer CLIs write others that carry a
`message` too. A transcript has no `result`: how a turn ended is inferred from its messages.
"""

from fairlead.agents.claude.wire.decode import decode
from fairlead.agents.claude.wire.records import AssistantRecord, QuietRecord, UserRecord, WireRecord


def decode_row(raw: bytes) -> WireRecord:
    """Decode one row. Never raises."""
    record = decode(raw)
    if isinstance(record, UserRecord | AssistantRecord) and not record.uuid:
        return QuietRecord(type="user" if isinstance(record, UserRecord) else "assistant")
    return record


def in_sidechain(record: UserRecord | AssistantRecord) -> bool:
    """Whether the row belongs to a subagent."""
    return record.isSidechain is True


def parent_uuid(record: WireRecord) -> str:
    """The uuid of the row before it in its thread; empty for the first row, or if the link is not a string."""
    parent = getattr(record, "parentUuid", None)
    return parent if isinstance(parent, str) else ""
