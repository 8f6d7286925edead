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


async def answered(harness: CoreHarness, agent: FakeAgent) -> None:
    content = [{"type": "text", "text": "the answer"}]
    await agent.result_of("c1")
    await agent.sink.records([Record(row("assistant", "a9", content, id="m9", stop_reason="end_turn"), "transcript")])
    await agent.die(Exit(code=0))


async def interrupted(harness: CoreHarness, agent: FakeAgent) -> None:
    await harness.do(cmd.Interrupt(session=SESSION))
    await agent.result(subtype="error_during_execution", is_error=True)
    await agent.die(Exit(code=0))


async def finished(harness: CoreHarness, agent: FakeAgent) -> None:
    await agent.result_of("c1")
    await agent.result()
    await agent.die(Exit(code=0))


def exits(exit: Exit) -> Way:
    return lambda harness, agent: agent.die(exit)


WAYS: dict[str, tuple[Way, str]] = {
    "finished": (finished, "completed"),
    "answered, then exit 0": (answered, "completed"),
    "interrupted": (interrupted, "cancelled"),
    "exit 3": (exits(Exit(code=3)), "failed"),
    "killed": (exits(Exit(signal=9)), "failed"),
    "closed": (lambda harness, agent: harness.do(cmd.Close(session=SESSION)), "failed"),
}


@pytest.mark.parametrize("link", ["stdio", "terminal"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.rules("S001-011", "S001-086")
@pytest.mark.rules("S001-013", "S001-014", "S001-022", "S001-023", "S001-128", "S001-129", "S001-136", "S001-137")
async def test_the_end_of_a_process_closes_its_turn_and_its_calls_before_the_next(
    way: str, link: cmd.Link, harness: CoreHarness
) -> None:
    await harness.open(settings=cmd.Settings(link=link))
    await harness.send("one")
    agent = await harness.kind.launched()
    await agent.prompted()
    await agent.ready()
    await agent.call("c1", command="sleep 9")
    await harness.send("two")
    does, status = WAYS[way]
    await does(harness, agent)
    after = await harness.kind.launched(2)
    assert await after.prompted() == "two"

    log = await harness.log()
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
async def test_a_failed_start_is_a_failed_turn_and_is_not_retried_forever(link: cmd.Link, harness: CoreHarness) -> None:
    harness.kind.failures = [AgentNotRunning("it does not start")]
    await harness.open(settings=cmd.Settings(link=link))
    await harness.send("one")
    await harness.until(lambda: harness.state().turns == 1 and harness.state().turn is None)
    (end,) = [event for event in await harness.log() if isinstance(event, ev.TurnEnded)]
    assert (end.status, end.reason) == ("failed", "it does not start")
    assert harness.kind.agents == []
    await harness.send("two")
    assert await (await harness.kind.launched()).prompted() == "two"


@pytest.mark.rules("S001-134")
async def test_a_turn_continues_under_its_id_in_the_next_gateway(tmp_path: Path) -> None:
    harness = await CoreHarness(tmp_path).start()
    agent = await harness.working("one")
    await agent.text("before", "m1")
    content = [{"type": "text", "text": "after"}]
    harness.kind.transcript = [row("assistant", "u9", content, id="m2", stop_reason="end_turn")]
    harness = await restarted(harness)
    await harness.until(lambda: harness.state().turn is None and not harness.loaded().supervisor.following)
    log = await harness.log()
    texts = [event for event in log if isinstance(event, ev.Text)]
    (end,) = [event for event in log if isinstance(event, ev.TurnEnded)]
    assert [text.text for text in texts] == ["before", "after"]
    assert {text.turn for text in texts} == {end.turn}
    await harness.stop()
