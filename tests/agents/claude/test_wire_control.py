"""The control protocol: exact requests and answers, typed requests of the CLI, and the validation of its answers."""

import contextlib
import json
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agents.claude.wire import control as c
from fairlead.agents.claude.wire.records import ControlRequest


def request(ask: c.OurRequest) -> dict[str, Any]:
    line = c.request_line("r1", ask)
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

SCHEMA = {"type": "object"}
ASKS: list[tuple[c.OurRequest, dict[str, Any]]] = [
    (c.Initialize(), {"subtype": "initialize"}),
    (
        c.Initialize(
            hooks={"PreToolUse": (c.HookMatcher(matcher="Bash", hookCallbackIds=("h0",), timeout=60),)},
            sdkMcpServers=("m",),
            jsonSchema=SCHEMA,
            systemPrompt="s",
            appendSystemPrompt="a",
            agents={"x": {"description": "d", "prompt": "p"}},
        ),
        {
            "subtype": "initialize",
            "hooks": {"PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["h0"], "timeout": 60.0}]},
            "sdkMcpServers": ["m"],
            "jsonSchema": SCHEMA,
            "systemPrompt": "s",
            "appendSystemPrompt": "a",
            "agents": {"x": {"description": "d", "prompt": "p"}},
        },
    ),
    (
        c.Initialize(hooks={"Stop": (c.HookMatcher(hookCallbackIds=("h",)),)}),
        {"subtype": "initialize", "hooks": {"Stop": [{"hookCallbackIds": ["h"]}]}},
    ),
    (c.InterruptRequest(), {"subtype": "interrupt"}),
    (c.SetPermissionMode(mode="plan"), {"subtype": "set_permission_mode", "mode": "plan"}),
    (c.SetModelRequest(), {"subtype": "set_model"}),
    (c.SetModelRequest(model="default"), {"subtype": "set_model", "model": "default"}),
    (
        c.SetMaxThinkingTokens(max_thinking_tokens=None),
        {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": None},
    ),
    (
        c.SetMaxThinkingTokens(max_thinking_tokens=1000),
        {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 1000},
    ),
    (c.McpStatus(), {"subtype": "mcp_status"}),
    (
        c.McpMessage(server_name="m", message={"jsonrpc": "2.0"}),
        {"subtype": "mcp_message", "server_name": "m", "message": {"jsonrpc": "2.0"}},
    ),
    (c.McpReconnect(serverName="m"), {"subtype": "mcp_reconnect", "serverName": "m"}),
    (
        c.McpToggle(serverName="m", enabled=False),
        {"subtype": "mcp_toggle", "serverName": "m", "enabled": False},
    ),
    (
        c.McpSetServers(
            servers={
                "a": c.McpServerConfig(type="stdio", command="x", args=("-y",), env={"K": "v"}),
                "b": c.McpServerConfig(type="sse", url="http://127.0.0.1/s"),
                "c": c.McpServerConfig(type="http", url="http://127.0.0.1/h"),
                "d": c.McpServerConfig(type="sdk"),
            }
        ),
        {
            "subtype": "mcp_set_servers",
            "servers": {
                "a": {"type": "stdio", "command": "x", "args": ["-y"], "env": {"K": "v"}},
                "b": {"type": "sse", "url": "http://127.0.0.1/s"},
                "c": {"type": "http", "url": "http://127.0.0.1/h"},
                "d": {"type": "sdk"},
            },
        },
    ),
    (c.RewindFiles(user_message_id="u"), {"subtype": "rewind_files", "user_message_id": "u"}),
    (
        c.RewindFiles(user_message_id="u", dry_run=True),
        {"subtype": "rewind_files", "user_message_id": "u", "dry_run": True},
    ),
    (c.OtherRequest(subtype="get_settings", fields={"a": 1}), {"subtype": "get_settings", "a": 1}),
]


@pytest.mark.rules("S004-126", "S004-136", "S004-170", "S004-173", "S004-182", "S004-188", "S004-189")
@pytest.mark.parametrize(("ask", "expected"), ASKS)
def test_each_request_is_exact(ask: c.OurRequest, expected: dict[str, Any]) -> None:
    assert request(ask) == expected
    assert c.subtype_of(ask) == expected["subtype"]


def test_an_interrupt_is_exactly_the_seeds_line() -> None:
    line = b'{"type":"control_request","request_id":"r1","request":{"subtype":"interrupt"}}\n'
    assert c.request_line("r1", c.InterruptRequest()) == line


@pytest.mark.rules("S004-205")
def test_thirteen_request_subtypes_exist_and_one_goes_both_ways() -> None:
    assert set(c.REQUESTS_TO_CLI) == {
        "initialize",
        "interrupt",
        "set_permission_mode",
        "set_model",
        "set_max_thinking_tokens",
        "mcp_status",
        "mcp_message",
        "mcp_reconnect",
        "mcp_toggle",
        "mcp_set_servers",
        "rewind_files",
    }
    assert set(c.REQUESTS_FROM_CLI) == {"can_use_tool", "hook_callback", "mcp_message"}
    assert len(set(c.REQUESTS_TO_CLI) | set(c.REQUESTS_FROM_CLI)) == 13
    for subtype, kind in c.REQUESTS_TO_CLI.items():
        assert kind.__struct_config__.tag == subtype


def test_fields_of_a_generic_request_cannot_change_its_subtype() -> None:
    sent = request(c.OtherRequest(subtype="get_usage", fields={"subtype": "interrupt"}))
    assert sent == {"subtype": "get_usage"}


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
    matcher = c.HookMatcher(hookCallbackIds=("h",))
    assert request(c.Initialize(hooks={event: (matcher,)}))["hooks"] == {event: [{"hookCallbackIds": ["h"]}]}
    hook = asked(subtype="hook_callback", callback_id="h", input={"hook_event_name": event})
    assert hook == c.HookCallback(callback_id="h", input={"hook_event_name": event})


@pytest.mark.rules("S004-206")
def test_an_unknown_subtype_is_kept_and_rejected_with_a_message() -> None:
    made_up = asked(subtype="made_up", a=1)
    assert made_up == c.OtherRequest(subtype="made_up", fields={"a": 1})
    assert isinstance(made_up, c.OtherRequest)
    problem = c.rejection_text(made_up)
    assert problem == "Unsupported control request subtype: made_up"
    assert answer(c.error_line("r1", problem)) == {"subtype": "error", "request_id": "r1", "error": problem}
    assert asked() == c.OtherRequest(subtype="")


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
    assert isinstance(malformed, c.Malformed)
    assert c.rejection_text(malformed).startswith(f"Malformed control request {fields['subtype']}: ")


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


@pytest.mark.rules("S004-225", "S004-233")
def test_the_seeds_example_answer_is_exact() -> None:
    rules = (c.PermissionRule("Bash", "git:*"),)
    update = c.AddRules(rules=rules, behavior="allow", destination="session")
    allow = c.AllowTool(updatedInput={"command": "git status"}, updatedPermissions=(update,))
    assert answer(c.answer_line("r1", allow))["response"] == {
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


def sent_update(update: c.PermissionUpdate) -> Any:
    allow = c.AllowTool(updatedInput={}, updatedPermissions=(update,))
    return answer(c.answer_line("r1", allow))["response"]["updatedPermissions"][0]


@pytest.mark.rules("S004-226", "S004-227", "S004-229", "S004-230", "S004-232")
def test_every_permission_update_is_exact() -> None:
    rules = (c.PermissionRule("Read"),)
    fields = {"rules": [{"toolName": "Read"}], "behavior": "deny", "destination": "userSettings"}
    replace = c.ReplaceRules(rules=rules, behavior="deny", destination="userSettings")
    remove = c.RemoveRules(rules=rules, behavior="ask", destination="projectSettings")
    assert sent_update(replace) == {"type": "replaceRules", **fields}
    assert sent_update(remove) == {
        "type": "removeRules",
        **fields,
        "behavior": "ask",
        "destination": "projectSettings",
    }
    mode = c.SetModeUpdate(mode="plan", destination="localSettings")
    assert sent_update(mode) == {"type": "setMode", "mode": "plan", "destination": "localSettings"}
    add = c.AddDirectories(directories=("/srv",), destination="session")
    assert sent_update(add) == {"type": "addDirectories", "directories": ["/srv"], "destination": "session"}
    less = c.RemoveDirectories(directories=("/srv",), destination="cliArg")
    assert sent_update(less) == {"type": "removeDirectories", "directories": ["/srv"], "destination": "cliArg"}


@pytest.mark.rules("S004-231")
@pytest.mark.parametrize("behavior", ["allow", "deny", "ask"])
@pytest.mark.parametrize("kind", [c.AddRules, c.ReplaceRules, c.RemoveRules])
def test_a_rule_names_a_tool_and_optionally_its_content(
    kind: type[c.AddRules | c.ReplaceRules | c.RemoveRules], behavior: Literal["allow", "deny", "ask"]
) -> None:
    rules = (c.PermissionRule("Read"), c.PermissionRule("Bash", "git:*"))
    update = sent_update(kind(rules=rules, behavior=behavior, destination="session"))
    assert update["rules"] == [{"toolName": "Read"}, {"toolName": "Bash", "ruleContent": "git:*"}]
    assert update["behavior"] == behavior


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
    assert answer(c.answer_line("r1", c.AsyncHookAnswer()))["response"] == {"async": True}
    later = c.AsyncHookAnswer(asyncTimeout=5000)
    assert answer(c.answer_line("r1", later))["response"] == {"async": True, "asyncTimeout": 5000.0}


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
