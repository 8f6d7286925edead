"""A process that a shim lends: its caller prompts and answers it too, and it outlives the gateway."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.agents import Decision, Exit, Record, ToolCheck
from fairlead.model.errors import Busy, NotTrusted
from fairlead.model.ids import CallId, RequestId, SessionId
from fairlead.model.policy import Behavior
from patience import settled
from sessions.harness import SESSION, CoreHarness, FakeAgent

SHIM = cmd.AttachShim(session=SESSION, version="2.1.325", agent_session=SESSION, pid=4711, started="boot/1")


async def trusting(folder: Path, **policy: Any) -> CoreHarness:
    harness = CoreHarness(folder, **policy)
    harness.trusts = True
    return await harness.start()


async def attached(harness: CoreHarness, command: cmd.AttachShim = SHIM) -> FakeAgent:
    await harness.do(command)
    agent = harness.kind.guests[-1].come()
    await harness.until(lambda: harness.loaded().supervisor.agent is agent)
    return agent


async def prompt(agent: FakeAgent, text: str, uuid: str = "11111111-1111-4111-8111-111111111111") -> None:
    """The shim's caller prompts the process; we get a copy."""
    line = {"type": "user", "message": {"role": "user", "content": text}, "uuid": uuid}
    await agent.sink.records([Record(msgspec.json.encode(line), "gateway", by="ann")])


async def restarted(old: CoreHarness, *, crash: bool) -> CoreHarness:
    await (old.crash() if crash else old.stop())
    new = CoreHarness(old.folder)
    new.kind, new.trusts = old.kind, True
    new.kind.follow_until.clear()
    return await new.start(kill_children=True)


async def test_the_caller_and_a_client_prompt_one_process(tmp_path: Path) -> None:
    harness = await trusting(tmp_path)
    await harness.open()
    agent = await attached(harness)
    await prompt(agent, "from the caller")
    await harness.send("from the phone")
    await agent.ready()
    await agent.text("one")
    await agent.result()
    assert await agent.prompted() == "from the phone"
    messages = [event for event in await harness.log() if isinstance(event, ev.UserMessage)]
    assert [message.by for message in messages] == ["ann", "ann"]
    await agent.result()
    await agent.die(Exit(code=0))
    await harness.send("alone")
    assert await (await harness.kind.launched()).prompted() == "alone"
    await harness.stop()


async def test_a_folder_must_be_trusted(harness: CoreHarness) -> None:
    await harness.open()
    with pytest.raises(NotTrusted, match="fairlead trust"):
        await harness.do(SHIM)


async def test_a_session_at_work_is_not_taken(tmp_path: Path) -> None:
    harness = await trusting(tmp_path)
    await harness.working()
    with pytest.raises(Busy):
        await harness.do(SHIM)
    await harness.stop()


@pytest.mark.parametrize("crash", [True, False])
async def test_a_turn_goes_on_over_a_restart_of_the_gateway(tmp_path: Path, crash: bool) -> None:
    harness = await trusting(tmp_path)
    await harness.open()
    agent = await attached(harness)
    await prompt(agent, "long work")
    await agent.ready()
    await agent.ask("r1", "c1", command="make")
    harness = await restarted(harness, crash=crash)
    assert agent.released is not crash
    assert harness.kind.ended == [], "the process is not ours to end"
    await harness.until(lambda: harness.loaded().supervisor.following)
    assert [item.request for item in harness.state().pending] == ["r1"]

    with pytest.raises(Busy):
        await harness.do(msgspec.structs.replace(SHIM, pid=4712))
    agent = await attached(harness)
    assert not harness.loaded().supervisor.following
    await harness.do(cmd.AnswerPermission(session=SESSION, request=RequestId("r1"), behavior="allow"))
    assert agent.answers
    await agent.text("done")
    await agent.result()
    kinds = await harness.kinds()
    assert (kinds.count("agent.started"), kinds.count("turn.started"), kinds.count("agent.exited")) == (1, 1, 0)
    (end,) = [event for event in await harness.log() if isinstance(event, ev.TurnEnded)]
    assert end.status == "completed"
    await agent.die(Exit(code=0))
    assert await harness.services.children() == []
    await harness.stop()


async def test_a_shim_may_reconnect_before_the_gateway_has_looked_for_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = await trusting(tmp_path)
    await harness.open()
    agent = await attached(harness)
    await prompt(agent, "long work")
    await agent.ready()
    looking, found = asyncio.Event(), asyncio.Event()
    find = type(harness.store).find

    async def find_later(store: Any, session: SessionId, key: str) -> Any:
        if key.startswith("exit:"):
            looking.set()
            await found.wait()
        return await find(store, session, key)

    monkeypatch.setattr(type(harness.store), "find", find_later)
    harness = await restarted(harness, crash=True)
    await looking.wait()
    reconnecting = asyncio.create_task(attached(harness))
    await settled()
    found.set()
    agent = await reconnecting
    await agent.result()
    assert (await harness.kinds()).count("agent.started") == 1
    await harness.stop()


async def test_without_its_shim_the_transcript_completes_the_log(tmp_path: Path) -> None:
    harness = await trusting(tmp_path)
    await harness.open()
    agent = await attached(harness)
    await prompt(agent, "long work")
    await agent.ready()
    body = {
        "id": "m1",
        "role": "assistant",
        "content": [{"type": "text", "text": "the answer"}],
        "stop_reason": "end_turn",
    }
    row = {"type": "assistant", "uuid": "u9", "sessionId": SESSION, "isSidechain": False, "message": body}
    harness.kind.transcript = [msgspec.json.encode(row)]
    harness = await restarted(harness, crash=True)
    harness.kind.follow_until.set()
    await harness.until(lambda: not harness.loaded().supervisor.following)
    assert [event.text for event in await harness.log() if isinstance(event, ev.Text)] == ["the answer"]
    assert harness.state().turn is None
    await harness.stop()


async def test_the_callers_answer_counts_if_it_is_the_first(tmp_path: Path) -> None:
    harness = await trusting(tmp_path)
    await harness.open()
    agent = await attached(harness)
    await prompt(agent, "work")
    await agent.ready()
    await agent.ask("r1", "c1", command="make")
    request, yes, no = RequestId("r1"), Decision("allow"), Decision("deny")
    assert await agent.sink.permission_answered(request, yes, "ann")
    assert not await agent.sink.permission_answered(request, no, "ann")
    (resolved,) = [event for event in await harness.log() if isinstance(event, ev.PermissionResolved)]
    assert (resolved.behavior, resolved.how, resolved.by) == ("allow", "person", "ann")
    assert await agent.sink.permission_answered(RequestId("unknown"), no, "ann"), "nobody else has answered it"
    await harness.stop()


async def test_the_callers_interrupt_cancels_the_turn(tmp_path: Path) -> None:
    harness = await trusting(tmp_path)
    await harness.open()
    agent = await attached(harness)
    await agent.sink.interrupted("ann")
    await prompt(agent, "work")
    await agent.ready()
    await agent.sink.interrupted("ann")
    await agent.result(subtype="error_during_execution", is_error=True)
    (end,) = [event for event in await harness.log() if isinstance(event, ev.TurnEnded)]
    assert end.status == "cancelled"
    assert (await harness.kinds()).count("interrupt.asked") == 1
    await harness.stop()


async def test_an_observed_call_is_only_denied(tmp_path: Path) -> None:
    harness = await trusting(tmp_path)
    await harness.open()
    agent = await attached(harness)
    await harness.do(cmd.SetRules(session=SESSION, allow=("Bash(ls:*)",), deny=("Bash(rm:*)",)))

    async def verdict(command: str) -> Behavior:
        check = ToolCheck(CallId(command), "Bash", {"command": command}, observed=True)
        return (await agent.sink.check(check)).behavior

    assert await verdict("ls") is Behavior.ASK
    assert await verdict("make") is Behavior.ASK
    assert await verdict("rm x") is Behavior.DENY
    assert (await harness.kinds()).count("permission.resolved") == 1
    await harness.stop()
