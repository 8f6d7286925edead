"""Decodes a line into a record.

Rule: decoding never raises. A line that is not a JSON object becomes an `InvalidRecord`; an object with an unknown type
or fields of the wrong type becomes an `UnknownRecord`. The caller stores the bytes. Keys may come in any order.
"""

from typing import Any, Final

import msgspec

from fairlead.agents.claude.wire.markers import (
    INTERRUPT_MARKER,
    LINK_MARKER,
    SCREEN_MARKER,
    SUBAGENT_LINK,
    TYPED_PROMPT,
    ConnectionMarker,
    InterruptMarker,
    SubagentLink,
    TerminalMarker,
    TypedPrompt,
)
from fairlead.agents.claude.wire.records import (
    AssistantRecord,
    AuthStatus,
    BackgroundTasks,
    CompactBoundary,
    ControlCancel,
    ControlRequest,
    ControlResponse,
    HookRecord,
    Init,
    InvalidRecord,
    KeepAlive,
    ProgressRecord,
    QuietRecord,
    RateLimitRecord,
    ResultRecord,
    Status,
    StreamRecord,
    SystemNotice,
    SystemQuiet,
    TaskNotification,
    TaskProgress,
    TaskStarted,
    TaskUpdated,
    TitleRecord,
    ToolProgressRecord,
    ToolUseSummary,
    UnknownRecord,
    UserRecord,
    WireRecord,
)
from fairlead.model.formats.json_repair import repair_json

_TYPES: Final[dict[str, type[Any]]] = {
    "user": UserRecord,
    "assistant": AssistantRecord,
    "stream_event": StreamRecord,
    "result": ResultRecord,
    "tool_progress": ToolProgressRecord,
    "tool_use_summary": ToolUseSummary,
    "auth_status": AuthStatus,
    "rate_limit_event": RateLimitRecord,
    "progress": ProgressRecord,
    "control_request": ControlRequest,
    "control_response": ControlResponse,
    "control_cancel_request": ControlCancel,
    "keep_alive": KeepAlive,
    "summary": TitleRecord,
    "custom-title": TitleRecord,
    INTERRUPT_MARKER: InterruptMarker,
    LINK_MARKER: ConnectionMarker,
    SUBAGENT_LINK: SubagentLink,
    TYPED_PROMPT: TypedPrompt,
    SCREEN_MARKER: TerminalMarker,
}

QUIET_TYPES: Final = frozenset(
    {
        "streamlined_text",
        "streamlined_tool_use_summary",
        "command_lifecycle",
        "active_goal",
        "prompt_suggestion",
        "conversation_reset",
        # rows of transcripts
        "agent-name",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "atis-latch",
        "attachment",
        "cost-state",
        "file-history-delta",
        "file-history-snapshot",
        "last-prompt",
        "mode",
        "permission-mode",
        "queue-operation",
        "tag",
        "tools-used",
    }
)
"""Types, seen or documented, that carry nothing to show to a person."""

_SYSTEM: Final[dict[str, type[Any]]] = {
    "init": Init,
    "status": Status,
    "compact_boundary": CompactBoundary,
    "microcompact_boundary": CompactBoundary,
    "task_started": TaskStarted,
    "task_progress": TaskProgress,
    "task_updated": TaskUpdated,
    "task_notification": TaskNotification,
    "background_tasks_changed": BackgroundTasks,
    "hook_started": HookRecord,
    "hook_progress": HookRecord,
    "hook_response": HookRecord,
}

NOTICE_SUBTYPES: Final = frozenset(
    {
        "api_error",
        "api_retry",
        "files_persisted",
        "informational",
        "local_command",
        "local_command_output",
        "memory_recall",
        "mirror_error",
        "notification",
        "permission_denied",
        "plugin_install",
        "session_title_changed",
        "session_writes_lost",
        "worker_shutting_down",
    }
)
"""System subtypes with a message for a person outside the conversation (also all that begin with `model_refusal`)."""

QUIET_SUBTYPES: Final = frozenset(
    {
        "commands_changed",
        "control_request_progress",
        "elicitation_complete",
        "session_state_changed",
        "thinking_tokens",
        "turn_duration",
    }
)


class _Head(msgspec.Struct, frozen=True):
    """The fields that determine a line's class; the decoder skips the rest without building objects."""

    type: str
    subtype: str | None = None


_head: Final = msgspec.json.Decoder(_Head)
_any: Final = msgspec.json.Decoder()
_decoders: Final[dict[type[Any], msgspec.json.Decoder[Any]]] = {}


def _decoder(kind: type[Any]) -> msgspec.json.Decoder[Any]:
    made = _decoders.get(kind)
    if made is None:
        made = _decoders[kind] = msgspec.json.Decoder(kind)
    return made


def _class_of(head: _Head) -> type[Any] | None:
    if head.type != "system":
        return _TYPES.get(head.type) or (QuietRecord if head.type in QUIET_TYPES else None)
    subtype = head.subtype or ""
    if subtype in NOTICE_SUBTYPES or subtype.startswith("model_refusal"):
        return SystemNotice
    return _SYSTEM.get(subtype) or (SystemQuiet if subtype in QUIET_SUBTYPES else None)


def decode(raw: bytes) -> WireRecord:
    """Decode one line into a record. Never raises."""
    try:
        return _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return _decode(repair_json(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return InvalidRecord(problem=str(error))


def _decode(raw: bytes) -> WireRecord:
    try:
        kind = _class_of(_head.decode(raw))
        if kind is not None:
            record: WireRecord = _decoder(kind).decode(raw)
            return record
    except msgspec.ValidationError:
        pass  # a known type with unexpected fields, or no type at all
    return _unknown(raw)


def _unknown(raw: bytes) -> WireRecord:
    data = _any.decode(raw)
    if not isinstance(data, dict):
        return InvalidRecord(problem="not an object")
    kind, subtype, uuid = data.get("type"), data.get("subtype"), data.get("uuid")
    return UnknownRecord(
        type=kind if isinstance(kind, str) else "",
        subtype=subtype if isinstance(subtype, str) else "",
        uuid=uuid if isinstance(uuid, str) else None,
        parentUuid=data.get("parentUuid"),
        isSidechain=data.get("isSidechain"),
        agentId=data.get("agentId"),
    )


def decode_object(raw: bytes) -> dict[str, Any]:
    """All fields of a line that `decode` accepted as a record: the data of a notice."""
    try:
        data = _any.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        data = _any.decode(repair_json(raw))
    return data if isinstance(data, dict) else {}
