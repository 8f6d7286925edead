"""The driver of one CLI process, without a process: its records, answers and timeouts, and their order."""

import asyncio
from typing import Any

import msgspec
import pytest

from agents.claude_driver.harness import (
    MCP_TOOL,
    NEW,
    OLD,
    SESSION,
    DriverHarness,
    answers,
    asks,
    can_use,
    hook,
    success,
)
from fairlead.agents.claude.stdio import control_requests
from fairlead.agents.claude.wire.control import user_line
from fairlead.agents.links.framing import RECORD_LIMIT
from fairlead.model.agents import Decision, Exit, Launch, PermissionRequest, Record, ToolCheck
from fairlead.model.commands import Settings
from fairlead.model.errors import AgentNotRunning, AgentRefused, AgentTimeout, BadMode, BadRequest, HistoryMissing
from fairlead.model.ids import RequestId, is_uuid
from fairlead.model.policy import Behavior, Verdict
from patience import settled


async def test_initialize_comes_first_and_once_with_the_policy_hook_for_every_tool() -> None:
    harness = await DriverHarness().start(append_prompt="be brief", output_schema={"type": "object"}, thinking=4000)
    first = harness.link.sent[0]["request"]
    assert first == {
        "subtype": "initialize",
        "hooks": {
            "PreToolUse": [{"hookCallbackIds": ["fairlead-policy"], "timeout": 1_000_000, "onFailure": "block"}],
        },
        "sdkMcpServers": ["ours"],
        "jsonSchema": {"type": "object"},
        "appendSystemPrompt": "be brief",
        "forwardSubagentText": True,
    }
    assert harness.link.sent[1]["request"] == {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 4000}
    with pytest.raises(BadRequest, match="Only the gateway"):
        await harness.agent.control("initialize", {})
    assert len(harness.link.sent) == 2
    await harness.end()


@pytest.mark.rules("S004-134")
async def test_no_prompt_can_be_written_before_initialize() -> None:
    harness = await DriverHarness().start()
    await harness.agent.write(Record(user_line("hi", "", str(SESSION))[:-1], "gateway"))
    assert [m["type"] for m in harness.link.sent] == ["control_request", "user"]
    assert harness.link.sent[0]["request"]["subtype"] == "initialize"
    await harness.end()


async def test_every_record_is_delivered_in_order_before_it_is_acted_on() -> None:
    harness = await DriverHarness().start()
    harness.sink.story.clear()
    lines = [{"type": "system", "n": 1}, hook("h1"), {"type": "made_up", "n": 2}, {"type": "control_odd"}]
    harness.link.says(*lines)
    await harness.answer_to("h1")
    assert [msgspec.json.decode(raw) for raw in harness.sink.raws] == lines
    kinds = [kind for kind, _ in harness.sink.story]
    assert kinds == ["record"] * 4 + ["check"]
    await harness.end()


async def test_nothing_more_is_read_while_the_sink_is_busy() -> None:
    harness = await DriverHarness().start()
    harness.sink.gate = asyncio.Event()
    harness.link.says({"type": "a"})
    harness.link.says({"type": "b"})
    await settled()
    assert harness.sink.raws[-1] == b'{"type":"a"}'
    harness.sink.gate.set()
    await harness.sink.record_with(b'{"type":"b"}')
    await harness.end()


async def test_a_split_line_and_an_unterminated_last_line_are_one_record_each() -> None:
    harness = await DriverHarness().start()
    harness.link.says_bytes(b'{"type":"a"}\n{"ty')
    harness.link.says_bytes(b'pe":"b"}\r\n\n{"type":"last"}')
    await harness.end()
    assert harness.sink.raws[-3:] == [b'{"type":"a"}', b'{"type":"b"}', b'{"type":"last"}']


async def test_a_record_above_the_limit_is_reported_not_stored() -> None:
    harness = await DriverHarness().start()
    harness.link.says_bytes(b"x" * (RECORD_LIMIT + 1) + b"\n")
    harness.link.says({"type": "after"})
    raw = await harness.sink.record_with(b"oversize")
    kept = msgspec.json.decode(raw)
    assert kept["type"] == "fairlead_oversize"
    assert kept["size"] == RECORD_LIMIT + 1
    assert len(raw) < 100_000
    await harness.sink.record_with(b"after")
    await harness.end()


# --- requests to the CLI ------------------------------------------------------------------------------------


@pytest.mark.rules("S004-127", "S004-170")
async def test_each_command_sends_its_control_request() -> None:
    harness = await DriverHarness().start()
    del harness.link.sent[:]
    await harness.agent.interrupt()
    await harness.agent.set_mode("plan")
    await harness.agent.set_model("opus")
    await harness.agent.set_model("")
    await harness.agent.set_thinking(None)
    assert await harness.agent.control("mcp_reconnect", {"serverName": "s"}) == {}
    assert [m["request"] for m in harness.link.sent] == [
        {"subtype": "interrupt"},
        {"subtype": "set_permission_mode", "mode": "plan"},
        {"subtype": "set_model", "model": "opus"},
        {"subtype": "set_model", "model": "default"},
        {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": None},
        {"subtype": "mcp_reconnect", "serverName": "s"},
    ]
    assert len({m["request_id"] for m in harness.link.sent if is_uuid(m["request_id"])}) == 6
    with pytest.raises(BadMode):
        await harness.agent.set_mode("nonsense")
    await harness.end()


async def test_fields_of_a_request_cannot_change_its_subtype() -> None:
    harness = await DriverHarness().start()
    await harness.agent.control("mcp_reconnect", {"subtype": "initialize", "hooks": {}})
    assert harness.link.sent[-1]["request"]["subtype"] == "mcp_reconnect"
    await harness.end()


@pytest.mark.rules("S004-129", "S004-130")
async def test_an_error_answer_rejects_the_request_and_its_pending_permissions_are_handled() -> None:
    harness = await DriverHarness().start()
    harness.link.on_send = None
    asking = asyncio.create_task(harness.agent.control("mcp_toggle", {}))
    await settled()
    error = {"subtype": "error", "request_id": harness.link.sent[-1]["request_id"], "error": "Server not found"}
    harness.link.says(
        {"type": "control_response", "response": error | {"pending_permission_requests": [can_use("p1")]}}
    )
    with pytest.raises(AgentRefused, match="Server not found"):
        await asking
    await harness.sink.until(lambda: harness.sink.all("asked"))
    await harness.end()


@pytest.mark.rules("S004-133", "S004-300")
async def test_a_request_without_an_answer_times_out_and_a_late_answer_does_no_harm() -> None:
    harness = await DriverHarness().start()
    harness.link.on_send = None
    asking = asyncio.create_task(harness.agent.control("made_up", {}))
    short = asyncio.create_task(harness.agent.control("made_up", {}, timeout=2))
    await harness.clock.advance(2)
    with pytest.raises(AgentTimeout):
        await short
    await harness.clock.advance(12.5)
    assert not asking.done()
    await harness.clock.advance(1)
    with pytest.raises(AgentTimeout):
        await asking
    harness.link.says(success(harness.link.sent[-1]["request_id"]), success("never-asked"))
    answers(harness.link)
    await harness.agent.interrupt()
    await harness.end()


@pytest.mark.rules("S004-050", "S004-301")
@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize("how", ["timeout", "given up"])
async def test_an_abandoned_request_is_withdrawn_if_the_version_supports_it(
    version: tuple[int, int, int], how: str
) -> None:
    harness = await DriverHarness(version).start()
    harness.link.on_send = None
    asking = asyncio.create_task(harness.agent.control("mcp_status", {}, timeout=2))
    await settled()
    name = harness.link.sent[-1]["request_id"]
    if how == "timeout":
        await harness.clock.advance(2)
    else:
        asking.cancel()
    with pytest.raises((AgentTimeout, asyncio.CancelledError)):
        await asking
    withdrawn = [message["request_id"] for message in harness.link.sent if message["type"] == "control_cancel_request"]
    assert withdrawn == ([name] if version == NEW else [])
    await harness.end()


@pytest.mark.parametrize("raw", [b"", b"  ", b'{"type":"user"}\n{"type":"user"}', b'{"type":"made_up"}', b"no json"])
async def test_only_a_prompt_on_one_line_is_written(raw: bytes) -> None:
    harness = await DriverHarness().start()
    before = len(harness.link.lines)
    with pytest.raises(BadRequest):
        await harness.agent.write(Record(raw, "gateway"))
    assert len(harness.link.lines) == before
    await harness.end()


# --- the end of the process -----------------------------------------------------------------------------------


@pytest.mark.rules("S004-299")
async def test_an_exit_fails_all_pending_requests_and_reaches_the_sink_once_at_the_end() -> None:
    harness = await DriverHarness().start()
    harness.link.on_send = None
    waiting = [asyncio.create_task(harness.agent.interrupt()), asyncio.create_task(harness.agent.set_model("opus"))]
    await settled()
    harness.link.says_bytes(b'{"type":"the last word"}')
    harness.link.die(Exit(signal=9, stderr="killed"))
    for task in waiting:
        with pytest.raises(AgentNotRunning):
            await task
    await harness.sink.until(lambda: harness.sink.all("exited"))
    assert harness.sink.story[-2:] == [
        ("record", Record(b'{"type":"the last word"}')),
        ("exited", Exit(signal=9, stderr="killed")),
    ]
    for call in (
        harness.agent.interrupt(),
        harness.agent.write(Record(user_line("x")[:-1], "gateway")),
        harness.agent.control("mcp_status", {}),
        harness.agent.set_mode("plan"),
        harness.agent.answer(RequestId("r1"), Decision("allow")),
    ):
        with pytest.raises(AgentNotRunning):
            await call
    assert await harness.agent.stop("again") == Exit(signal=9, stderr="killed")
    assert len(harness.sink.all("exited")) == 1


@pytest.mark.parametrize("version", [OLD, NEW])
async def test_stopping_an_agent_first_denies_its_open_hooks(
    version: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured on 2.1.37 and 2.1.120: when input closes while a hook is open, the tool runs by the project's rules."""
    harness = DriverHarness(version)

    async def never(call: ToolCheck) -> Verdict:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(harness.sink, "check", never)  # a policy that never answers
    await harness.start()
    harness.link.says(hook("h1"), hook("h2"), can_use("r1"))
    await settled()
    stopping = asyncio.create_task(harness.agent.stop("closed"))
    await settled()
    for request in ("h1", "h2"):
        (answer,) = harness.link.answers_of(request)
        assert answer["response"]["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert harness.link.answers_of("r1") == []
    assert await stopping == Exit(code=0)
    # The pending policy check never ends by itself: the exit is delivered anyway.
    await harness.clock.advance(control_requests.CLOSING_SECONDS + 1)
    await harness.sink.until(lambda: harness.sink.all("exited"))
    await settled()


async def test_an_agent_that_does_not_read_the_denial_is_still_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = await DriverHarness(OLD).start()
    harness.link.says(hook("h1", MCP_TOOL))
    await harness.sink.until(lambda: harness.sink.all("asked"))

    async def stuck(data: bytes) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(harness.link, "send", stuck)  # its pipe is full
    stopping = asyncio.create_task(harness.agent.stop("closed"))
    await harness.clock.advance(3)
    assert await stopping == Exit(code=0)
    await harness.sink.until(lambda: harness.sink.all("exited"))


async def test_an_mcp_call_that_still_runs_ends_with_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = DriverHarness()
    cancelled = asyncio.Event()

    async def slow(server: str, message: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    monkeypatch.setattr(harness.sink, "mcp", slow)  # a server that never answers
    await harness.start()
    harness.link.says(asks("m1", subtype="mcp_message", server_name="ours", message={"id": 1}))
    await settled()
    await harness.end()
    assert cancelled.is_set()


async def test_a_sink_that_fails_ends_the_agent(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = await DriverHarness().start()

    async def broken(batch: Any) -> None:
        raise RuntimeError("disk full")

    monkeypatch.setattr(harness.sink, "records", broken)  # the store's side fails
    harness.link.says({"type": "a"})
    await harness.sink.until(lambda: harness.sink.all("exited"))
    assert harness.link.stopped
    assert "records could not be stored" in caplog.text


async def test_a_sink_that_fails_on_exit_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = await DriverHarness().start()
    failed = asyncio.Event()

    async def broken(exit: Exit) -> None:
        failed.set()
        raise RuntimeError("disk full")

    monkeypatch.setattr(harness.sink, "exited", broken)  # the store's side fails
    harness.link.die(Exit(code=0))
    await failed.wait()
    await settled()
    assert "exit could not be stored" in caplog.text


async def test_a_permission_request_that_the_sink_fails_on_is_logged_and_stays_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = await DriverHarness().start()

    async def broken(ask: PermissionRequest) -> None:
        raise RuntimeError("disk full")

    harness.sink.permission_requested = broken  # type: ignore[method-assign]  # the store's side fails
    harness.link.says(can_use("r1"), can_use("r1"))
    await settled()
    assert "a request of the agent failed" in caplog.text
    assert harness.link.answers_of("r1") == []
    await harness.end()


async def test_a_request_withdrawn_during_the_policy_check_gets_no_answer() -> None:
    for version, verdict in ((NEW, Behavior.DENY), (OLD, Behavior.ASK)):
        harness = DriverHarness(version)
        thinking = asyncio.Event()

        async def check(call: ToolCheck, thinking: asyncio.Event = thinking, verdict: Behavior = verdict) -> Verdict:
            await thinking.wait()
            return Verdict(verdict, "slow")

        harness.sink.check = check  # type: ignore[method-assign]  # a policy that takes its time
        await harness.start()
        harness.link.says(hook("h1", MCP_TOOL))
        await settled()
        harness.link.says({"type": "control_cancel_request", "request_id": "h1"})
        await settled()
        thinking.set()
        await settled()
        assert harness.link.answers_of("h1") == []
        assert harness.sink.all("asked") == harness.sink.all("cancelled") == []
        await harness.end()


async def test_a_cancelled_request_of_ours_is_forgotten() -> None:
    harness = await DriverHarness().start()
    harness.link.on_send = None
    asking = asyncio.create_task(harness.agent.interrupt())
    await settled()
    asking.cancel()
    await settled()
    harness.link.says(success(harness.link.sent[-1]["request_id"]))
    await harness.end()
    assert asking.cancelled()


async def test_a_failed_start_reports_the_errors_of_the_agent() -> None:
    harness = DriverHarness()
    starting = asyncio.create_task(harness.agent.start(Launch(session=SESSION, cwd="/w", settings=Settings())))
    await settled()
    harness.link.says({"type": "result", "subtype": "error_during_execution", "errors": ["No conversation found: x"]})
    harness.link.die(Exit(code=1))
    with pytest.raises(HistoryMissing, match=r"\(code 1\): No conversation found: x"):
        await starting
    assert harness.sink.all("exited") == [Exit(code=1)]


async def test_a_start_that_fails_with_stderr_output_reports_it() -> None:
    harness = DriverHarness()
    starting = asyncio.create_task(harness.agent.start(Launch(session=SESSION, cwd="/w", settings=Settings())))
    await settled()
    harness.link.die(Exit(signal=11, stderr="Segmentation fault\n"))
    with pytest.raises(AgentNotRunning, match=r"\(signal 11\): Segmentation fault"):
        await starting


async def test_a_start_without_an_answer_is_stopped_after_a_minute() -> None:
    harness = DriverHarness()
    starting = asyncio.create_task(harness.agent.start(Launch(session=SESSION, cwd="/w", settings=Settings())))
    await harness.clock.advance(59)
    assert not starting.done()
    await harness.clock.advance(2)
    with pytest.raises(AgentNotRunning, match="did not answer initialize"):
        await starting
    assert harness.link.stopped
    assert len(harness.sink.all("exited")) == 1


async def test_a_start_that_is_cancelled_ends_the_process() -> None:
    harness = DriverHarness()
    starting = asyncio.create_task(harness.agent.start(Launch(session=SESSION, cwd="/w", settings=Settings())))
    await settled()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await harness.sink.until(lambda: harness.sink.all("exited"))


async def test_which_settings_need_a_new_process() -> None:
    for version, bypass in ((NEW, True), ((2, 1, 120), True), (OLD, False)):
        agent = DriverHarness(version).agent
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
        # Newer versions reject bypass mode unless they were launched with it.
        assert agent.needs_restart(old, Settings(mode="bypassPermissions")) is bypass
        assert not agent.needs_restart(Settings(mode="bypassPermissions"), Settings())
        assert agent.version == ".".join(map(str, version))
        assert "default" in agent.modes
