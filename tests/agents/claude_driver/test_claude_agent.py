"""The driver of one CLI process, without a process: what it hands on, answers and waits for, and in which order."""

import asyncio
from typing import Any

import msgspec
import pytest

from agents.claude_driver.puppet import FakeLink, MemorySink, answers, asks, can_use, hook, settled, success
from fairlead.agents.claude import serving
from fairlead.agents.claude.agent import ClaudeAgent
from fairlead.agents.claude.lines import RECORD_LIMIT
from fairlead.agents.claude.sending import user_line
from fairlead.model.agents import Ask, Decision, Exit, Launch, Record, ToolCheck
from fairlead.model.commands import Settings
from fairlead.model.errors import (
    AgentGone,
    AgentRefused,
    AgentTimeout,
    BadMode,
    BadRequest,
    NotFound,
    Stale,
)
from fairlead.model.ids import CallId, RequestId, SessionId
from fairlead.model.policy import Behavior, Verdict, VerdictBy
from fairlead.testing.clock import ManualClock

NEW = (2, 1, 325)
OLD = (2, 1, 37)
SESSION = SessionId("6a1f0b6e-5f5c-4c55-9a44-000000000001")


class Rig:
    """A started driver with all that is around it."""

    def __init__(self, version: tuple[int, int, int] = NEW) -> None:
        self.link = FakeLink()
        self.sink = MemorySink()
        self.clock = ManualClock()
        self.agent = ClaudeAgent(self.link, self.sink, self.clock, version)

    async def start(self, **settings: Any) -> "Rig":
        answers(self.link)
        await self.agent.start(Launch(session=SESSION, cwd="/w", settings=Settings(**settings), mcp=("ours",)))
        return self

    async def end(self) -> None:
        self.link.die(Exit(code=0))
        await self.sink.until(lambda: self.sink.all("exited"))

    async def answer_to(self, request_id: str) -> dict[str, Any]:
        await settled()
        found = self.link.answers_of(request_id)
        assert len(found) == 1, found
        return found[0]


async def test_initialize_comes_first_and_once_with_the_policy_hook_for_every_tool() -> None:
    rig = await Rig().start(append_prompt="be brief", output_schema={"type": "object"}, thinking=4000)
    first = rig.link.sent[0]["request"]
    assert first == {
        "subtype": "initialize",
        "hooks": {
            "PreToolUse": [{"hookCallbackIds": ["fairlead-policy"], "timeout": 1_000_000, "onFailure": "block"}],
        },
        "sdkMcpServers": ["ours"],
        "jsonSchema": {"type": "object"},
        "appendSystemPrompt": "be brief",
    }
    assert rig.link.sent[1]["request"] == {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 4000}
    with pytest.raises(BadRequest, match="gateway alone"):
        await rig.agent.control("initialize", {})
    assert len(rig.link.sent) == 2
    await rig.end()


@pytest.mark.rules("S004-134")
async def test_no_prompt_can_be_written_before_initialize() -> None:
    rig = await Rig().start()
    await rig.agent.write(Record(user_line("hi", "", str(SESSION))[:-1], "gateway"))
    assert [m["type"] for m in rig.link.sent] == ["control_request", "user"]
    assert rig.link.sent[0]["request"]["subtype"] == "initialize"
    await rig.end()


async def test_every_record_is_handed_on_in_order_before_anything_is_done_about_it() -> None:
    rig = await Rig().start()
    rig.sink.story.clear()
    lines = [{"type": "system", "n": 1}, hook("h1"), {"type": "made_up", "n": 2}, {"type": "control_odd"}]
    rig.link.says(*lines)
    await rig.answer_to("h1")
    assert [msgspec.json.decode(raw) for raw in rig.sink.raws] == lines
    kinds = [kind for kind, _ in rig.sink.story]
    assert kinds == ["record"] * 4 + ["check"]
    await rig.end()


async def test_nothing_more_is_read_while_the_sink_is_busy() -> None:
    rig = await Rig().start()
    rig.sink.gate = asyncio.Event()
    rig.link.says({"type": "a"})
    rig.link.says({"type": "b"})
    await settled()
    assert rig.sink.raws[-1] == b'{"type":"a"}'
    rig.sink.gate.set()
    await rig.sink.record_with(b'{"type":"b"}')
    await rig.end()


async def test_a_line_cut_anywhere_is_one_record_and_a_last_line_without_an_end_too() -> None:
    rig = await Rig().start()
    rig.link.says_bytes(b'{"type":"a"}\n{"ty')
    rig.link.says_bytes(b'pe":"b"}\r\n\n{"type":"last"}')
    await rig.end()
    assert rig.sink.raws[-3:] == [b'{"type":"a"}', b'{"type":"b"}', b'{"type":"last"}']


async def test_a_record_above_the_limit_is_named_not_kept() -> None:
    rig = await Rig().start()
    rig.link.says_bytes(b"x" * (RECORD_LIMIT + 1) + b"\n")
    rig.link.says({"type": "after"})
    raw = await rig.sink.record_with(b"oversize")
    kept = msgspec.json.decode(raw)
    assert kept["type"] == "fairlead_oversize"
    assert kept["size"] == RECORD_LIMIT + 1
    assert len(raw) < 100_000
    await rig.sink.record_with(b"after")
    await rig.end()


# --- the policy's hook --------------------------------------------------------------------------------


@pytest.mark.parametrize("behavior", list(Behavior))
async def test_the_policy_s_word_goes_back_to_the_hook(behavior: Behavior) -> None:
    rig = await Rig().start()
    rig.sink.verdict = Verdict(behavior, "because")
    rig.link.says(hook("h1", "Write", {"file_path": "/w/a"}))
    answer = await rig.answer_to("h1")
    assert answer["response"]["hookSpecificOutput"] == {
        "hookEventName": "PreToolUse",
        "permissionDecision": behavior.value,
        "permissionDecisionReason": "because",
    }
    assert rig.sink.all("check") == [ToolCheck(CallId("call-h1"), "Write", {"file_path": "/w/a"}, "default")]
    await rig.end()


async def test_a_policy_that_fails_denies(caplog: pytest.LogCaptureFixture) -> None:
    """An error answer would let the CLI go on by the project's own rules (measured on 2.1.37 and 2.1.120)."""
    rig = await Rig().start()
    rig.sink.verdict = RuntimeError("broken")
    rig.link.says(hook("h1"))
    answer = await rig.answer_to("h1")
    assert answer["response"]["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert "the policy failed" in caplog.text
    await rig.end()


async def test_a_hook_whose_input_is_not_understood_is_denied() -> None:
    rig = await Rig().start()
    rig.link.says(hook("h1", input={"tool_name": 7}))
    answer = await rig.answer_to("h1")
    assert answer["response"]["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert rig.sink.all("check") == []
    await rig.end()


@pytest.mark.rules("S004-194")
async def test_an_unknown_hook_gets_an_error_not_silence() -> None:
    rig = await Rig().start()
    rig.link.says(hook("h1", callback_id="somebody-else"))
    answer = await rig.answer_to("h1")
    assert answer["subtype"] == "error"
    assert "somebody-else" in answer["error"]
    await rig.end()


async def test_many_hooks_are_served_at_once() -> None:
    rig = await Rig().start()
    rig.sink.verdict = Verdict(Behavior.ALLOW, "fine")
    rig.link.says(*[hook(f"h{n}") for n in range(50)])
    await settled()
    assert all(len(rig.link.answers_of(f"h{n}")) == 1 for n in range(50))
    await rig.end()


# --- a person's permission ------------------------------------------------------------------------------


@pytest.mark.rules("S004-034")
async def test_an_allow_always_carries_the_input_and_the_call() -> None:
    rig = await Rig().start()
    rig.link.says(can_use("r1", "Bash", {"command": "touch x"}))
    await rig.sink.until(lambda: rig.sink.all("asked"))
    assert rig.sink.all("asked") == [Ask(RequestId("r1"), CallId("call-r1"), "Bash", {"command": "touch x"})]
    await rig.agent.answer(RequestId("r1"), Decision("allow"))
    assert rig.link.sent[-1] == success(
        "r1", {"behavior": "allow", "updatedInput": {"command": "touch x"}, "toolUseID": "call-r1"}
    )
    await rig.end()


async def test_a_changed_input_replaces_the_whole() -> None:
    rig = await Rig().start()
    rig.link.says(can_use("r1", "Bash", {"command": "rm x", "description": "d"}))
    await rig.sink.until(lambda: rig.sink.all("asked"))
    await rig.agent.answer(RequestId("r1"), Decision("allow", updated_input={"command": "echo"}))
    assert rig.link.sent[-1]["response"]["response"]["updatedInput"] == {"command": "echo"}
    await rig.end()


async def test_a_deny_carries_its_words_and_may_end_the_run() -> None:
    rig = await Rig().start()
    rig.link.says(can_use("r1"), can_use("r2"))
    await rig.sink.until(lambda: len(rig.sink.all("asked")) == 2)
    await rig.agent.answer(RequestId("r1"), Decision("deny", "not today", interrupt=True))
    await rig.agent.answer(RequestId("r2"), Decision("deny"))
    first, second = (m["response"]["response"] for m in rig.link.sent[-2:])
    assert first == {"behavior": "deny", "message": "not today", "interrupt": True, "toolUseID": "call-r1"}
    assert second["message"]
    assert "interrupt" not in second
    await rig.end()


@pytest.mark.rules("S004-234")
async def test_a_permission_is_never_decided_by_time() -> None:
    rig = await Rig().start()
    rig.link.says(can_use("r1"))
    await rig.sink.until(lambda: rig.sink.all("asked"))
    await rig.clock.advance(7 * 24 * 3600)
    assert rig.link.answers_of("r1") == []
    await rig.agent.answer(RequestId("r1"), Decision("allow"))
    assert len(rig.link.answers_of("r1")) == 1
    await rig.end()


async def test_an_answer_goes_out_once() -> None:
    rig = await Rig().start()
    rig.link.says(can_use("r1"))
    await rig.sink.until(lambda: rig.sink.all("asked"))
    await rig.agent.answer(RequestId("r1"), Decision("allow"))
    for request in ("r1", "never-asked"):
        with pytest.raises(Stale):
            await rig.agent.answer(RequestId(request), Decision("deny"))
    assert len(rig.link.answers_of("r1")) == 1
    await rig.end()


@pytest.mark.rules("S004-235")
async def test_what_the_cli_withdraws_is_told_and_takes_no_answer() -> None:
    rig = await Rig().start()
    cancel = {"type": "control_cancel_request", "request_id": "r1"}
    rig.link.says(can_use("r1"), cancel, {"type": "control_cancel_request", "request_id": "unknown"})
    await rig.sink.until(lambda: rig.sink.all("cancelled"))
    assert [kind for kind, _ in rig.sink.story if kind in ("asked", "cancelled")] == ["asked", "cancelled"]
    with pytest.raises(Stale):
        await rig.agent.answer(RequestId("r1"), Decision("allow"))
    assert rig.link.answers_of("r1") == []
    await rig.end()


# --- versions whose hook cannot ask -----------------------------------------------------------------------


MCP_TOOL = "mcp__theirs__act"


async def test_an_old_cli_is_told_to_ask_where_a_rule_of_ours_makes_it() -> None:
    """2.1.37 takes a hook's `ask` as no word at all; the ask rules that it was launched with then hold."""
    rig = await Rig(OLD).start()
    rig.link.says(hook("h1", "Bash"), hook("h2", "AskUserQuestion"), hook("h3", "ExitPlanMode"))
    for request in ("h1", "h2", "h3"):
        answer = await rig.answer_to(request)
        assert answer["response"]["hookSpecificOutput"]["permissionDecision"] == "ask"
    assert rig.sink.all("asked") == []
    await rig.end()


async def test_an_old_cli_s_hook_is_held_for_a_tool_that_no_rule_covers() -> None:
    """Its own allow rules and modes would decide about a tool of an MCP server."""
    rig = await Rig(OLD).start()
    rig.link.says(hook("h1", MCP_TOOL, {"a": 1}))
    await rig.sink.until(lambda: rig.sink.all("asked"))
    assert rig.link.answers_of("h1") == []
    assert rig.sink.all("asked") == [Ask(RequestId("h1"), CallId("call-h1"), MCP_TOOL, {"a": 1})]
    # The log shows it as any other request, and before it is put to anybody.
    shown = msgspec.json.decode(rig.sink.raws[-1])
    assert shown["request"]["subtype"] == "can_use_tool"
    assert shown["request"]["tool_use_id"] == "call-h1"
    assert [kind for kind, _ in rig.sink.story[-2:]] == ["record", "asked"]
    await rig.clock.advance(24 * 3600)
    await rig.agent.answer(RequestId("h1"), Decision("allow", updated_input={"a": 2}))
    assert (await rig.answer_to("h1"))["response"]["hookSpecificOutput"] == {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow",
        "updatedInput": {"a": 2},
    }
    await rig.end()


async def test_a_denied_hook_of_an_old_cli_may_end_the_run() -> None:
    rig = await Rig(OLD).start()
    rig.link.says(hook("h1", MCP_TOOL), hook("h2", MCP_TOOL))
    await rig.sink.until(lambda: len(rig.sink.all("asked")) == 2)
    await rig.agent.answer(RequestId("h1"), Decision("deny", "no"))
    await rig.agent.answer(RequestId("h2"), Decision("deny", "no", interrupt=True))
    first, second = (await rig.answer_to("h1"))["response"], (await rig.answer_to("h2"))["response"]
    for answer in (first, second):
        assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"
        assert answer["hookSpecificOutput"]["permissionDecisionReason"] == "no"
    assert "continue" not in first
    assert second["continue"] is False
    await rig.end()


async def test_a_held_hook_that_the_cli_withdraws_is_a_cancelled_request() -> None:
    rig = await Rig(OLD).start()
    rig.link.says(hook("h1", MCP_TOOL))
    await rig.sink.until(lambda: rig.sink.all("asked"))
    rig.link.says({"type": "control_cancel_request", "request_id": "h1"})
    await rig.sink.until(lambda: rig.sink.all("cancelled"))
    with pytest.raises(Stale):
        await rig.agent.answer(RequestId("h1"), Decision("allow"))
    await rig.end()


async def test_without_a_rule_of_ours_an_old_cli_s_own_rules_may_still_deny() -> None:
    """Measured: in 2.1.37 a hook's allow outranks the user's own deny rules."""
    rig = await Rig(OLD).start()
    rig.sink.verdict = Verdict(Behavior.ALLOW, "reads are fine", by="default")
    rig.link.says(hook("h1"))
    assert (await rig.answer_to("h1"))["response"] == {}
    rig.sink.verdict = Verdict(Behavior.ALLOW, "rule", rule="Bash(ls)", by="rule")
    rig.link.says(hook("h2"))
    assert (await rig.answer_to("h2"))["response"]["hookSpecificOutput"]["permissionDecision"] == "allow"
    await rig.end()


@pytest.mark.parametrize(("version", "by"), [((2, 1, 120), "rule"), (OLD, "mode")])
async def test_a_cli_that_asks_again_what_the_hook_allowed_is_answered_without_anybody(
    version: tuple[int, int, int], by: VerdictBy
) -> None:
    """2.1.120 with its ask rules asks in spite of the hook's allow; 2.1.37 where the hook said nothing."""
    rig = await Rig(version).start()
    rig.sink.verdict = Verdict(Behavior.ALLOW, "fine", by=by)
    rig.link.says(hook("x"), hook("y"))
    await rig.answer_to("y")
    before = len(rig.sink.raws)
    rig.link.says(can_use("r1", call="call-x"))
    assert (await rig.answer_to("r1"))["response"] == {
        "behavior": "allow",
        "updatedInput": {"command": "ls"},
        "toolUseID": "call-x",
    }
    assert len(rig.sink.raws) == before
    # Once only, and only for exactly that call.
    rig.link.says(can_use("r2", call="call-x"), can_use("r3", tool_input={"command": "rm"}, call="call-y"))
    await rig.sink.until(lambda: len(rig.sink.all("asked")) == 2)
    assert [ask.request for ask in rig.sink.all("asked")] == ["r2", "r3"]
    await rig.end()


async def test_what_the_hook_allowed_is_not_remembered_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MOST_OPEN", 2)
    rig = await Rig((2, 1, 120)).start()
    rig.sink.verdict = Verdict(Behavior.ALLOW, "fine", by="rule")
    for name in "abc":
        rig.link.says(hook(name))
        await rig.answer_to(name)
    rig.link.says(*[can_use(f"r-{name}", call=f"call-{name}") for name in "abc"])
    await rig.sink.until(lambda: rig.sink.all("asked"))
    assert [ask.request for ask in rig.sink.all("asked")] == ["r-a"]
    await rig.end()


# --- MCP and what we do not know ----------------------------------------------------------------------------


async def test_an_mcp_message_is_answered_by_our_server() -> None:
    rig = await Rig().start()
    reply = {"jsonrpc": "2.0", "id": 3, "result": {"tools": []}}
    rig.sink.mcp_answer = reply
    message = {"jsonrpc": "2.0", "id": 3, "method": "tools/list"}
    rig.link.says(asks("m1", subtype="mcp_message", server_name="ours", message=message))
    assert (await rig.answer_to("m1"))["response"] == {"mcp_response": reply}
    assert rig.sink.all("mcp") == [("ours", message)]
    await rig.end()


@pytest.mark.parametrize("failure", [NotFound("MCP server", "ours"), RuntimeError("secret detail")])
async def test_an_mcp_server_that_fails_answers_in_its_own_protocol(failure: Exception) -> None:
    rig = await Rig().start()
    rig.sink.mcp_answer = failure
    rig.link.says(asks("m1", subtype="mcp_message", server_name="ours", message={"id": 3, "method": "x"}))
    told = (await rig.answer_to("m1"))["response"]["mcp_response"]
    assert told["id"] == 3
    assert told["error"]["code"] == -32603
    assert "secret" not in told["error"]["message"]
    await rig.end()


async def test_an_mcp_notification_is_acknowledged() -> None:
    rig = await Rig().start()
    rig.link.says(asks("m1", subtype="mcp_message", server_name="ours", message={"method": "notifications/x"}))
    assert (await rig.answer_to("m1"))["response"]["mcp_response"] == {"jsonrpc": "2.0", "id": 0, "result": {}}
    await rig.end()


@pytest.mark.rules("S004-206")
async def test_a_request_that_nobody_knows_is_refused_and_kept() -> None:
    rig = await Rig().start()
    rig.link.says(asks("u1", subtype="made_up", more=1), asks("u2", subtype="can_use_tool", input="no object"))
    unknown, malformed = await rig.answer_to("u1"), await rig.answer_to("u2")
    assert unknown["subtype"] == malformed["subtype"] == "error"
    assert "made_up" in unknown["error"]
    assert any(b"made_up" in raw for raw in rig.sink.raws)
    assert rig.sink.all("asked") == []
    await rig.end()


async def test_an_agent_that_asks_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MOST_OPEN", 3)
    rig = await Rig().start()
    rig.link.says(*[can_use(f"r{n}") for n in range(4)], hook("h1"))
    assert (await rig.answer_to("r3"))["subtype"] == "error"
    denied = await rig.answer_to("h1")
    assert denied["response"]["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert len(rig.sink.all("asked")) == 3
    await rig.end()


# --- what we ask --------------------------------------------------------------------------------------------


async def test_each_command_is_the_control_request_that_it_should_be() -> None:
    rig = await Rig().start()
    del rig.link.sent[:]
    await rig.agent.interrupt()
    await rig.agent.set_mode("plan")
    await rig.agent.set_model("opus")
    await rig.agent.set_model("")
    await rig.agent.set_thinking(None)
    assert await rig.agent.control("mcp_reconnect", {"serverName": "s"}) == {}
    assert [m["request"] for m in rig.link.sent] == [
        {"subtype": "interrupt"},
        {"subtype": "set_permission_mode", "mode": "plan"},
        {"subtype": "set_model", "model": "opus"},
        {"subtype": "set_model", "model": "default"},
        {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": None},
        {"subtype": "mcp_reconnect", "serverName": "s"},
    ]
    assert len({m["request_id"] for m in rig.link.sent}) == 6
    with pytest.raises(BadMode):
        await rig.agent.set_mode("nonsense")
    await rig.end()


async def test_fields_of_a_request_cannot_change_what_it_is() -> None:
    rig = await Rig().start()
    await rig.agent.control("mcp_reconnect", {"subtype": "initialize", "hooks": {}})
    assert rig.link.sent[-1]["request"]["subtype"] == "mcp_reconnect"
    await rig.end()


async def test_an_error_answer_is_a_refusal_and_its_open_permissions_are_taken_up() -> None:
    rig = await Rig().start()
    rig.link.on_send = None
    asking = asyncio.create_task(rig.agent.control("mcp_toggle", {}))
    await settled()
    error = {"subtype": "error", "request_id": rig.link.sent[-1]["request_id"], "error": "Server not found"}
    rig.link.says({"type": "control_response", "response": error | {"pending_permission_requests": [can_use("p1")]}})
    with pytest.raises(AgentRefused, match="Server not found"):
        await asking
    await rig.sink.until(lambda: rig.sink.all("asked"))
    await rig.end()


@pytest.mark.rules("S004-133")
async def test_a_request_without_an_answer_times_out_and_a_late_answer_does_no_harm() -> None:
    rig = await Rig().start()
    rig.link.on_send = None
    asking = asyncio.create_task(rig.agent.control("made_up", {}))
    short = asyncio.create_task(rig.agent.control("made_up", {}, timeout=2))
    await rig.clock.advance(2)
    with pytest.raises(AgentTimeout):
        await short
    await rig.clock.advance(12.5)
    assert not asking.done()
    await rig.clock.advance(1)
    with pytest.raises(AgentTimeout):
        await asking
    rig.link.says(success(rig.link.sent[-1]["request_id"]), success("never-asked"))
    answers(rig.link)
    await rig.agent.interrupt()
    await rig.end()


@pytest.mark.parametrize("raw", [b"", b"  ", b'{"type":"user"}\n{"type":"user"}', b'{"type":"made_up"}', b"no json"])
async def test_only_a_prompt_on_one_line_is_written(raw: bytes) -> None:
    rig = await Rig().start()
    before = len(rig.link.lines)
    with pytest.raises(BadRequest):
        await rig.agent.write(Record(raw, "gateway"))
    assert len(rig.link.lines) == before
    await rig.end()


# --- its end --------------------------------------------------------------------------------------------------


@pytest.mark.rules("S004-299")
async def test_when_it_is_gone_all_that_waited_fails_and_the_sink_hears_it_once_at_the_end() -> None:
    rig = await Rig().start()
    rig.link.on_send = None
    waiting = [asyncio.create_task(rig.agent.interrupt()), asyncio.create_task(rig.agent.set_model("opus"))]
    await settled()
    rig.link.says_bytes(b'{"type":"the last word"}')
    rig.link.die(Exit(signal=9, stderr="killed"))
    for task in waiting:
        with pytest.raises(AgentGone):
            await task
    await rig.sink.until(lambda: rig.sink.all("exited"))
    assert rig.sink.story[-2:] == [
        ("record", Record(b'{"type":"the last word"}')),
        ("exited", Exit(signal=9, stderr="killed")),
    ]
    for call in (
        rig.agent.interrupt(),
        rig.agent.write(Record(user_line("x")[:-1], "gateway")),
        rig.agent.control("mcp_status", {}),
        rig.agent.set_mode("plan"),
        rig.agent.answer(RequestId("r1"), Decision("allow")),
    ):
        with pytest.raises(AgentGone):
            await call
    assert await rig.agent.stop("again") == Exit(signal=9, stderr="killed")
    assert len(rig.sink.all("exited")) == 1


@pytest.mark.parametrize("version", [OLD, NEW])
async def test_an_agent_that_is_ended_is_first_refused_what_it_waits_for(version: tuple[int, int, int]) -> None:
    """Measured on 2.1.37 and 2.1.120: an open hook whose input closes lets the tool run by the project's rules."""
    rig = Rig(version)

    async def never(call: ToolCheck) -> Verdict:
        await asyncio.Event().wait()
        raise AssertionError

    rig.sink.check = never  # type: ignore[method-assign]  # a policy that never answers
    await rig.start()
    rig.link.says(hook("h1"), hook("h2"), can_use("r1"))
    await settled()
    stopping = asyncio.create_task(rig.agent.stop("closed"))
    await settled()
    for request in ("h1", "h2"):
        (answer,) = rig.link.answers_of(request)
        assert answer["response"]["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert rig.link.answers_of("r1") == []
    assert await stopping == Exit(code=0)
    # What was begun for it never ends by itself: the end is told all the same.
    await rig.clock.advance(serving.CLOSING_SECONDS + 1)
    await rig.sink.until(lambda: rig.sink.all("exited"))
    await settled()


async def test_an_agent_that_does_not_hear_the_refusal_is_ended_nonetheless() -> None:
    rig = await Rig(OLD).start()
    rig.link.says(hook("h1", MCP_TOOL))
    await rig.sink.until(lambda: rig.sink.all("asked"))

    async def stuck(data: bytes) -> None:
        await asyncio.Event().wait()

    rig.link.send = stuck  # type: ignore[method-assign]  # its pipe is full
    stopping = asyncio.create_task(rig.agent.stop("closed"))
    await rig.clock.advance(3)
    assert await stopping == Exit(code=0)
    await rig.sink.until(lambda: rig.sink.all("exited"))


async def test_an_mcp_call_that_still_runs_ends_with_the_agent() -> None:
    rig = Rig()
    cancelled = asyncio.Event()

    async def slow(server: str, message: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    rig.sink.mcp = slow  # type: ignore[method-assign]  # a server that never answers
    await rig.start()
    rig.link.says(asks("m1", subtype="mcp_message", server_name="ours", message={"id": 1}))
    await settled()
    await rig.end()
    assert cancelled.is_set()


async def test_a_sink_that_fails_ends_the_agent(caplog: pytest.LogCaptureFixture) -> None:
    rig = await Rig().start()

    async def broken(batch: Any) -> None:
        raise RuntimeError("disk full")

    rig.sink.records = broken  # type: ignore[method-assign]  # the store's side fails
    rig.link.says({"type": "a"})
    await rig.sink.until(lambda: rig.sink.all("exited"))
    assert rig.link.stopped
    assert "could not be handed on" in caplog.text


async def test_a_sink_that_cannot_take_the_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    rig = await Rig().start()
    failed = asyncio.Event()

    async def broken(exit: Exit) -> None:
        failed.set()
        raise RuntimeError("disk full")

    rig.sink.exited = broken  # type: ignore[method-assign]  # the store's side fails
    rig.link.die(Exit(code=0))
    await failed.wait()
    await settled()
    assert "could not be told" in caplog.text


async def test_a_question_that_cannot_be_put_to_anybody_is_logged_and_stays_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = await Rig().start()

    async def broken(ask: Ask) -> None:
        raise RuntimeError("disk full")

    rig.sink.asked = broken  # type: ignore[method-assign]  # the store's side fails
    rig.link.says(can_use("r1"), can_use("r1"))
    await settled()
    assert "a request of the agent failed" in caplog.text
    assert rig.link.answers_of("r1") == []
    await rig.end()


async def test_a_request_withdrawn_while_the_policy_thinks_gets_no_answer() -> None:
    for version, verdict in ((NEW, Behavior.DENY), (OLD, Behavior.ASK)):
        rig = Rig(version)
        thinking = asyncio.Event()

        async def check(call: ToolCheck, thinking: asyncio.Event = thinking, verdict: Behavior = verdict) -> Verdict:
            await thinking.wait()
            return Verdict(verdict, "slow")

        rig.sink.check = check  # type: ignore[method-assign]  # a policy that takes its time
        await rig.start()
        rig.link.says(hook("h1", MCP_TOOL))
        await settled()
        rig.link.says({"type": "control_cancel_request", "request_id": "h1"})
        await settled()
        thinking.set()
        await settled()
        assert rig.link.answers_of("h1") == []
        assert rig.sink.all("asked") == rig.sink.all("cancelled") == []
        await rig.end()


async def test_a_request_of_ours_that_is_cancelled_is_forgotten() -> None:
    rig = await Rig().start()
    rig.link.on_send = None
    asking = asyncio.create_task(rig.agent.interrupt())
    await settled()
    asking.cancel()
    await settled()
    rig.link.says(success(rig.link.sent[-1]["request_id"]))
    await rig.end()
    assert asking.cancelled()


async def test_a_start_that_fails_tells_the_agent_s_own_words() -> None:
    rig = Rig()
    starting = asyncio.create_task(rig.agent.start(Launch(session=SESSION, cwd="/w", settings=Settings())))
    await settled()
    rig.link.says({"type": "result", "subtype": "error_during_execution", "errors": ["No conversation found: x"]})
    rig.link.die(Exit(code=1))
    with pytest.raises(AgentGone, match=r"\(code 1\): No conversation found: x"):
        await starting
    assert rig.sink.all("exited") == [Exit(code=1)]


async def test_a_start_that_ends_with_words_on_stderr_tells_them() -> None:
    rig = Rig()
    starting = asyncio.create_task(rig.agent.start(Launch(session=SESSION, cwd="/w", settings=Settings())))
    await settled()
    rig.link.die(Exit(signal=11, stderr="Segmentation fault\n"))
    with pytest.raises(AgentGone, match=r"\(signal 11\): Segmentation fault"):
        await starting


async def test_a_start_that_never_answers_is_given_up_after_a_minute_and_ended() -> None:
    rig = Rig()
    starting = asyncio.create_task(rig.agent.start(Launch(session=SESSION, cwd="/w", settings=Settings())))
    await rig.clock.advance(59)
    assert not starting.done()
    await rig.clock.advance(2)
    with pytest.raises(AgentGone, match="did not answer initialize"):
        await starting
    assert rig.link.stopped
    assert len(rig.sink.all("exited")) == 1


async def test_a_start_that_is_cancelled_ends_the_process() -> None:
    rig = Rig()
    starting = asyncio.create_task(rig.agent.start(Launch(session=SESSION, cwd="/w", settings=Settings())))
    await settled()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await rig.sink.until(lambda: rig.sink.all("exited"))


async def test_which_settings_need_a_new_process() -> None:
    for version, bypass in ((NEW, True), ((2, 1, 120), True), (OLD, False)):
        agent = Rig(version).agent
        old = Settings()
        for same in (Settings(), Settings(model="opus"), Settings(mode="plan"), Settings(thinking=9)):
            assert not agent.needs_restart(old, same)
        for other in (
            Settings(effort="high"),
            Settings(directories=("/x",)),
            Settings(append_prompt="x"),
            Settings(partial=False),
            Settings(max_turns=1),
            Settings(max_budget_usd=1.0),
            Settings(mcp_servers=("x",)),
            Settings(output_schema={}),
        ):
            assert agent.needs_restart(old, other)
        # Newer ones refuse bypass unless they were launched for it.
        assert agent.needs_restart(old, Settings(mode="bypassPermissions")) is bypass
        assert not agent.needs_restart(Settings(mode="bypassPermissions"), Settings())
        assert agent.version == ".".join(map(str, version))
        assert "default" in agent.modes
