"""Permissions of an agent without a control protocol: its hook is held until a person decides."""

import asyncio
from typing import Any

import msgspec
import pytest

from agents.claude_driver.harness import NEW, OLD, MemorySink
from agents.claude_driver.hook_harness import decided, tool_use
from fairlead.agents.claude.stdio.tool_hooks import HookPermissions, parse_call
from fairlead.model.agents import Decision, PermissionRequest, ToolCheck
from fairlead.model.errors import Stale
from fairlead.model.ids import CallId, RequestId
from fairlead.model.policy import Behavior, Verdict, VerdictBy
from fairlead_testing.clock import ManualClock
from patience import settled


@pytest.fixture
def sink() -> MemorySink:
    return MemorySink()


def permits(sink: MemorySink, version: tuple[int, int, int] = NEW) -> HookPermissions:
    return HookPermissions(sink, sink.records, version, ManualClock())


def call(*names: str, **given: Any) -> ToolCheck:
    check = parse_call(tool_use(*names, **given))
    assert isinstance(check, ToolCheck)
    return check


def written(answer: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(answer))


async def asked(sink: MemorySink, count: int = 1) -> PermissionRequest:
    await sink.until(lambda: len(sink.all("asked")) == count)
    ask = sink.all("asked")[-1]
    assert isinstance(ask, PermissionRequest)
    return ask


@pytest.mark.parametrize("behavior", [Behavior.ALLOW, Behavior.DENY])
async def test_the_verdict_of_the_policy_is_the_answer(sink: MemorySink, behavior: Behavior) -> None:
    sink.verdict = Verdict(behavior, "because")
    answer = await permits(sink).pre_tool_use(call("toolu_1", "Write", file_path="/w/a"))
    assert decided(written(answer)) == (behavior.value, "because")
    assert sink.story == [("check", ToolCheck(CallId("toolu_1"), "Write", {"file_path": "/w/a"}, "default", "/w"))]


@pytest.mark.parametrize(("by", "answer"), [("default", {}), ("mode", {}), ("rule", "allow")])
async def test_the_oldest_version_gets_an_allow_only_from_a_rule(sink: MemorySink, by: VerdictBy, answer: Any) -> None:
    """In that version an allow overrides the user's own deny rules."""
    sink.verdict = Verdict(Behavior.ALLOW, "fine", by=by)
    given = written(await permits(sink, OLD).pre_tool_use(call()))
    assert (decided(given)[0] if given else given) == answer


async def test_a_policy_that_fails_denies(sink: MemorySink, caplog: pytest.LogCaptureFixture) -> None:
    sink.verdict = RuntimeError("broken")
    assert decided(written(await permits(sink).pre_tool_use(call())))[0] == "deny"
    assert "the policy failed" in caplog.text


@pytest.mark.parametrize("given", [{}, {"tool_name": 7, "tool_input": {}}, {"tool_name": "Bash", "tool_input": "ls"}])
def test_a_call_that_is_not_understood_is_denied(given: Any) -> None:
    decision, reason = decided(written(parse_call(given)))
    assert decision == "deny" and "did not understand" in reason


async def test_the_hook_is_held_until_a_person_decides_and_the_request_is_recorded(sink: MemorySink) -> None:
    held = permits(sink)
    hook = asyncio.create_task(held.pre_tool_use(call("toolu_9", command="touch x")))
    ask = await asked(sink)
    assert ask == PermissionRequest(ask.request, CallId("toolu_9"), "Bash", {"command": "touch x"})
    record = msgspec.json.decode(sink.raws[0])
    assert record == {
        "type": "control_request",
        "request_id": ask.request,
        "request": {
            "subtype": "can_use_tool",
            "tool_name": "Bash",
            "input": {"command": "touch x"},
            "tool_use_id": "toolu_9",
            "decision_reason": "ask",
        },
    }
    assert [kind for kind, _ in sink.story] == ["check", "record", "asked"], "in the log before anybody is asked"
    assert not hook.done()
    await held.answer(ask.request, Decision("allow", updated_input={"command": "touch y"}))
    output = written(await hook)["hookSpecificOutput"]
    assert (output["permissionDecision"], output["updatedInput"]) == ("allow", {"command": "touch y"})
    assert sink.all("cancelled") == []


@pytest.mark.parametrize("interrupt", [False, True])
async def test_a_denial_carries_the_message_of_the_person_and_may_end_the_run(
    sink: MemorySink, interrupt: bool
) -> None:
    held = permits(sink)
    hook = asyncio.create_task(held.pre_tool_use(call()))
    await held.answer((await asked(sink)).request, Decision("deny", "not today", interrupt=interrupt))
    answer = written(await hook)
    assert decided(answer) == ("deny", "not today")
    assert ("continue" in answer) is interrupt


async def test_a_question_is_answered_once(sink: MemorySink) -> None:
    held = permits(sink)
    hook = asyncio.create_task(held.pre_tool_use(call()))
    request = (await asked(sink)).request
    await held.answer(request, Decision("deny"))
    for name in (request, RequestId("never-asked")):
        with pytest.raises(Stale):
            await held.answer(name, Decision("allow"))
    assert decided(written(await hook))[0] == "deny"
    with pytest.raises(Stale):
        await held.answer(request, Decision("allow"))


async def test_two_requests_are_answered_separately(sink: MemorySink) -> None:
    held = permits(sink)
    first = asyncio.create_task(held.pre_tool_use(call("toolu_1")))
    one = await asked(sink)
    second = asyncio.create_task(held.pre_tool_use(call("toolu_2")))
    two = await asked(sink, 2)
    await held.answer(two.request, Decision("deny", "second"))
    await held.answer(one.request, Decision("deny", "first"))
    assert [decided(written(await hook))[1] for hook in (first, second)] == ["first", "second"]


async def test_a_cancelled_hook_withdraws_its_request(sink: MemorySink) -> None:
    held = permits(sink)
    hook = asyncio.create_task(held.pre_tool_use(call()))
    request = (await asked(sink)).request
    hook.cancel()
    await asyncio.wait({hook})
    await held.wait_finished()
    assert sink.all("cancelled") == [request]
    with pytest.raises(Stale):
        await held.answer(request, Decision("allow"))


async def test_a_request_is_stored_completely_before_it_is_withdrawn(sink: MemorySink) -> None:
    sink.gate = asyncio.Event()
    held = permits(sink)
    hook = asyncio.create_task(held.pre_tool_use(call()))
    await sink.until(lambda: sink.raws)
    hook.cancel()
    await settled()
    assert not hook.done(), "the record is being stored"
    sink.gate.set()
    await asyncio.wait({hook})
    await held.wait_finished()
    assert [kind for kind, _ in sink.story] == ["check", "record", "asked", "cancelled"]


async def test_a_permission_request_that_the_sink_rejects_raises(
    sink: MemorySink, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook server turns the error into a denial."""

    async def broken(ask: PermissionRequest) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(sink, "permission_requested", broken)
    with pytest.raises(OSError, match="disk"):
        await permits(sink).pre_tool_use(call())
    assert "a hook of the agent failed" in caplog.text
