"""Requests from the CLI: policy verdicts, permissions from a person, MCP messages; each answered once, or rejected."""

import msgspec
import pytest

from agents.claude_driver.harness import MCP_TOOL, OLD, DriverHarness, asks, can_use, hook, success
from fairlead.agents.claude.stdio import control_requests
from fairlead.model.agents import Decision, PermissionRequest, ToolCheck
from fairlead.model.errors import (
    NotFound,
    Stale,
)
from fairlead.model.ids import CallId, RequestId
from fairlead.model.policy import Behavior, Verdict, VerdictBy
from patience import settled

# --- the policy's hook --------------------------------------------------------------------------------


@pytest.mark.parametrize("behavior", list(Behavior))
async def test_the_verdict_of_the_policy_goes_back_to_the_hook(behavior: Behavior) -> None:
    harness = await DriverHarness().start()
    harness.sink.verdict = Verdict(behavior, "because")
    harness.link.says(hook("h1", "Write", {"file_path": "/w/a"}))
    answer = await harness.answer_to("h1")
    assert answer["response"]["hookSpecificOutput"] == {
        "hookEventName": "PreToolUse",
        "permissionDecision": behavior.value,
        "permissionDecisionReason": "because",
    }
    assert harness.sink.all("check") == [ToolCheck(CallId("call-h1"), "Write", {"file_path": "/w/a"}, "default")]
    await harness.end()


async def test_a_policy_that_fails_denies(caplog: pytest.LogCaptureFixture) -> None:
    """After an error answer the CLI would decide by the project's own rules (measured on 2.1.37 and 2.1.120)."""
    harness = await DriverHarness().start()
    harness.sink.verdict = RuntimeError("broken")
    harness.link.says(hook("h1"))
    answer = await harness.answer_to("h1")
    assert answer["response"]["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert "the policy failed" in caplog.text
    await harness.end()


async def test_a_hook_whose_input_is_not_understood_is_denied() -> None:
    harness = await DriverHarness().start()
    harness.link.says(hook("h1", input={"tool_name": 7}))
    answer = await harness.answer_to("h1")
    assert answer["response"]["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert harness.sink.all("check") == []
    await harness.end()


@pytest.mark.rules("S004-194")
async def test_an_unknown_hook_gets_an_error_answer() -> None:
    harness = await DriverHarness().start()
    harness.link.says(hook("h1", callback_id="somebody-else"))
    answer = await harness.answer_to("h1")
    assert answer["subtype"] == "error"
    assert "somebody-else" in answer["error"]
    await harness.end()


async def test_many_hooks_are_served_at_once() -> None:
    harness = await DriverHarness().start()
    harness.sink.verdict = Verdict(Behavior.ALLOW, "fine")
    harness.link.says(*[hook(f"h{n}") for n in range(50)])
    await settled()
    assert all(len(harness.link.answers_of(f"h{n}")) == 1 for n in range(50))
    await harness.end()


# --- a person's permission ------------------------------------------------------------------------------


@pytest.mark.rules("S004-034")
async def test_an_allow_always_carries_the_input_and_the_call() -> None:
    harness = await DriverHarness().start()
    harness.link.says(can_use("r1", "Bash", {"command": "touch x"}))
    await harness.sink.until(lambda: harness.sink.all("asked"))
    assert harness.sink.all("asked") == [
        PermissionRequest(RequestId("r1"), CallId("call-r1"), "Bash", {"command": "touch x"})
    ]
    await harness.agent.answer(RequestId("r1"), Decision("allow"))
    assert harness.link.sent[-1] == success(
        "r1", {"behavior": "allow", "updatedInput": {"command": "touch x"}, "toolUseID": "call-r1"}
    )
    await harness.end()


async def test_a_changed_input_replaces_the_whole_input() -> None:
    harness = await DriverHarness().start()
    harness.link.says(can_use("r1", "Bash", {"command": "rm x", "description": "d"}))
    await harness.sink.until(lambda: harness.sink.all("asked"))
    await harness.agent.answer(RequestId("r1"), Decision("allow", updated_input={"command": "echo"}))
    assert harness.link.sent[-1]["response"]["response"]["updatedInput"] == {"command": "echo"}
    await harness.end()


async def test_a_deny_carries_its_message_and_may_end_the_run() -> None:
    harness = await DriverHarness().start()
    harness.link.says(can_use("r1"), can_use("r2"))
    await harness.sink.until(lambda: len(harness.sink.all("asked")) == 2)
    await harness.agent.answer(RequestId("r1"), Decision("deny", "not today", interrupt=True))
    await harness.agent.answer(RequestId("r2"), Decision("deny"))
    first, second = (m["response"]["response"] for m in harness.link.sent[-2:])
    assert first == {"behavior": "deny", "message": "not today", "interrupt": True, "toolUseID": "call-r1"}
    assert second["message"]
    assert "interrupt" not in second
    await harness.end()


@pytest.mark.rules("S004-234")
async def test_a_permission_is_never_decided_by_a_timeout() -> None:
    harness = await DriverHarness().start()
    harness.link.says(can_use("r1"))
    await harness.sink.until(lambda: harness.sink.all("asked"))
    await harness.clock.advance(7 * 24 * 3600)
    assert harness.link.answers_of("r1") == []
    await harness.agent.answer(RequestId("r1"), Decision("allow"))
    assert len(harness.link.answers_of("r1")) == 1
    await harness.end()


async def test_an_answer_goes_out_once() -> None:
    harness = await DriverHarness().start()
    harness.link.says(can_use("r1"))
    await harness.sink.until(lambda: harness.sink.all("asked"))
    await harness.agent.answer(RequestId("r1"), Decision("allow"))
    for request in ("r1", "never-asked"):
        with pytest.raises(Stale):
            await harness.agent.answer(RequestId(request), Decision("deny"))
    assert len(harness.link.answers_of("r1")) == 1
    await harness.end()


@pytest.mark.rules("S004-235")
async def test_a_withdrawn_request_is_reported_and_takes_no_answer() -> None:
    harness = await DriverHarness().start()
    cancel = {"type": "control_cancel_request", "request_id": "r1"}
    harness.link.says(can_use("r1"), cancel, {"type": "control_cancel_request", "request_id": "unknown"})
    await harness.sink.until(lambda: harness.sink.all("cancelled"))
    assert [kind for kind, _ in harness.sink.story if kind in ("asked", "cancelled")] == ["asked", "cancelled"]
    with pytest.raises(Stale):
        await harness.agent.answer(RequestId("r1"), Decision("allow"))
    assert harness.link.answers_of("r1") == []
    await harness.end()


# --- versions whose hook cannot ask -----------------------------------------------------------------------


async def test_an_old_cli_gets_ask_where_our_ask_rule_applies() -> None:
    """2.1.37 ignores a hook's `ask`; the ask rules that it was launched with then apply."""
    harness = await DriverHarness(OLD).start()
    harness.link.says(hook("h1", "Bash"), hook("h2", "AskUserQuestion"), hook("h3", "ExitPlanMode"))
    for request in ("h1", "h2", "h3"):
        answer = await harness.answer_to(request)
        assert answer["response"]["hookSpecificOutput"]["permissionDecision"] == "ask"
    assert harness.sink.all("asked") == []
    await harness.end()


async def test_the_hook_of_an_old_cli_is_held_for_a_tool_without_a_rule() -> None:
    """Otherwise its own allow rules and modes would decide about a tool of an MCP server."""
    harness = await DriverHarness(OLD).start()
    harness.link.says(hook("h1", MCP_TOOL, {"a": 1}))
    await harness.sink.until(lambda: harness.sink.all("asked"))
    assert harness.link.answers_of("h1") == []
    assert harness.sink.all("asked") == [PermissionRequest(RequestId("h1"), CallId("call-h1"), MCP_TOOL, {"a": 1})]
    # The log shows it like any other request, before the request is emitted.
    shown = msgspec.json.decode(harness.sink.raws[-1])
    assert shown["request"]["subtype"] == "can_use_tool"
    assert shown["request"]["tool_use_id"] == "call-h1"
    assert [kind for kind, _ in harness.sink.story[-2:]] == ["record", "asked"]
    await harness.clock.advance(24 * 3600)
    await harness.agent.answer(RequestId("h1"), Decision("allow", updated_input={"a": 2}))
    assert (await harness.answer_to("h1"))["response"]["hookSpecificOutput"] == {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow",
        "updatedInput": {"a": 2},
    }
    await harness.end()


@pytest.mark.parametrize("changed", [None, {"a": 2}])
async def test_a_call_allowed_in_a_held_hook_is_not_asked_again(changed: dict[str, int] | None) -> None:
    """Measured on 2.1.77 to 2.1.119: their ask rules for our MCP servers override the hook's allow."""
    harness = await DriverHarness((2, 1, 119)).start()
    harness.link.says(hook("h1", MCP_TOOL, {"a": 1}), hook("h2", MCP_TOOL, {"a": 1}))
    await harness.sink.until(lambda: len(harness.sink.all("asked")) == 2)
    await harness.agent.answer(RequestId("h1"), Decision("allow", updated_input=changed))
    await harness.agent.answer(RequestId("h2"), Decision("deny", "no"))
    harness.link.says(can_use("r1", tool=MCP_TOOL, tool_input=changed or {"a": 1}, call="call-h1"))
    assert (await harness.answer_to("r1"))["response"]["behavior"] == "allow"
    # A denied call, and an allowed call with another input, are emitted like any other request.
    harness.link.says(can_use("r2", tool=MCP_TOOL, tool_input={"a": 1}, call="call-h2"))
    harness.link.says(can_use("r3", tool=MCP_TOOL, tool_input={"a": 3}, call="call-h1"))
    await harness.sink.until(lambda: len(harness.sink.all("asked")) == 4)
    await harness.end()


async def test_a_denied_hook_of_an_old_cli_may_end_the_run() -> None:
    harness = await DriverHarness(OLD).start()
    harness.link.says(hook("h1", MCP_TOOL), hook("h2", MCP_TOOL))
    await harness.sink.until(lambda: len(harness.sink.all("asked")) == 2)
    await harness.agent.answer(RequestId("h1"), Decision("deny", "no"))
    await harness.agent.answer(RequestId("h2"), Decision("deny", "no", interrupt=True))
    first, second = (await harness.answer_to("h1"))["response"], (await harness.answer_to("h2"))["response"]
    for answer in (first, second):
        assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"
        assert answer["hookSpecificOutput"]["permissionDecisionReason"] == "no"
    assert "continue" not in first
    assert second["continue"] is False
    await harness.end()


async def test_a_held_hook_that_the_cli_withdraws_is_a_cancelled_request() -> None:
    harness = await DriverHarness(OLD).start()
    harness.link.says(hook("h1", MCP_TOOL))
    await harness.sink.until(lambda: harness.sink.all("asked"))
    harness.link.says({"type": "control_cancel_request", "request_id": "h1"})
    await harness.sink.until(lambda: harness.sink.all("cancelled"))
    with pytest.raises(Stale):
        await harness.agent.answer(RequestId("h1"), Decision("allow"))
    await harness.end()


async def test_without_our_rule_the_rules_of_an_old_cli_may_still_deny() -> None:
    """Measured: in 2.1.37 a hook's allow outranks the user's own deny rules."""
    harness = await DriverHarness(OLD).start()
    harness.sink.verdict = Verdict(Behavior.ALLOW, "reads are fine", by="default")
    harness.link.says(hook("h1"))
    assert (await harness.answer_to("h1"))["response"] == {}
    harness.sink.verdict = Verdict(Behavior.ALLOW, "rule", rule="Bash(ls)", by="rule")
    harness.link.says(hook("h2"))
    assert (await harness.answer_to("h2"))["response"]["hookSpecificOutput"]["permissionDecision"] == "allow"
    await harness.end()


@pytest.mark.parametrize(("version", "by"), [((2, 1, 120), "rule"), (OLD, "mode")])
async def test_a_repeated_request_for_an_allowed_call_is_answered_automatically(
    version: tuple[int, int, int], by: VerdictBy
) -> None:
    """2.1.120 with its ask rules asks in spite of the hook's allow; 2.1.37 asks where the hook's answer was empty."""
    harness = await DriverHarness(version).start()
    harness.sink.verdict = Verdict(Behavior.ALLOW, "fine", by=by)
    harness.link.says(hook("x"), hook("y"))
    await harness.answer_to("y")
    before = len(harness.sink.raws)
    harness.link.says(can_use("r1", call="call-x"))
    assert (await harness.answer_to("r1"))["response"] == {
        "behavior": "allow",
        "updatedInput": {"command": "ls"},
        "toolUseID": "call-x",
    }
    assert len(harness.sink.raws) == before
    # Once only, and only for exactly that call.
    harness.link.says(can_use("r2", call="call-x"), can_use("r3", tool_input={"command": "rm"}, call="call-y"))
    await harness.sink.until(lambda: len(harness.sink.all("asked")) == 2)
    assert [ask.request for ask in harness.sink.all("asked")] == ["r2", "r3"]
    await harness.end()


async def test_the_memory_of_allowed_calls_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_requests, "MOST_OPEN", 2)
    harness = await DriverHarness((2, 1, 120)).start()
    harness.sink.verdict = Verdict(Behavior.ALLOW, "fine", by="rule")
    for name in "abc":
        harness.link.says(hook(name))
        await harness.answer_to(name)
    harness.link.says(*[can_use(f"r-{name}", call=f"call-{name}") for name in "abc"])
    await harness.sink.until(lambda: harness.sink.all("asked"))
    assert [ask.request for ask in harness.sink.all("asked")] == ["r-a"]
    await harness.end()


# --- MCP and unknown requests -------------------------------------------------------------------------------


async def test_an_mcp_message_is_answered_by_our_server() -> None:
    harness = await DriverHarness().start()
    reply = {"jsonrpc": "2.0", "id": 3, "result": {"tools": []}}
    harness.sink.mcp_answer = reply
    message = {"jsonrpc": "2.0", "id": 3, "method": "tools/list"}
    harness.link.says(asks("m1", subtype="mcp_message", server_name="ours", message=message))
    assert (await harness.answer_to("m1"))["response"] == {"mcp_response": reply}
    assert harness.sink.all("mcp") == [("ours", message)]
    await harness.end()


@pytest.mark.parametrize("failure", [NotFound("MCP server", "ours"), RuntimeError("secret detail")])
async def test_an_mcp_server_that_fails_answers_in_its_own_protocol(failure: Exception) -> None:
    harness = await DriverHarness().start()
    harness.sink.mcp_answer = failure
    harness.link.says(asks("m1", subtype="mcp_message", server_name="ours", message={"id": 3, "method": "x"}))
    answer = (await harness.answer_to("m1"))["response"]["mcp_response"]
    assert answer["id"] == 3
    assert answer["error"]["code"] == -32603
    assert "secret" not in answer["error"]["message"]
    await harness.end()


async def test_an_mcp_notification_is_acknowledged() -> None:
    harness = await DriverHarness().start()
    harness.link.says(asks("m1", subtype="mcp_message", server_name="ours", message={"method": "notifications/x"}))
    assert (await harness.answer_to("m1"))["response"]["mcp_response"] == {"jsonrpc": "2.0", "id": 0, "result": {}}
    await harness.end()


@pytest.mark.rules("S004-206")
async def test_an_unknown_request_is_rejected_and_stored() -> None:
    harness = await DriverHarness().start()
    harness.link.says(asks("u1", subtype="made_up", more=1), asks("u2", subtype="can_use_tool", input="no object"))
    unknown, malformed = await harness.answer_to("u1"), await harness.answer_to("u2")
    assert unknown["subtype"] == malformed["subtype"] == "error"
    assert "made_up" in unknown["error"]
    assert any(b"made_up" in raw for raw in harness.sink.raws)
    assert harness.sink.all("asked") == []
    await harness.end()


async def test_an_agent_with_too_many_open_requests_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_requests, "MOST_OPEN", 3)
    harness = await DriverHarness().start()
    harness.link.says(*[can_use(f"r{n}") for n in range(4)], hook("h1"))
    assert (await harness.answer_to("r3"))["subtype"] == "error"
    denied = await harness.answer_to("h1")
    assert denied["response"]["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert len(harness.sink.all("asked")) == 3
    await harness.end()
