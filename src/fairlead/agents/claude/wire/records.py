"""Claude's records as types: one class per message type. decode.py turns a line into a record.

Transcript rows use the same classes, which know both spellings of a key. Unknown keys are ignored, since the bytes are
stored.
"""

from typing import Any

import msgspec

from fairlead.agents.claude.wire.markers import Marker


def as_text(value: Any) -> str:
    """The value if it is a string, else an empty string: fields may come with any type."""
    return value if isinstance(value, str) else ""


def as_dicts(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; empty for anything that is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


class BaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of most messages. Only transcripts have `agentId`, `isSidechain`, `isMeta`, `version`, `parentUuid`."""

    uuid: str | None = None
    session_id: str | None = None
    parent_tool_use_id: str | None = None
    # Any: an invalid link to the parent must not make the whole row invalid.
    parentUuid: Any = None
    isSidechain: Any = None
    agentId: Any = None

    @property
    def parent_call(self) -> str:
        """The call whose subagent sent this; empty if the record does not name it."""
        return self.parent_tool_use_id or ""

    @property
    def agent(self) -> str:
        """The CLI's own id of the subagent that sent this; empty for the main thread."""
        return ""

    @property
    def parent_row(self) -> str:
        """The uuid of the row before it in its thread; empty for the first row, or if the link is not a string."""
        return as_text(self.parentUuid)

    @property
    def in_sidechain(self) -> bool:
        """Whether the row belongs to a subagent."""
        return self.isSidechain is True


# --- conversation --------------------------------------------------------------------------------


class ApiMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The `message` of user and assistant records: the Messages API's own shape."""

    id: str | None = None
    model: str | None = None
    content: Any = None
    stop_reason: str | None = None
    # Any: an invalid token count must not make the whole message invalid.
    usage: Any = None


class _MessageRecord(BaseRecord, frozen=True, kw_only=True):
    message: ApiMessage
    agent_id: str | None = None
    agentId: str | None = None
    isMeta: bool | None = None
    version: str | None = None
    parentToolUseId: Any = None

    @property
    def parent_call(self) -> str:
        return as_text(self.parent_tool_use_id or self.parentToolUseId)

    @property
    def agent(self) -> str:
        return self.agent_id or self.agentId or ""


class UserRecord(_MessageRecord, frozen=True, kw_only=True):
    tool_use_result: Any = None
    toolUseResult: Any = None
    isSynthetic: bool | None = None
    isReplay: bool | None = None
    isCompactSummary: bool | None = None

    @property
    def result(self) -> Any:
        return self.toolUseResult if self.tool_use_result is None else self.tool_use_result


class AssistantRecord(_MessageRecord, frozen=True, kw_only=True):
    error: str | None = None
    isCompactSummary: bool | None = None
    apiBlockIndex: int | None = None


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A raw event of the Messages streaming API."""

    type: str
    index: int | None = None
    message: ApiMessage | None = None
    content_block: dict[str, Any] | None = None
    delta: dict[str, Any] | None = None


class StreamRecord(BaseRecord, frozen=True, kw_only=True):
    event: StreamEvent


class ResultRecord(BaseRecord, frozen=True, kw_only=True):
    subtype: str
    is_error: bool | None = None
    result: str | None = None
    errors: list[Any] | None = None
    duration_ms: float | None = None
    duration_api_ms: float | None = None
    num_turns: float | None = None
    total_cost_usd: float | None = None
    modelUsage: dict[str, Any] | None = None
    model_usage_since_last_result: dict[str, Any] | None = None
    structured_output: Any = None


class ToolProgressRecord(BaseRecord, frozen=True, kw_only=True):
    tool_use_id: str
    tool_name: str | None = None
    elapsed_time_seconds: float | None = None


class ToolUseSummary(BaseRecord, frozen=True, kw_only=True):
    summary: str
    preceding_tool_use_ids: list[str] | None = None


class AuthStatus(BaseRecord, frozen=True, kw_only=True):
    isAuthenticating: bool | None = None
    output: list[str] | None = None
    error: str | None = None


class RateLimitRecord(BaseRecord, frozen=True, kw_only=True):
    rate_limit_info: dict[str, Any]


class ProgressRecord(BaseRecord, frozen=True, kw_only=True):
    """Progress of hooks, shells and subagents: a transcript row, and sometimes a record of the wire."""

    data: dict[str, Any]
    toolUseID: str | None = None
    parentToolUseID: str | None = None


# --- system ---------------------------------------------------------------------------------------


class Init(BaseRecord, frozen=True, kw_only=True):
    cwd: str | None = None
    model: str | None = None
    permissionMode: str | None = None
    claude_code_version: str | None = None
    tools: list[str] | None = None
    slash_commands: list[str] | None = None
    mcp_servers: list[dict[str, Any]] | None = None
    agents: list[Any] | None = None
    skills: list[Any] | None = None
    plugins: list[dict[str, Any]] | None = None


class Status(BaseRecord, frozen=True, kw_only=True):
    status: str | None = None
    permissionMode: str | None = None


class CompactBoundary(BaseRecord, frozen=True, kw_only=True):
    """`compact_metadata` on the wire, `compactMetadata` (or the micro form) in the transcript."""

    compact_metadata: dict[str, Any] | None = None
    compactMetadata: dict[str, Any] | None = None
    microcompactMetadata: dict[str, Any] | None = None


class TaskStarted(BaseRecord, frozen=True, kw_only=True):
    task_id: str
    tool_use_id: str | None = None
    task_type: str | None = None
    description: str | None = None
    subagent_type: str | None = None
    prompt: str | None = None
    is_backgrounded: bool | None = None


class TaskProgress(BaseRecord, frozen=True, kw_only=True):
    task_id: str
    tool_use_id: str | None = None
    description: str | None = None
    usage: dict[str, Any] | None = None


class TaskUpdated(BaseRecord, frozen=True, kw_only=True):
    task_id: str
    patch: dict[str, Any]


class TaskNotification(BaseRecord, frozen=True, kw_only=True):
    task_id: str
    tool_use_id: str | None = None
    status: str | None = None
    summary: str | None = None


class BackgroundTasks(BaseRecord, frozen=True, kw_only=True):
    tasks: list[dict[str, Any]]


class HookRecord(BaseRecord, frozen=True, kw_only=True):
    """hook_started, hook_progress and hook_response, matched by `hook_id`."""

    subtype: str
    hook_id: str
    hook_name: str | None = None
    hook_event: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    output: str | None = None
    exit_code: int | None = None
    outcome: str | None = None


class SystemNotice(BaseRecord, frozen=True, kw_only=True):
    """Every other system message for a person; the field that holds the text depends on the subtype."""

    subtype: str
    text: str | None = None
    message: Any = None
    content: Any = None
    title: str | None = None
    error: Any = None


class SystemQuiet(BaseRecord, frozen=True, kw_only=True):
    """A known system message with nothing to show to a person."""

    subtype: str


# --- control --------------------------------------------------------------------------------------


class ControlRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The `subtype` of `request` determines its class: see control.py."""

    request_id: str
    request: dict[str, Any]

    @property
    def subtype(self) -> str:
        return as_text(self.request.get("subtype"))


class ControlAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a control_response; `response` may be absent."""

    subtype: str
    request_id: str
    response: Any = None
    error: str | None = None
    pending_permission_requests: list[Any] | None = None


class ControlResponse(msgspec.Struct, frozen=True, kw_only=True):
    response: ControlAnswer


class ControlCancel(msgspec.Struct, frozen=True, kw_only=True):
    request_id: str


class KeepAlive(msgspec.Struct, frozen=True, kw_only=True):
    """A keep-alive, without content."""


class QuietRecord(BaseRecord, frozen=True, kw_only=True):
    """A record of a known type with nothing to show to a person."""

    type: str


class TitleRecord(BaseRecord, frozen=True, kw_only=True):
    """A transcript row with the session's title."""

    summary: str | None = None
    customTitle: str | None = None


class UnknownRecord(BaseRecord, frozen=True, kw_only=True):
    """An object of an unknown type, or with fields of unexpected types."""

    type: str = ""
    subtype: str = ""


class InvalidRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A line that is not a JSON object."""


WireRecord = BaseRecord | Marker | ControlRequest | ControlResponse | ControlCancel | KeepAlive | InvalidRecord
"""What a line decodes to; see decode.py for the class of each type."""
