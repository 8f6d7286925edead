"""Records as MyLifeDB shows them: always in the transcript's form, from any source. Pure and stateless.

A transcript record is sent byte for byte. A wire record lacks the fields that the transcript adds and spells some names
differently: it is completed, its values unchanged. Facts without a record (an answered permission, a turn that ended
with its process) get a record made from the event.
"""

import hashlib
from typing import Any, Final, TypeVar

import msgspec

from fairlead.model import events as ev
from fairlead.model.formats.json_repair import decode_repaired, repair_json
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.ids import SessionId

T = TypeVar("T")
Fields = dict[str, msgspec.Raw]

NULL: Final = msgspec.Raw(b"null")
SPELLING: Final = {"tool_use_result": "toolUseResult", "request_id": "requestId"}
"""Field names of user and assistant records that the wire writes in snake case and the transcript does not."""
CHAINED: Final = frozenset({"user", "assistant"})
"""Record types that become the parent of the next record in their thread. Other records have a parent in the thread,
but are not a parent themselves (except a compact boundary)."""
_decoder: msgspec.json.Decoder[Fields] = msgspec.json.Decoder(Fields)
encode: Final = msgspec.json.Encoder().encode


def readable(raw: bytes) -> bytes:
    """Return a line as clients receive it: its own bytes if they are UTF-8, else repaired."""
    line = raw.strip()
    try:
        line.decode()
    except UnicodeDecodeError:
        return repair_json(line)
    return line


def fields_of(raw: bytes) -> Fields | None:
    """Decode a record's fields, each as it was written (but half an emoji becomes U+FFFD); None if it is not a JSON
    object."""
    return decode_repaired(_decoder.decode, raw)


def value_of(data: bytes) -> Any:
    """Decode a record or a field; None if it cannot be decoded (nested too deep)."""
    return decode_repaired(msgspec.json.decode, data)


def text_of(value: msgspec.Raw | None) -> str:
    """Return a field's string; empty if it is anything else."""
    found = None if value is None else value_of(bytes(value))
    return found if isinstance(found, str) else ""


def is_true(value: msgspec.Raw | None) -> bool:
    return value is not None and bytes(value) == b"true"


def blocks_of(fields: Fields) -> list[dict[str, Any]]:
    """Return the content blocks of a message; empty if the content is plain text or missing."""
    message = value_of(bytes(fields.get("message", NULL)))
    content = message.get("content") if isinstance(message, dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def block_ids(blocks: list[dict[str, Any]], kind: str, name: str) -> list[str]:
    """Return the field `name` of each block of `kind`: the ids of tool calls, or of the calls that have results."""
    return [block[name] for block in blocks if block.get("type") == kind and isinstance(block.get(name), str)]


def complete_wire_record(fields: Fields, *, parent: str | None, at: int, session: SessionId) -> bytes:
    """Add the fields that the transcript's copy will have to a wire record. Existing fields stay as they are."""
    conversation = text_of(fields.get("type")) in CHAINED
    record: Fields = {}
    for name, value in fields.items():
        record[SPELLING.get(name, name) if conversation else name] = value
    if conversation and text_of(fields.get("parent_tool_use_id")):
        record.setdefault("parentToolUseID", fields["parent_tool_use_id"])
    record.setdefault("parentUuid", raw(parent))
    record.setdefault("timestamp", raw(iso_timestamp(at)))
    record.setdefault("sessionId", raw(text_of(fields.get("session_id")) or session))
    return encode(record)


def with_parent_call(data: bytes, fields: Fields, call: str) -> bytes:
    """Append the id of the starting call to a subagent's transcript line, which lacks it; the other bytes stay."""
    if not call or "parentToolUseID" in fields or not data.endswith(b"}"):
        return data
    return data[:-1] + b',"parentToolUseID":' + encode(call) + b"}"


def prompt(fields: Fields, *, parent: str | None, at: int, session: SessionId) -> bytes:
    """Build the echo of a message that the gateway sends to the agent, in the form of the seed transcript."""
    record = {
        "type": "user",
        "uuid": text_of(fields.get("uuid")),
        "parentUuid": parent,
        "timestamp": iso_timestamp(at),
        "sessionId": session,
        "message": fields.get("message", NULL),
    }
    return encode(record)


def result_record(event: ev.TurnEnded, *, at: int, session: SessionId) -> bytes:
    """Build the `result` of a turn for which the agent wrote none (it died, or could not be started)."""
    good = event.status == "completed"
    record: dict[str, Any] = {
        "type": "result",
        "subtype": "success" if good else "error_during_execution",
        "is_error": not good,
        "uuid": record_uuid(event.id),
        "parentUuid": None,
        "timestamp": iso_timestamp(at),
        "sessionId": session,
        "session_id": session,
        "num_turns": event.model_turns,
        "result": event.text or event.reason,
    }
    return encode(record)


def record_uuid(event: str) -> str:
    """Return a UUID for a record made by the gateway: always the same for the same event."""
    digits = hashlib.sha256(f"mylifedb:{event}".encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


def request_record(event: ev.PermissionRequested | ev.QuestionAsked | ev.PlanProposed) -> bytes:
    """Build the record of a permission request that did not come as the agent's `control_request`."""
    request = {"subtype": "can_use_tool", "tool_name": event.tool, "input": event.input, "tool_use_id": event.call}
    return encode({"type": "control_request", "request_id": event.request, "request": request})


def response_record(event: ev.PermissionResolved) -> bytes:
    return encode({"type": "control_response", "request_id": event.request, "behavior": event.behavior})


def cancel_record(request: str) -> bytes:
    return encode({"type": "control_cancel_request", "request_id": request})


def mode_record(event: ev.ModeChanged) -> bytes:
    """Build the record of a mode change, sent to every client; it has the request's id if a client of this protocol
    requested the change."""
    request = event.request or record_uuid(event.id)
    response = {"subtype": "set_permission_mode", "mode": event.mode}
    return encode({"type": "control_response", "request_id": request, "response": response})


def raw(value: str | None) -> msgspec.Raw:
    return msgspec.Raw(encode(value))
