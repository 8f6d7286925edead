"""Decodes a line into a record.

Rule: decoding never raises. A line that is not a JSON object becomes an `InvalidRecord`; an object with an unknown type
or fields of the wrong type becomes an `UnknownRecord`. The caller stores the bytes. Keys may come in any order.
"""

from typing import Any, Final

import msgspec

from fairlead.agents.claude.wire import records as wire
from fairlead.agents.claude.wire.markers import MARKERS
from fairlead.agents.claude.wire.records import WireRecord, as_text
from fairlead.model.formats.json_repair import decode_repaired

# fmt: off
_QUIET_TYPES: Final = frozenset({
    "streamlined_text", "streamlined_tool_use_summary", "command_lifecycle", "active_goal", "prompt_suggestion",
    "conversation_reset",
    # rows of transcripts
    "agent-name", "api-request", "api-request-blob", "api-request-shape", "atis-latch", "attachment", "cost-state",
    "file-history-delta", "file-history-snapshot", "last-prompt", "mode", "permission-mode", "queue-operation", "tag",
    "tools-used",
})
"""Types, seen or documented, that carry nothing to show to a person."""

_NOTICE_SUBTYPES: Final = frozenset({
    "api_error", "api_retry", "files_persisted", "informational", "local_command", "local_command_output",
    "memory_recall", "mirror_error", "notification", "permission_denied", "plugin_install", "session_title_changed",
    "session_writes_lost", "worker_shutting_down",
})
"""System subtypes with a message for a person outside the conversation (also all that begin with `model_refusal`)."""

_QUIET_SUBTYPES: Final = frozenset({
    "commands_changed", "control_request_progress", "elicitation_complete", "session_state_changed", "thinking_tokens",
    "turn_duration",
})
# fmt: on

_TYPES: Final[dict[str, type[Any]]] = {
    "user": wire.UserRecord,
    "assistant": wire.AssistantRecord,
    "stream_event": wire.StreamRecord,
    "result": wire.ResultRecord,
    "tool_progress": wire.ToolProgressRecord,
    "tool_use_summary": wire.ToolUseSummary,
    "auth_status": wire.AuthStatus,
    "rate_limit_event": wire.RateLimitRecord,
    "progress": wire.ProgressRecord,
    "control_request": wire.ControlRequest,
    "control_response": wire.ControlResponse,
    "control_cancel_request": wire.ControlCancel,
    "keep_alive": wire.KeepAlive,
    "summary": wire.TitleRecord,
    "custom-title": wire.TitleRecord,
    **MARKERS,
    **dict.fromkeys(_QUIET_TYPES, wire.QuietRecord),
}

_SYSTEM: Final[dict[str, type[Any]]] = {
    "init": wire.Init,
    "status": wire.Status,
    "compact_boundary": wire.CompactBoundary,
    "microcompact_boundary": wire.CompactBoundary,
    "task_started": wire.TaskStarted,
    "task_progress": wire.TaskProgress,
    "task_updated": wire.TaskUpdated,
    "task_notification": wire.TaskNotification,
    "background_tasks_changed": wire.BackgroundTasks,
    "hook_started": wire.HookRecord,
    "hook_progress": wire.HookRecord,
    "hook_response": wire.HookRecord,
    **dict.fromkeys(_NOTICE_SUBTYPES, wire.SystemNotice),
    **dict.fromkeys(_QUIET_SUBTYPES, wire.SystemQuiet),
}


class _Head(msgspec.Struct, frozen=True):
    """The fields that determine a line's class; the decoder skips the rest without building objects."""

    type: str
    subtype: str | None = None


_head: Final = msgspec.json.Decoder(_Head)
_any: Final = msgspec.json.Decoder()
_objects: Final = msgspec.json.Decoder(dict[str, Any])
_decoders: Final = {kind: msgspec.json.Decoder(kind) for kind in {*_TYPES.values(), *_SYSTEM.values()}}


def _class_of(head: _Head) -> type[Any] | None:
    if head.type != "system":
        return _TYPES.get(head.type)
    subtype = head.subtype or ""
    return wire.SystemNotice if subtype.startswith("model_refusal") else _SYSTEM.get(subtype)


def decode(raw: bytes) -> WireRecord:
    """Decode one line into a record. Never raises."""
    return decode_repaired(_decode, raw) or wire.InvalidRecord()


def decode_row(raw: bytes) -> WireRecord:
    """Decode one row of a transcript. Never raises. Only a user or assistant row with a uuid is conversation."""
    record = decode(raw)
    if isinstance(record, wire.UserRecord | wire.AssistantRecord) and not record.uuid:
        return wire.QuietRecord(type="user" if isinstance(record, wire.UserRecord) else "assistant")
    return record


def _decode(raw: bytes) -> WireRecord:
    try:
        kind = _class_of(_head.decode(raw))
        if kind is not None:
            record: WireRecord = _decoders[kind].decode(raw)
            return record
    except msgspec.ValidationError:
        pass  # a known type with unexpected fields, or no type at all
    return _unknown(raw)


def _unknown(raw: bytes) -> WireRecord:
    data = _any.decode(raw)
    if not isinstance(data, dict):
        return wire.InvalidRecord()
    return wire.UnknownRecord(
        type=as_text(data.get("type")),
        subtype=as_text(data.get("subtype")),
        uuid=as_text(data.get("uuid")) or None,
        parentUuid=data.get("parentUuid"),
        isSidechain=data.get("isSidechain"),
        agentId=data.get("agentId"),
    )


def decode_object(raw: bytes | msgspec.Raw) -> dict[str, Any]:
    """All fields of a JSON object; empty for anything else."""
    return decode_repaired(_objects.decode, bytes(raw)) or {}
