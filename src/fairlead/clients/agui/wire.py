"""AG-UI events as bytes of a `text/event-stream`, and the ids that they carry. Pure.

The client of AG-UI rejects `null` and empty deltas: `event` leaves out fields that are None.
"""

import uuid
from typing import Any, Final

import msgspec

from fairlead.model.ids import MessageId, SessionId, is_uuid

CONTENT_TYPE: Final = "text/event-stream"
VERSION: Final = "1.0"
BEAT: Final = b": beat\n\n"
"""A comment, which clients ignore: it shows that the connection is alive."""
ASKED: Final = b": a person is asked\n\n"
"""A comment that wakes the driver of the response: the run ends unless the request is settled soon."""

_IDS: Final = uuid.UUID("6f0d3f0a-3b8c-5c0a-9a53-1f0f4a2a7f10")
_encoder: Final = msgspec.json.Encoder(enc_hook=str)

Event = dict[str, Any]


def event(kind: str, **fields: Any) -> Event:
    """An event without the fields that are None."""
    return {"type": kind, **{name: value for name, value in fields.items() if value is not None}}


def encode_events(events: "list[Event]") -> bytes:
    return b"".join(b"data: %s\n\n" % _encoder.encode(item) for item in events)


def session_of(credential: str, thread: str) -> SessionId:
    """The session of a thread: a UUID is the session itself, any other name belongs to the credential."""
    lowered = thread.lower()
    return SessionId(lowered if is_uuid(lowered) else str(uuid.uuid5(_IDS, f"{credential}/{thread}")))


def message_of(session: SessionId, message: str) -> MessageId:
    """The id under which a client's message is sent to the agent."""
    lowered = message.lower()
    return MessageId(lowered if is_uuid(lowered) else str(uuid.uuid5(_IDS, f"{session}/{message}")))


def block_id(message: str, block: int) -> str:
    return f"{message}.{block}"


def calls_id(message: str, subagent: str | None) -> str:
    """The assistant message that carries the calls of one model answer."""
    return f"{message}@{subagent}" if subagent else message


def result_id(call: str) -> str:
    return str(uuid.uuid5(_IDS, f"result/{call}"))


def result_text(content: Any) -> str:
    """A call's result as text: a text unchanged, the texts of blocks joined, anything else as JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(block, dict) and block.get("type") == "text" for block in content):
        return "".join(str(block.get("text", "")) for block in content)
    return _encoder.encode(content).decode()


def arguments(value: dict[str, Any]) -> str:
    return _encoder.encode(value).decode()
