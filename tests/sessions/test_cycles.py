"""A session runs agent processes in sequence: however one ends, its turn closes with a true status before the next."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.agents import Exit, Record
from fairlead.model.errors import AgentNotRunning
from sessions.harness import SESSION, CoreHarness, FakeAgent
from sessions.test_restart import restarted, row

Way = Callable[[CoreHarness, FakeAgent], Awaitable[object]]


async def answered(rig: CoreHarness, agent: FakeAgent) -> None:
    content = [{"type": "text", "text": "the answer"}]
    await agent.result_of("c1")
    await agent.sink.records([Record(row("assistant", "a9", content, id="m9", stop_reason="end_turn"), "transcript")])
    await agent.die(Exit(code=0))


async def interrupted(rig: CoreHarness, agent: FakeAgent) -> None:
    await rig.do(cmd.Interrupt(session=SESSION))
    await agent.result(subtype="error_during_execution", is_error=True)
    await agent.die(Exit(code=0))


async def finished(rig: CoreHarness, agent: FakeAgent) -> None:
    await agent.result_of("c1")
    await agent.result()
    await agent.die(Exit(code=0))


def exits(exit: Exit) -> Way:
    return lambda rig, agent: agent.die(exit)


WAYS: dict[str, tuple[Way, str]] = {
    "finished": (finished, "completed"),
    "answered, then exit 0": (answered, "completed"),
    "interrupted": (interrupted, "cancelled"),
    "exit 3": (exits(Exit(code=3)), "failed"),
    "killed": (exits(Exit(signal=9)), "failed"),
    "closed": (lambda rig, agent: rig.do(cmd.Close(session=SESSION)), "failed"),
}


@pytest.mark.parametrize("link", ["stdio", "terminal"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.rules("S001-011", "S001-086")
@pytest.mark.rules("S001-013", "S001-014", "S001-022", "S001-023", "S001-128", "S001-129", "S001-136", "S001-137")
async def test_the_end_of_a_process_closes_its_turn_and_its_calls_before_the_next(
    way: str, link: cmd.Link, rig: CoreHarness
) -> None:
    await rig.open(settings=cmd.Settings(link=link))
    await rig.send("one")
    agent = await rig.kind.launched()
    await agent.prompted()
    await agent.ready()
    await agent.call("c1", command="sleep 9")
    await rig.send("two")
    does, status = WAYS[way]
    await does(rig, agent)
    after = await rig.kind.launched(2)
    assert await after.prompted() == "two"

    log = await rig.log()
    kinds = [ev.kind_of(event) for event in log]
    ends = [event for event in log if isinstance(event, ev.TurnEnded)]
    assert [end.status for end in ends] == [status]
    (call,) = [event for event in log if isinstance(event, ev.ToolEnded)]
    assert call.status == ("done" if status == "completed" else "interrupted")
    second = kinds.index("agent.started", kinds.index("agent.started") + 1)
    order = [kinds.index("tool.ended"), kinds.index("turn.ended"), kinds.index("agent.exited"), second]
    assert order == sorted(order)
    # Everything the first process sent belongs to its own turn, and nothing of it appears later.
    assert {event.turn for event in log[kinds.index("turn.started") : order[1]]} <= {ends[0].turn, None}
    assert [event.turn for event in log[second:] if event.turn == ends[0].turn] == []


@pytest.mark.rules("S001-015")
@pytest.mark.parametrize("link", ["stdio", "terminal"])
async def test_a_failed_start_is_a_failed_turn_and_is_not_retried_forever(link: cmd.Link, rig: CoreHarness) -> None:
    rig.kind.failures = [AgentNotRunning("it does not start")]
    await rig.open(settings=cmd.Settings(link=link))
    await rig.send("one")
    await rig.until(lambda: rig.state().turns == 1 and rig.state().turn is None)
    (end,) = [event for event in await rig.log() if isinstance(event, ev.TurnEnded)]
    assert (end.status, end.reason) == ("failed", "it does not start")
    assert rig.kind.agents == []
    await rig.send("two")
    assert await (await rig.kind.launched()).prompted() == "two"


@pytest.mark.rules("S001-134")
async def test_a_turn_continues_under_its_id_in_the_next_gateway(tmp_path: Path) -> None:
    rig = await CoreHarness(tmp_path).start()
    agent = await rig.working("one")
    await agent.text("before", "m1")
    content = [{"type": "text", "text": "after"}]
    rig.kind.transcript = [row("assistant", "u9", content, id="m2", stop_reason="end_turn")]
    rig = await restarted(rig)
    await rig.until(lambda: rig.state().turn is None and not rig.loaded().supervisor.following)
    log = await rig.log()
    texts = [event for event in log if isinstance(event, ev.Text)]
    (end,) = [event for event in log if isinstance(event, ev.TurnEnded)]
    assert [text.text for text in texts] == ["before", "after"]
    assert {text.turn for text in texts} == {end.turn}
    await rig.stop()
