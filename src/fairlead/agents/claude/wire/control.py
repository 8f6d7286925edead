"""The control protocol and all lines that we send: requests in both directions, their answers, prompts. Pure.

The lines that we send are a closed set: an unknown type ends 2.1.37.

Both sides send `control_request` and answer with `control_response`, matched by `request_id`: the CLI sends
can_use_tool, hook_callback and mcp_message; we send the rest, and mcp_message too. An unknown subtype is stored and
always answered with an error. stdio/pending.py keeps track of requests in flight.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from fairlead.agents.claude.wire.records import ControlRequest
from fairlead.agents.links.framing import encode_line
from fairlead.model.errors import AgentRefused


def request_line(request_id: str, subtype: str, fields: Mapping[str, Any]) -> bytes:
    """The line of our request. `fields` cannot change its subtype."""
    return encode_line({"type": "control_request", "request_id": request_id, "request": {**fields, "subtype": subtype}})


def user_line(content: Any, session_id: str = "", uuid: str = "") -> bytes:
    """The line for a prompt: `content` is a plain string or a list of content blocks.

    `session_id` is empty in the first prompt; later it is the id from the init record."""
    message = {"role": "user", "content": content}
    prompt = {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": session_id}
    return encode_line({**prompt, "uuid": uuid} if uuid else prompt)


def cancel_line(request_id: str) -> bytes:
    """The line that cancels one of our requests. Never send it to 2.1.37: see versions.py."""
    return encode_line({"type": "control_cancel_request", "request_id": request_id})


def keep_alive_line() -> bytes:
    return encode_line({"type": "keep_alive"})


def environment_line(variables: dict[str, str]) -> bytes:
    return encode_line({"type": "update_environment_variables", "variables": variables})


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


class RejectedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request with an unknown subtype or invalid fields. `problem` is the text of our error answer."""

    problem: str


CliRequest = CanUseTool | HookCallback | McpCall | RejectedRequest

REQUESTS_FROM_CLI: Final[dict[str, type[Any]]] = {
    "can_use_tool": CanUseTool,
    "hook_callback": HookCallback,
    "mcp_message": McpCall,
}


def parse_request(record: ControlRequest) -> CliRequest:
    """Decode the CLI's request into its class. Never raises."""
    kind = REQUESTS_FROM_CLI.get(record.subtype)
    if kind is None:
        return RejectedRequest(problem=f"Unsupported control request subtype: {record.subtype}")
    try:
        request: CliRequest = msgspec.convert(record.request, kind)
    except msgspec.ValidationError as error:
        return RejectedRequest(problem=f"Malformed control request {record.subtype}: {error}")
    return request


# --- our answers ------------------------------------------------------------------------------------


class AllowTool(msgspec.Struct, frozen=True, kw_only=True, tag_field="behavior", tag="allow", omit_defaults=True):
    """`updatedInput` is always sent (2.1.37 and 2.1.120 reject the tool without it) and replaces the whole input.

    `updatedPermissions` is never sent: the gateway's own policy remembers rules."""

    updatedInput: dict[str, Any]
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


def answer_line(request_id: str, answer: Any = None) -> bytes:
    """The line of a success answer; without an `answer` the inner `response` is omitted."""
    return _response_line("success", request_id, {} if answer is None else {"response": answer})


def mcp_answer_line(request_id: str, message: Any) -> bytes:
    """The line that carries the JSON-RPC answer of a server on our side."""
    return answer_line(request_id, {"mcp_response": message})


def error_line(request_id: str, problem: str) -> bytes:
    return _response_line("error", request_id, {"error": problem})


def _response_line(subtype: str, request_id: str, fields: Mapping[str, Any]) -> bytes:
    response = {"subtype": subtype, "request_id": request_id, **fields}
    return encode_line({"type": "control_response", "response": response})


# --- the CLI's answers ------------------------------------------------------------------------------


class BadAnswer(AgentRefused, code="agent_bad_answer"):
    """The CLI's answer does not have the shape of its request's subtype; only that request fails."""

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
