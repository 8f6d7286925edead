"""Claude's records, typed: one class a message type, decoded from a line.

Rule: decoding never raises. What is no JSON object becomes `Garbage`, what has an unknown type or fields of the
wrong type becomes `UnknownRecord`; the caller keeps the bytes. Keys come in any order, and unknown ones are
ignored here since the bytes are kept. Transcript rows are decoded by the same classes: both spellings are known.
"""

from typing import Any, Final

import msgspec

from fairlead.agents.claude.lines import encode_line
from fairlead.model.mending import mend


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    """What most messages have. `agentId`, `isSidechain`, `isMeta`, `version`, `parentUuid` are the transcript's."""

    uuid: str | None = None
    session_id: str | None = None
    parent_tool_use_id: str | None = None
    # Of any type: what is wrong with the link of a row makes the row no other.
    parentUuid: Any = None
    isSidechain: Any = None


class _Row(_Body, frozen=True, kw_only=True):
    """What may stand in a transcript between two rows of a conversation."""

    agentId: Any = None


# --- conversation --------------------------------------------------------------------------------


class ApiMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The `message` of user and assistant records: the Messages API's own shape."""

    id: str | None = None
    role: str | None = None
    model: str | None = None
    content: Any = None
    stop_reason: str | None = None
    # Of any type: a count that cannot be read makes the message no other.
    usage: Any = None


class _Said(_Body, frozen=True, kw_only=True):
    message: ApiMessage
    agent_id: str | None = None
    agentId: str | None = None
    isMeta: bool | None = None
    version: str | None = None
    parentToolUseId: Any = None

    @property
    def parent_call(self) -> str:
        """The call whose subagent says this, in either spelling; empty where the record does not tell."""
        given = self.parent_tool_use_id or self.parentToolUseId
        return given if isinstance(given, str) else ""

    @property
    def agent(self) -> str:
        """The CLI's own id of the subagent that says this; empty for the main thread."""
        return self.agent_id or self.agentId or ""


class UserRecord(_Said, frozen=True, kw_only=True):
    tool_use_result: Any = None
    toolUseResult: Any = None
    isSynthetic: bool | None = None
    isReplay: bool | None = None
    isCompactSummary: bool | None = None

    @property
    def result(self) -> Any:
        return self.toolUseResult if self.tool_use_result is None else self.tool_use_result


class AssistantRecord(_Said, frozen=True, kw_only=True):
    error: str | None = None
    apiBlockIndex: int | None = None


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A raw event of the Messages streaming API."""

    type: str
    index: int | None = None
    message: ApiMessage | None = None
    content_block: dict[str, Any] | None = None
    delta: dict[str, Any] | None = None


class StreamRecord(_Body, frozen=True, kw_only=True):
    event: StreamEvent


class ResultRecord(_Body, frozen=True, kw_only=True):
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


class ToolProgressRecord(_Body, frozen=True, kw_only=True):
    tool_use_id: str
    tool_name: str | None = None
    elapsed_time_seconds: float | None = None


class ToolUseSummary(_Body, frozen=True, kw_only=True):
    summary: str
    preceding_tool_use_ids: list[str] | None = None


class AuthStatus(_Body, frozen=True, kw_only=True):
    isAuthenticating: bool | None = None
    output: list[str] | None = None
    error: str | None = None


class RateLimitRecord(_Body, frozen=True, kw_only=True):
    rate_limit_info: dict[str, Any]


class ProgressRecord(_Row, frozen=True, kw_only=True):
    """A transcript's row, and now and then the wire's: hooks, shells and subagents at work."""

    data: dict[str, Any]
    toolUseID: str | None = None
    parentToolUseID: str | None = None


# --- system ---------------------------------------------------------------------------------------


class Init(_Body, frozen=True, kw_only=True):
    cwd: str | None = None
    model: str | None = None
    permissionMode: str | None = None
    claude_code_version: str | None = None
    apiKeySource: str | None = None
    output_style: str | None = None
    tools: list[str] | None = None
    slash_commands: list[str] | None = None
    mcp_servers: list[dict[str, Any]] | None = None
    agents: list[Any] | None = None
    skills: list[Any] | None = None
    plugins: list[dict[str, Any]] | None = None


class Status(_Body, frozen=True, kw_only=True):
    status: str | None = None
    permissionMode: str | None = None


class CompactBoundary(_Row, frozen=True, kw_only=True):
    """`compact_metadata` on the wire, `compactMetadata` (or the micro form) in the transcript."""

    compact_metadata: dict[str, Any] | None = None
    compactMetadata: dict[str, Any] | None = None
    microcompactMetadata: dict[str, Any] | None = None


class TaskStarted(_Body, frozen=True, kw_only=True):
    task_id: str
    tool_use_id: str | None = None
    task_type: str | None = None
    description: str | None = None
    subagent_type: str | None = None
    prompt: str | None = None
    is_backgrounded: bool | None = None


class TaskProgress(_Body, frozen=True, kw_only=True):
    task_id: str
    tool_use_id: str | None = None
    description: str | None = None
    usage: dict[str, Any] | None = None


class TaskUpdated(_Body, frozen=True, kw_only=True):
    task_id: str
    patch: dict[str, Any]


class TaskNotification(_Body, frozen=True, kw_only=True):
    task_id: str
    tool_use_id: str | None = None
    status: str | None = None
    summary: str | None = None
    output_file: str | None = None


class BackgroundTasks(_Body, frozen=True, kw_only=True):
    tasks: list[dict[str, Any]]


class HookRecord(_Row, frozen=True, kw_only=True):
    """hook_started, hook_progress and hook_response, joined by `hook_id`."""

    subtype: str
    hook_id: str
    hook_name: str | None = None
    hook_event: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    output: str | None = None
    exit_code: int | None = None
    outcome: str | None = None


class SystemNotice(_Row, frozen=True, kw_only=True):
    """Every other system message that has something to say to a person; which field has the words differs."""

    subtype: str
    text: str | None = None
    message: Any = None
    content: Any = None
    title: str | None = None
    error: Any = None


class SystemQuiet(_Row, frozen=True, kw_only=True):
    """A system message that is known and says nothing to a person."""

    subtype: str


# --- control --------------------------------------------------------------------------------------


class ControlRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`request` is told apart by its `subtype`: see control.py."""

    request_id: str
    request: dict[str, Any]

    @property
    def subtype(self) -> str:
        subtype = self.request.get("subtype")
        return subtype if isinstance(subtype, str) else ""


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """The inside of a control_response; `response` may be absent."""

    subtype: str
    request_id: str
    response: Any = None
    error: str | None = None
    pending_permission_requests: list[Any] | None = None


class ControlResponse(msgspec.Struct, frozen=True, kw_only=True):
    response: Answered


class ControlCancel(msgspec.Struct, frozen=True, kw_only=True):
    request_id: str


class KeepAlive(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing."""


# --- the rest -------------------------------------------------------------------------------------


class QuietRecord(_Row, frozen=True, kw_only=True):
    """A type that is known and says nothing to a person."""

    type: str


class TitleRecord(_Body, frozen=True, kw_only=True):
    """A transcript's row that names the session."""

    type: str
    summary: str | None = None
    customTitle: str | None = None


class InterruptMarker(msgspec.Struct, frozen=True, kw_only=True):
    """Ours, never sent: an interrupt was asked for here."""

    cause: str = ""


class SubagentLink(msgspec.Struct, frozen=True, kw_only=True):
    """Ours: what the file beside a subagent's transcript says about whose it is (its `.meta.json`)."""

    agentId: str
    toolUseId: str


class LinkMarker(msgspec.Struct, frozen=True, kw_only=True):
    """Ours, never sent: the agent's socket was away. `gap`: some of what it said was lost; `over`: nothing more comes
    of what it was doing; `back`: it is here again, and `asked` are the calls about which a person is being asked."""

    cause: str = ""
    gap: bool = False
    over: bool = False
    back: bool = False
    asked: tuple[str, ...] = ()


class TypedPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """Ours: a prompt that is typed into the agent's terminal. The row of its transcript will be the user's message;
    `uuid` is the message's id, which that row does not know."""

    uuid: str
    content: Any


class ScreenMarker(msgspec.Struct, frozen=True, kw_only=True):
    """Ours, never sent: what the driver of a terminal knows beside the transcript.

    `ready`: the agent runs (agent_session and what follows). `stopped`: its Stop hook came. `idle`: it is back at its
    prompt; `left`: it has been for a while, and no answer came. `untyped`: the prompt `message` could not be typed.
    `shows`: something a person must see to (`kind`, `lines`)."""

    cause: str = ""
    what: str = ""
    agent_session: str = ""
    version: str = ""
    mode: str = ""
    cwd: str = ""
    message: str = ""
    text: str = ""
    kind: str = ""
    lines: tuple[str, ...] = ()


class UnknownRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An object of a type we do not know, or whose fields are not what we know."""

    type: str = ""
    subtype: str = ""
    uuid: str | None = None
    parentUuid: Any = None
    isSidechain: Any = None
    agentId: Any = None


class Garbage(msgspec.Struct, frozen=True, kw_only=True):
    """A line that is no JSON object; `problem` says why."""

    problem: str


WireRecord = (
    UserRecord
    | AssistantRecord
    | StreamRecord
    | ResultRecord
    | ToolProgressRecord
    | ToolUseSummary
    | AuthStatus
    | RateLimitRecord
    | ProgressRecord
    | Init
    | Status
    | CompactBoundary
    | TaskStarted
    | TaskProgress
    | TaskUpdated
    | TaskNotification
    | BackgroundTasks
    | HookRecord
    | SystemNotice
    | SystemQuiet
    | ControlRequest
    | ControlResponse
    | ControlCancel
    | KeepAlive
    | QuietRecord
    | TitleRecord
    | InterruptMarker
    | LinkMarker
    | SubagentLink
    | TypedPrompt
    | ScreenMarker
    | UnknownRecord
    | Garbage
)

INTERRUPT_MARKER: Final = "fairlead_interrupt"
LINK_MARKER: Final = "fairlead_link"
SUBAGENT_LINK: Final = "fairlead_subagent"
TYPED_PROMPT: Final = "fairlead_typed"
SCREEN_MARKER: Final = "fairlead_screen"
"""The `type`s of our own markers; the prefix keeps them apart from any type of the CLI."""

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
    LINK_MARKER: LinkMarker,
    SUBAGENT_LINK: SubagentLink,
    TYPED_PROMPT: TypedPrompt,
    SCREEN_MARKER: ScreenMarker,
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
"""Types seen or documented that carry nothing a person is told."""

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
"""System subtypes that tell a person something beside the conversation (and all that begin `model_refusal`)."""

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
    """The part of a line that says what the rest is; the rest is skipped without being built."""

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
    """One line as a record. Never raises."""
    try:
        return _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return _decode(mend(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Garbage(problem=str(error))


def _decode(raw: bytes) -> WireRecord:
    try:
        kind = _class_of(_head.decode(raw))
        if kind is not None:
            record: WireRecord = _decoder(kind).decode(raw)
            return record
    except msgspec.ValidationError:
        pass  # a known type with other fields than we know, or no type at all
    return _unknown(raw)


# An escaped backslash, a whole surrogate pair, or half of one.
def _unknown(raw: bytes) -> WireRecord:
    data = _any.decode(raw)
    if not isinstance(data, dict):
        return Garbage(problem="not an object")
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
    """All fields of a line that `decode` took for a record: what a notice keeps as its data."""
    try:
        data = _any.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        data = _any.decode(mend(raw))
    return data if isinstance(data, dict) else {}


def interrupt_marker(cause: str) -> bytes:
    """The record (origin `gateway`, never sent) that tells the interpreter of an interrupt; no newline."""
    return encode_line({"type": INTERRUPT_MARKER, "cause": cause})[:-1]


def link_marker(marker: LinkMarker) -> bytes:
    """The record (origin `gateway`, never sent) that tells the interpreter how the link fared; no newline."""
    return encode_line({"type": LINK_MARKER, **msgspec.structs.asdict(marker)})[:-1]


def subagent_link(agent: str, call: str) -> bytes:
    """The record (origin `gateway`, never sent) that tells the interpreter which call began a subagent; no newline."""
    return encode_line({"type": SUBAGENT_LINK, "agentId": agent, "toolUseId": call})[:-1]


def typed_prompt(content: Any, message: str) -> bytes:
    """Our line for a prompt that is typed (origin `gateway`); no newline."""
    return encode_line({"type": TYPED_PROMPT, "uuid": message, "content": content})[:-1]


def screen_marker(marker: ScreenMarker) -> bytes:
    """The record (origin `gateway`, never sent) by which the driver of a terminal tells what it knows; no newline."""
    return encode_line({"type": SCREEN_MARKER, **msgspec.structs.asdict(marker)})[:-1]
