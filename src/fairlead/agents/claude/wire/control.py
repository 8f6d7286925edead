"""The control protocol: typed requests in both directions, their answers, and validation of an answer's shape. Pure.

Both sides send `control_request` and answer with `control_response`, matched by `request_id`: the CLI sends
can_use_tool, hook_callback and mcp_message; we send the rest, and mcp_message too. An unknown subtype is stored and
always answered with an error. pending.py keeps track of requests in flight.
"""

from typing import Any, Final, Literal

import msgspec

from fairlead.agents.claude.wire.encode import SendAnswer, SendRequest
from fairlead.agents.claude.wire.framing import encode_line
from fairlead.agents.claude.wire.records import ControlRequest
from fairlead.model.errors import AgentRefused

# --- our requests ----------------------------------------------------------------------------------


class _Ask(msgspec.Struct, frozen=True, kw_only=True, tag_field="subtype", omit_defaults=True):
    """Base class of our requests; fields left at their default are not sent."""


class HookMatcher(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`timeout` is how long the CLI waits for our answer, in seconds."""

    hookCallbackIds: tuple[str, ...]
    matcher: str | None = None
    timeout: float | None = None


class Initialize(_Ask, frozen=True, kw_only=True, tag="initialize"):
    """Sent once per process, before the first prompt; every field is optional."""

    hooks: dict[str, tuple[HookMatcher, ...]] | None = None
    sdkMcpServers: tuple[str, ...] | None = None
    jsonSchema: dict[str, Any] | None = None
    systemPrompt: str | None = None
    appendSystemPrompt: str | None = None
    agents: dict[str, Any] | None = None
    forwardSubagentText: bool | None = None


class InterruptRequest(_Ask, frozen=True, kw_only=True, tag="interrupt"):
    """Abort the current turn."""


class SetPermissionMode(_Ask, frozen=True, kw_only=True, tag="set_permission_mode"):
    mode: str


class SetModelRequest(_Ask, frozen=True, kw_only=True, tag="set_model"):
    """`default` goes back to the default model."""

    model: str | None = None


class SetMaxThinkingTokens(_Ask, frozen=True, kw_only=True, tag="set_max_thinking_tokens"):
    max_thinking_tokens: int | None


class McpStatus(_Ask, frozen=True, kw_only=True, tag="mcp_status"):
    pass


class McpMessage(_Ask, frozen=True, kw_only=True, tag="mcp_message"):
    """A JSON-RPC message to or from an MCP server; the only subtype that both sides send."""

    server_name: str
    message: Any


class McpReconnect(_Ask, frozen=True, kw_only=True, tag="mcp_reconnect"):
    serverName: str


class McpToggle(_Ask, frozen=True, kw_only=True, tag="mcp_toggle"):
    serverName: str
    enabled: bool


class McpServerConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    type: Literal["stdio", "sse", "http", "sdk"]
    command: str | None = None
    args: tuple[str, ...] | None = None
    env: dict[str, str] | None = None
    url: str | None = None


class McpSetServers(_Ask, frozen=True, kw_only=True, tag="mcp_set_servers"):
    servers: dict[str, McpServerConfig]


class RewindFiles(_Ask, frozen=True, kw_only=True, tag="rewind_files"):
    user_message_id: str
    dry_run: bool | None = None


class OtherRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose subtype has no class here; also a request of the CLI with an unknown subtype."""

    subtype: str
    fields: dict[str, Any] = {}


OurRequest = (
    Initialize
    | InterruptRequest
    | SetPermissionMode
    | SetModelRequest
    | SetMaxThinkingTokens
    | McpStatus
    | McpMessage
    | McpReconnect
    | McpToggle
    | McpSetServers
    | RewindFiles
    | OtherRequest
)

REQUESTS_TO_CLI: Final[dict[str, type[Any]]] = {
    "initialize": Initialize,
    "interrupt": InterruptRequest,
    "set_permission_mode": SetPermissionMode,
    "set_model": SetModelRequest,
    "set_max_thinking_tokens": SetMaxThinkingTokens,
    "mcp_status": McpStatus,
    "mcp_message": McpMessage,
    "mcp_reconnect": McpReconnect,
    "mcp_toggle": McpToggle,
    "mcp_set_servers": McpSetServers,
    "rewind_files": RewindFiles,
}


def subtype_of(ask: OurRequest) -> str:
    return ask.subtype if isinstance(ask, OtherRequest) else str(type(ask).__struct_config__.tag)


def request_line(request_id: str, ask: OurRequest) -> bytes:
    """Encode our request as a line."""
    request = {**ask.fields, "subtype": ask.subtype} if isinstance(ask, OtherRequest) else ask
    return encode_line(SendRequest(request_id=request_id, request=request))


# --- the CLI's requests -----------------------------------------------------------------------------


class CanUseTool(msgspec.Struct, frozen=True, kw_only=True):
    """A permission request for a tool. `permission_suggestions` are PermissionUpdates; other fields stay in the
    record."""

    tool_name: str
    input: dict[str, Any]
    tool_use_id: str
    permission_suggestions: list[Any] | None = None
    blocked_path: str | None = None
    decision_reason: str | None = None
    agent_id: str | None = None
    description: str | None = None
    title: str | None = None


class HookCallback(msgspec.Struct, frozen=True, kw_only=True):
    """`callback_id` is one of the ids that we registered with `initialize`."""

    callback_id: str
    input: dict[str, Any]
    tool_use_id: str | None = None


class McpCall(msgspec.Struct, frozen=True, kw_only=True):
    """The CLI's mcp_message for a server that runs on our side."""

    server_name: str
    message: dict[str, Any]


class Malformed(msgspec.Struct, frozen=True, kw_only=True):
    """A known subtype with invalid fields: answered with an error that says so."""

    subtype: str
    problem: str


CliRequest = CanUseTool | HookCallback | McpCall | OtherRequest | Malformed

REQUESTS_FROM_CLI: Final[dict[str, type[Any]]] = {
    "can_use_tool": CanUseTool,
    "hook_callback": HookCallback,
    "mcp_message": McpCall,
}


def parse_request(record: ControlRequest) -> CliRequest:
    """Decode the CLI's request into its class. Never raises."""
    kind = REQUESTS_FROM_CLI.get(record.subtype)
    if kind is None:
        return OtherRequest(subtype=record.subtype, fields={k: v for k, v in record.request.items() if k != "subtype"})
    try:
        request: CliRequest = msgspec.convert(record.request, kind)
    except msgspec.ValidationError as error:
        return Malformed(subtype=record.subtype, problem=str(error))
    return request


# --- our answers ------------------------------------------------------------------------------------

Destination = Literal["userSettings", "projectSettings", "localSettings", "session", "cliArg"]


class PermissionRule(msgspec.Struct, frozen=True, omit_defaults=True):
    toolName: str
    ruleContent: str | None = None


class _Update(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base class of the permission changes that an allow may carry."""


class _Rules(_Update, frozen=True, kw_only=True):
    rules: tuple[PermissionRule, ...]
    behavior: Literal["allow", "deny", "ask"]
    destination: Destination


class AddRules(_Rules, frozen=True, kw_only=True, tag="addRules"):
    pass


class ReplaceRules(_Rules, frozen=True, kw_only=True, tag="replaceRules"):
    pass


class RemoveRules(_Rules, frozen=True, kw_only=True, tag="removeRules"):
    pass


class SetModeUpdate(_Update, frozen=True, kw_only=True, tag="setMode"):
    mode: str
    destination: Destination


class AddDirectories(_Update, frozen=True, kw_only=True, tag="addDirectories"):
    directories: tuple[str, ...]
    destination: Destination


class RemoveDirectories(_Update, frozen=True, kw_only=True, tag="removeDirectories"):
    directories: tuple[str, ...]
    destination: Destination


PermissionUpdate = AddRules | ReplaceRules | RemoveRules | SetModeUpdate | AddDirectories | RemoveDirectories


class AllowTool(msgspec.Struct, frozen=True, kw_only=True, tag_field="behavior", tag="allow", omit_defaults=True):
    """`updatedInput` is always sent (2.1.37 and 2.1.120 reject the tool without it) and replaces the whole input.

    Only the gateway sets `updatedPermissions`; a client's field of that name is never forwarded."""

    updatedInput: dict[str, Any]
    updatedPermissions: tuple[PermissionUpdate, ...] = ()
    toolUseID: str | None = None


class DenyTool(msgspec.Struct, frozen=True, kw_only=True, tag_field="behavior", tag="deny", omit_defaults=True):
    """`message` reaches the model as the tool's result; `interrupt` aborts the whole run."""

    message: str
    interrupt: bool = False
    toolUseID: str | None = None


class HookOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    hookEventName: str
    permissionDecision: Literal["allow", "deny", "ask"] | None = None
    permissionDecisionReason: str | None = None
    updatedInput: dict[str, Any] | None = None
    additionalContext: str | None = None
    decision: dict[str, Any] | None = None


class HookAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"continue_": "continue"}):
    """Every field is optional; an empty answer lets the CLI continue."""

    continue_: bool | None = None
    suppressOutput: bool | None = None
    stopReason: str | None = None
    decision: Literal["approve", "block"] | None = None
    reason: str | None = None
    systemMessage: str | None = None
    hookSpecificOutput: HookOutput | None = None


class AsyncHookAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The hook continues on its own; the CLI does not wait longer than `asyncTimeout` milliseconds."""

    asyncTimeout: float | None = None


def answer_line(request_id: str, answer: Any = None) -> bytes:
    """The line of a success answer; without an `answer` the inner `response` is omitted."""
    inside: dict[str, Any] = {"subtype": "success", "request_id": request_id}
    if isinstance(answer, AsyncHookAnswer):
        inside["response"] = {"async": True, **msgspec.to_builtins(answer)}
    elif answer is not None:
        inside["response"] = answer
    return encode_line(SendAnswer(response=inside))


def mcp_answer_line(request_id: str, message: Any) -> bytes:
    """The line that carries the JSON-RPC answer of a server on our side."""
    return answer_line(request_id, {"mcp_response": message})


def error_line(request_id: str, problem: str) -> bytes:
    return encode_line(SendAnswer(response={"subtype": "error", "request_id": request_id, "error": problem}))


def rejection_text(request: OtherRequest | Malformed) -> str:
    """The error text with which we reject a request of the CLI that we cannot serve."""
    if isinstance(request, Malformed):
        return f"Malformed control request {request.subtype}: {request.problem}"
    return f"Unsupported control request subtype: {request.subtype}"


# --- the CLI's answers ------------------------------------------------------------------------------


class BadAnswer(AgentRefused):
    """The CLI's answer does not have the shape of its request's subtype; only that request fails."""

    code = "agent_bad_answer"

    def __init__(self, subtype: str, problem: str) -> None:
        super().__init__(f"The agent's answer to {subtype} is not understood: {problem}", subtype=subtype)


class CommandInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str = ""
    argumentHint: str | None = None


class Initialized(msgspec.Struct, frozen=True, kw_only=True):
    commands: list[CommandInfo] = []
    output_style: str = ""
    available_output_styles: list[str] = []
    models: list[dict[str, Any]] = []
    account: dict[str, Any] = {}
    fast_mode: bool | None = None


class ModeSet(msgspec.Struct, frozen=True, kw_only=True):
    """Empty in the second answer of 2.1.37."""

    mode: str | None = None


class McpServerState(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    status: str
    scope: str | None = None
    config: dict[str, Any] | None = None
    serverInfo: Any = None
    error: str | None = None
    tools: list[dict[str, Any]] | None = None


class McpServersAnswer(msgspec.Struct, frozen=True, kw_only=True):
    mcpServers: list[McpServerState]


class RewindAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`filesChanged` is a list of paths; only a dry run includes it and the counts."""

    canRewind: bool
    filesChanged: list[str] | int | None = None
    insertions: int | None = None
    deletions: int | None = None
    error: str | None = None


_ANSWERS: Final[dict[str, type[Any]]] = {
    "initialize": Initialized,
    "set_permission_mode": ModeSet,
    "mcp_status": McpServersAnswer,
    "rewind_files": RewindAnswer,
}


def check_answer(subtype: str, response: Any) -> dict[str, Any]:
    """Return the answer unchanged, with unknown fields, if it has the shape of its subtype. Raises BadAnswer."""
    answer = {} if response is None else response
    if not isinstance(answer, dict):
        raise BadAnswer(subtype, "an object is expected")
    kind = _ANSWERS.get(subtype)
    if kind is not None:
        try:
            msgspec.convert(answer, kind)
        except msgspec.ValidationError as error:
            raise BadAnswer(subtype, str(error)) from None
    return answer
