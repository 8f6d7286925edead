"""The control protocol: exact requests and answers, typed requests of the CLI, and the validation of its answers."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agents.claude.wire import control as c
from fairlead.agents.claude.wire.records import ControlRequest


def request(subtype: str, **fields: Any) -> dict[str, Any]:
    line = c.request_line("r1", subtype, fields)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    sent = json.loads(line)
    assert list(sent) == ["type", "request_id", "request"]
    assert (sent["type"], sent["request_id"]) == ("control_request", "r1")
    inner: dict[str, Any] = sent["request"]
    return inner


def answer(line: bytes) -> Any:
    sent = json.loads(line)
    assert sent["type"] == "control_response"
    assert sent["response"]["request_id"] == "r1"
    return sent["response"]


# --- requests to the CLI -----------------------------------------------------------------------------------

TO_CLI: dict[str, list[dict[str, Any]]] = {
    "initialize": [
        {},
        {"hooks": {"Stop": [{"hookCallbackIds": ["h"]}]}},
        {
            "hooks": {"PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["h0"], "timeout": 60.0}]},
            "sdkMcpServers": ["m"],
            "jsonSchema": {"type": "object"},
            "systemPrompt": "s",
            "appendSystemPrompt": "a",
            "agents": {"x": {"description": "d", "prompt": "p"}},
        },
    ],
    "interrupt": [{}],
    "set_permission_mode": [{"mode": "plan"}],
    "set_model": [{}, {"model": "default"}],
    "set_max_thinking_tokens": [{"max_thinking_tokens": None}, {"max_thinking_tokens": 1000}],
    "mcp_status": [{}],
    "mcp_message": [{"server_name": "m", "message": {"jsonrpc": "2.0"}}],
    "mcp_reconnect": [{"serverName": "m"}],
    "mcp_toggle": [{"serverName": "m", "enabled": False}],
    "mcp_set_servers": [
        {"servers": {"a": {"type": "stdio", "command": "x", "args": ["-y"], "env": {"K": "v"}}}},
        {"servers": {"b": {"type": "sse", "url": "http://127.0.0.1/s"}}},
        {"servers": {"c": {"type": "http", "url": "http://127.0.0.1/h"}, "d": {"type": "sdk"}}},
    ],
    "rewind_files": [{"user_message_id": "u"}, {"user_message_id": "u", "dry_run": True}],
}
ASKS = [(subtype, fields) for subtype, several in TO_CLI.items() for fields in several]


@pytest.mark.rules("S004-126", "S004-136", "S004-170", "S004-173", "S004-182", "S004-188", "S004-189")
@pytest.mark.parametrize(("subtype", "fields"), [*ASKS, ("get_settings", {"a": 1})])
def test_each_request_is_exact(subtype: str, fields: dict[str, Any]) -> None:
    assert request(subtype, **fields) == {"subtype": subtype, **fields}


def test_an_interrupt_is_exactly_the_seeds_line() -> None:
    line = b'{"type":"control_request","request_id":"r1","request":{"subtype":"interrupt"}}\n'
    assert c.request_line("r1", "interrupt", {}) == line


@pytest.mark.rules("S004-205")
def test_thirteen_request_subtypes_exist_and_one_goes_both_ways() -> None:
    assert set(c.REQUESTS_FROM_CLI) == {"can_use_tool", "hook_callback", "mcp_message"}
    assert len(set(TO_CLI) | set(c.REQUESTS_FROM_CLI)) == 13
    assert set(TO_CLI) & set(c.REQUESTS_FROM_CLI) == {"mcp_message"}


def test_fields_of_a_generic_request_cannot_change_its_subtype() -> None:
    sent = json.loads(c.request_line("r1", "get_usage", {"subtype": "interrupt"}))
    assert sent["request"] == {"subtype": "get_usage"}


# --- requests from the CLI -----------------------------------------------------------------------------------


def asked(**fields: Any) -> c.CliRequest:
    return c.parse_request(ControlRequest(request_id="r1", request=fields))


@pytest.mark.rules("S004-151", "S004-152", "S004-153", "S004-154", "S004-156", "S004-157")
def test_can_use_tool_is_read_with_all_fields_and_with_few() -> None:
    bare = asked(subtype="can_use_tool", tool_name="Bash", input={"command": "ls"}, tool_use_id="t")
    assert bare == c.CanUseTool(tool_name="Bash", input={"command": "ls"}, tool_use_id="t")
    full = asked(
        subtype="can_use_tool",
        tool_name="Bash",
        input={},
        tool_use_id="t",
        permission_suggestions=[{"type": "setMode"}],
        blocked_path="/etc",
        decision_reason="This command requires approval",
        agent_id="a",
        description="d",
        display_name="ignored here",
    )
    assert isinstance(full, c.CanUseTool)
    assert (full.blocked_path, full.decision_reason) == ("/etc", "This command requires approval")
    assert (full.agent_id, full.description) == ("a", "d")
    assert full.permission_suggestions == [{"type": "setMode"}]


@pytest.mark.rules("S004-181", "S004-193")
def test_hook_callbacks_and_mcp_messages_are_read() -> None:
    hook = asked(subtype="hook_callback", callback_id="h0", input={"hook_event_name": "Stop"})
    assert hook == c.HookCallback(callback_id="h0", input={"hook_event_name": "Stop"})
    of_tool = asked(subtype="hook_callback", callback_id="h0", input={}, tool_use_id="t")
    assert of_tool == c.HookCallback(callback_id="h0", input={}, tool_use_id="t")
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert asked(subtype="mcp_message", server_name="m", message=message) == c.McpCall(server_name="m", message=message)


EVENTS = (
    "PreToolUse", "PostToolUse", "PostToolUseFailure", "Notification", "UserPromptSubmit", "SessionStart", "SessionEnd",
    "Stop", "SubagentStart", "SubagentStop", "PreCompact", "PermissionRequest", "Setup", "TeammateIdle",
    "TaskCompleted", "MadeUpTomorrow",
)  # fmt: skip


@pytest.mark.rules("S004-342")
@pytest.mark.parametrize("event", EVENTS)
def test_a_hook_event_of_any_name_is_registered_and_read(event: str) -> None:
    hooks = {event: [{"hookCallbackIds": ["h"]}]}
    assert request("initialize", hooks=hooks)["hooks"] == hooks
    hook = asked(subtype="hook_callback", callback_id="h", input={"hook_event_name": event})
    assert hook == c.HookCallback(callback_id="h", input={"hook_event_name": event})


@pytest.mark.rules("S004-206")
def test_an_unknown_subtype_is_rejected_with_a_message() -> None:
    problem = "Unsupported control request subtype: made_up"
    assert asked(subtype="made_up", a=1) == c.RejectedRequest(problem=problem)
    assert answer(c.error_line("r1", problem)) == {"subtype": "error", "request_id": "r1", "error": problem}
    assert asked() == c.RejectedRequest(problem="Unsupported control request subtype: ")


@pytest.mark.parametrize(
    "fields",
    [
        {"subtype": "can_use_tool"},
        {"subtype": "can_use_tool", "tool_name": "Bash", "input": [], "tool_use_id": "t"},
        {"subtype": "hook_callback", "callback_id": 1, "input": {}},
        {"subtype": "mcp_message", "server_name": "m"},
    ],
)
def test_a_malformed_request_is_rejected_with_a_message(fields: dict[str, Any]) -> None:
    malformed = asked(**fields)
    assert isinstance(malformed, c.RejectedRequest)
    assert malformed.problem.startswith(f"Malformed control request {fields['subtype']}: ")


# --- answers to the CLI --------------------------------------------------------------------------------------


@pytest.mark.rules("S004-128", "S004-158", "S004-160")
def test_an_allow_always_carries_the_input() -> None:
    line = c.answer_line("r1", c.AllowTool(updatedInput={"command": "ls"}))
    assert line == (
        b'{"type":"control_response","response":{"subtype":"success","request_id":"r1",'
        b'"response":{"behavior":"allow","updatedInput":{"command":"ls"}}}}\n'
    )
    assert answer(c.answer_line("r1", c.AllowTool(updatedInput={})))["response"] == {
        "behavior": "allow",
        "updatedInput": {},
    }
    named = c.AllowTool(updatedInput={}, toolUseID="t")
    assert answer(c.answer_line("r1", named))["response"]["toolUseID"] == "t"


@pytest.mark.rules("S004-163")
def test_a_deny_always_carries_its_message() -> None:
    assert answer(c.answer_line("r1", c.DenyTool(message="")))["response"] == {"behavior": "deny", "message": ""}
    full = c.DenyTool(message="no", interrupt=True, toolUseID="t")
    assert answer(c.answer_line("r1", full))["response"] == {
        "behavior": "deny",
        "message": "no",
        "interrupt": True,
        "toolUseID": "t",
    }


ALLOWED: dict[str, Any] = {
    "behavior": "allow",
    "updatedInput": {"command": "git status"},
    "updatedPermissions": [
        {
            "type": "addRules",
            "rules": [{"toolName": "Bash", "ruleContent": "git:*"}],
            "behavior": "allow",
            "destination": "session",
        }
    ],
}


@pytest.mark.rules("S004-225", "S004-233")
def test_the_seeds_example_answer_is_exact() -> None:
    assert answer(c.answer_line("r1", ALLOWED))["response"] == ALLOWED


RULES = [{"toolName": "Read"}, {"toolName": "Bash", "ruleContent": "git:*"}]
UPDATES: list[dict[str, Any]] = [
    *(
        {"type": kind, "rules": RULES, "behavior": behavior, "destination": "userSettings"}
        for kind in ("addRules", "replaceRules", "removeRules")
        for behavior in ("allow", "deny", "ask")
    ),
    {"type": "setMode", "mode": "plan", "destination": "localSettings"},
    {"type": "addDirectories", "directories": ["/srv"], "destination": "session"},
    {"type": "addDirectories", "directories": ["/srv"], "destination": "projectSettings"},
    {"type": "removeDirectories", "directories": ["/srv"], "destination": "cliArg"},
]


@pytest.mark.rules("S004-226", "S004-227", "S004-229", "S004-230", "S004-231", "S004-232")
@pytest.mark.parametrize("update", UPDATES)
def test_a_permission_update_is_read_and_sent_unchanged(update: dict[str, Any]) -> None:
    suggested = asked(
        subtype="can_use_tool", tool_name="Bash", input={}, tool_use_id="t", permission_suggestions=[update]
    )
    assert isinstance(suggested, c.CanUseTool) and suggested.permission_suggestions == [update]
    allow = {"behavior": "allow", "updatedInput": {}, "updatedPermissions": suggested.permission_suggestions}
    assert answer(c.answer_line("r1", allow))["response"]["updatedPermissions"] == [update]


@pytest.mark.rules("S004-196", "S004-199", "S004-204")
def test_hook_answers_are_exact() -> None:
    assert answer(c.answer_line("r1", c.HookAnswer()))["response"] == {}
    stop = c.HookAnswer(continue_=False, stopReason="enough", decision="block", reason="r")
    assert answer(c.answer_line("r1", stop))["response"] == {
        "continue": False,
        "stopReason": "enough",
        "decision": "block",
        "reason": "r",
    }
    go_on = c.HookAnswer(suppressOutput=True, decision="approve", systemMessage="a note")
    assert answer(c.answer_line("r1", go_on))["response"] == {
        "suppressOutput": True,
        "decision": "approve",
        "systemMessage": "a note",
    }
    for event in ("PreToolUse", "PostToolUse", "PermissionRequest"):
        output = c.HookOutput(hookEventName=event, permissionDecision="deny", permissionDecisionReason="fence")
        assert answer(c.answer_line("r1", c.HookAnswer(hookSpecificOutput=output)))["response"] == {
            "hookSpecificOutput": {
                "hookEventName": event,
                "permissionDecision": "deny",
                "permissionDecisionReason": "fence",
            }
        }
    for later in ({"async": True}, {"async": True, "asyncTimeout": 5000}):
        assert answer(c.answer_line("r1", later))["response"] == later


@pytest.mark.rules("S004-128", "S004-129")
def test_empty_error_and_mcp_answers_are_exact() -> None:
    assert c.answer_line("r1") == (b'{"type":"control_response","response":{"subtype":"success","request_id":"r1"}}\n')
    assert c.error_line("r1", "no") == (
        b'{"type":"control_response","response":{"subtype":"error","request_id":"r1","error":"no"}}\n'
    )
    message = {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert answer(c.mcp_answer_line("r1", message))["response"] == {"mcp_response": message}


# --- answers from the CLI ------------------------------------------------------------------------------------

COMMANDS = [{"name": "compact", "description": "d", "argumentHint": "[x]"}, {"name": "y", "description": ""}]
GOOD: list[tuple[str, Any]] = [
    ("interrupt", None),
    ("interrupt", {"still_queued": []}),
    ("set_permission_mode", {"mode": "plan"}),
    ("set_permission_mode", None),
    ("initialize", {"commands": COMMANDS, "output_style": "default", "models": [{"value": "m"}], "account": {}}),
    ("initialize", {"commands": [], "available_output_styles": ["a"], "fast_mode": False, "new": 1}),
    ("mcp_status", {"mcpServers": [{"name": "m", "status": "pending", "config": {"type": "stdio"}, "scope": "x"}]}),
    ("rewind_files", {"canRewind": True, "filesChanged": ["/a"], "insertions": 1, "deletions": 0}),
    ("rewind_files", {"canRewind": False, "error": "No."}),
    ("anything_new", {"a": [1]}),
    ("mcp_message", None),
]


@pytest.mark.rules("S004-149", "S004-177", "S004-184")
@pytest.mark.parametrize(("subtype", "response"), GOOD)
def test_a_valid_answer_is_returned_unchanged(subtype: str, response: Any) -> None:
    assert c.check_answer(subtype, response) == (response or {})


@pytest.mark.rules("S004-149", "S004-302")
@pytest.mark.parametrize(
    ("subtype", "response"),
    [
        ("interrupt", 3),
        ("initialize", {"commands": "all"}),
        ("initialize", []),
        ("initialize", {"commands": [], "fast_mode": "yes"}),
        ("set_permission_mode", {"mode": 1}),
        ("mcp_status", {}),
        ("mcp_status", {"mcpServers": [{"name": 1, "status": "x"}]}),
        ("rewind_files", {"canRewind": "yes"}),
    ],
)
def test_an_invalid_answer_raises_an_error_with_its_subtype(subtype: str, response: Any) -> None:
    with pytest.raises(c.BadAnswer) as caught:
        c.check_answer(subtype, response)
    assert caught.value.data["subtype"] == subtype
    assert subtype in caught.value.message


@pytest.mark.rules("S004-302")
@given(
    st.sampled_from(["initialize", "set_permission_mode", "mcp_status", "rewind_files", "interrupt", "other"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(st.sampled_from(["mode", "commands", "mcpServers", "canRewind", "x"]), inner, max_size=3)
        ),
        max_leaves=5,
    ),
)
def test_any_answer_is_either_accepted_or_rejected(subtype: str, response: Any) -> None:
    with contextlib.suppress(c.BadAnswer):
        assert isinstance(c.check_answer(subtype, response), dict)
