"""Records as MyLifeDB shows them: the transcript's own spelling, whoever brought them. Pure; no memory.

A record of the transcript goes out byte for byte. One of the agent's wire lacks what the transcript adds and spells
some names otherwise: it is completed, its values untouched. What no record brought (an answered permission, a turn
that ended with its process) is made here from the event.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from fairlead.model import events as ev
from fairlead.model.ids import SessionId
from fairlead.model.json_repair import mend
from fairlead.model.timestamps import moment

Fields = dict[str, msgspec.Raw]

NULL: Final = msgspec.Raw(b"null")
SPELLING: Final = {"tool_use_result": "toolUseResult", "request_id": "requestId"}
"""Of user and assistant records: what the wire writes in snake case and the transcript does not."""
CHAINED: Final = frozenset({"user", "assistant"})
"""Records that the next one of their thread hangs on; the others hang on the thread and are transparent."""
_decoder: msgspec.json.Decoder[Fields] = msgspec.json.Decoder(Fields)
_encoder = msgspec.json.Encoder()


def readable(raw: bytes) -> bytes:
    """A line as clients are sent it: its own bytes, if they are UTF-8."""
    line = raw.strip()
    try:
        line.decode()
    except UnicodeDecodeError:
        return mend(line)
    return line


def _tries(data: bytes) -> Iterator[bytes]:
    yield data
    yield mend(data)


def fields_of(raw: bytes) -> Fields | None:
    """A record's fields, each as it was written (but half an emoji becomes U+FFFD); None for what is no JSON object."""
    for line in _tries(raw):
        try:
            return _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return None


def value_of(data: bytes) -> Any:
    """A record or a field; None for one that nests too deep to be taken apart."""
    for line in _tries(data):
        try:
            return msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return None


def text_of(value: msgspec.Raw | None) -> str:
    """A field that is a string; empty for anything else."""
    found = None if value is None else value_of(bytes(value))
    return found if isinstance(found, str) else ""


def is_true(value: msgspec.Raw | None) -> bool:
    return value is not None and bytes(value) == b"true"


def blocks_of(fields: Fields) -> list[dict[str, Any]]:
    """The content blocks of a message; none where the content is a plain text or missing."""
    message = value_of(bytes(fields.get("message", NULL)))
    content = message.get("content") if isinstance(message, dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def names(blocks: list[dict[str, Any]], kind: str, name: str) -> list[str]:
    """The ids of the tool calls, or of those that are answered."""
    return [block[name] for block in blocks if block.get("type") == kind and isinstance(block.get(name), str)]


def completed(fields: Fields, *, parent: str | None, at: int, session: SessionId) -> bytes:
    """A record of the wire with what the transcript's copy will add. What it has already stays as it is."""
    conversation = text_of(fields.get("type")) in CHAINED
    told: Fields = {}
    for name, value in fields.items():
        told[SPELLING.get(name, name) if conversation else name] = value
    if conversation and text_of(fields.get("parent_tool_use_id")):
        told.setdefault("parentToolUseID", fields["parent_tool_use_id"])
    told.setdefault("parentUuid", raw(parent))
    told.setdefault("timestamp", raw(moment(at)))
    told.setdefault("sessionId", raw(text_of(fields.get("session_id")) or session))
    return _encoder.encode(told)


def inside(data: bytes, fields: Fields, call: str) -> bytes:
    """A subagent's line of the transcript, which does not say itself which call it works for; its bytes stay."""
    if not call or "parentToolUseID" in fields or not data.endswith(b"}"):
        return data
    return data[:-1] + b',"parentToolUseID":' + _encoder.encode(call) + b"}"


def prompt(fields: Fields, *, parent: str | None, at: int, session: SessionId) -> bytes:
    """The echo of a message that we hand to the agent, in the form of the seed."""
    told = {
        "type": "user",
        "uuid": text_of(fields.get("uuid")),
        "parentUuid": parent,
        "timestamp": moment(at),
        "sessionId": session,
        "message": fields.get("message", NULL),
    }
    return _encoder.encode(told)


def ended(event: ev.TurnEnded, *, at: int, session: SessionId) -> bytes:
    """A turn that ended without a `result` of the agent's (it died, or could not be started)."""
    good = event.status == "completed"
    told: dict[str, Any] = {
        "type": "result",
        "subtype": "success" if good else "error_during_execution",
        "is_error": not good,
        "uuid": named(event.id),
        "parentUuid": None,
        "timestamp": moment(at),
        "sessionId": session,
        "session_id": session,
        "num_turns": event.model_turns,
        "result": event.text or event.reason,
    }
    return _encoder.encode(told)


def named(event: str) -> str:
    """A UUID for a record that we make ourselves: always the same for the same event."""
    digits = hashlib.sha256(f"mylifedb:{event}".encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


def asked(event: ev.PermissionRequested | ev.QuestionAsked | ev.PlanProposed) -> bytes:
    """A request that came by another way than the agent's `control_request`."""
    match event:
        case ev.PermissionRequested():
            tool = event.tool
        case ev.QuestionAsked():
            tool = "AskUserQuestion"
        case ev.PlanProposed():
            tool = "ExitPlanMode"
    request = {"subtype": "can_use_tool", "tool_name": tool, "input": event.input, "tool_use_id": event.call}
    return _encoder.encode({"type": "control_request", "request_id": event.request, "request": request})


def answered(event: ev.PermissionResolved) -> bytes:
    return _encoder.encode({"type": "control_response", "request_id": event.request, "behavior": event.behavior})


def withdrawn(request: str) -> bytes:
    return _encoder.encode({"type": "control_cancel_request", "request_id": request})


def mode_set(event: ev.ModeChanged) -> bytes:
    """To everybody, under the request's own id if a client of this protocol asked."""
    request = event.request or named(event.id)
    response = {"subtype": "set_permission_mode", "mode": event.mode}
    return _encoder.encode({"type": "control_response", "request_id": request, "response": response})


def plain(message: Mapping[str, Any]) -> bytes:
    return _encoder.encode(message)


def raw(value: str | None) -> msgspec.Raw:
    return msgspec.Raw(_encoder.encode(value))
