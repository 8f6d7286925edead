"""A restarted gateway takes over the agents that the keeper held: the turn, the requests and the queue go on."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from fairlead.agents.claude.wire.markers import TypedPrompt, encode_marker
from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.agents import Exit, ProcessInfo, Record
from fairlead.model.content import Content, to_wire
from fairlead.model.ids import MessageId, RequestId
from fairlead.model.store import OutputPosition
from fairlead.sessions.dependencies import CoreDependencies
from patience import settled
from sessions.harness import SESSION, CoreHarness, FakeAgent


async def keeping(folder: Path) -> CoreHarness:
    harness = CoreHarness(folder)
    harness.kind.keeps = True
    return await harness.start()


async def restarted(old: CoreHarness, *, crash: bool = True) -> CoreHarness:
    if crash:
        await old.crash()
    else:
        await old.registry.stop(detach=True)
        await old.store.close()
    new = CoreHarness(old.folder)
    new.kind = old.kind
    return await new.start()


async def adopted(harness: CoreHarness, number: int = 2) -> FakeAgent:
    agent = await harness.kind.launched(number)
    await harness.until(lambda: harness.loaded().supervisor.agent is agent)
    return agent


async def test_a_turn_goes_on_in_the_same_process_after_a_crash(tmp_path: Path) -> None:
    first = await keeping(tmp_path)
    agent = await first.working()
    await agent.text("one")
    second = await restarted(first)
    again = await adopted(second)
    assert again.pid == agent.pid
    await again.text("two")
    await again.result()
    kinds = await second.kinds()
    assert kinds.count("agent.started") == kinds.count("turn.started") == kinds.count("turn.ended") == 1
    assert not second.kind.followed
    await second.stop()


async def test_the_position_and_the_lines_to_recall_come_back(tmp_path: Path) -> None:
    first = await keeping(tmp_path)
    agent = await first.working()
    await agent.sink.records([], OutputPosition(120, (b"a", b"b")))
    await agent.sink.records([], OutputPosition(340))
    second = await restarted(first)
    await adopted(second)
    ((_, stored),) = second.kind.adopted
    assert (stored.offset, stored.recall) == (340, (b"a", b"b"))
    await second.stop()


async def test_the_position_of_an_earlier_process_is_not_used(tmp_path: Path) -> None:
    first = await keeping(tmp_path)
    agent = await first.working()
    await agent.sink.records([], OutputPosition(120, (b"a",)))
    await agent.result()
    first.kind.at_keeper.clear()
    await agent.die(Exit(code=0))
    await first.send("again")
    await (await first.kind.launched(2)).prompted()
    second = await restarted(first)
    await adopted(second, 3)
    ((_, stored),) = second.kind.adopted
    assert (stored.offset, stored.recall) == (0, ())
    await second.stop()


async def test_a_pending_request_stays_and_is_answered_after_the_restart(tmp_path: Path) -> None:
    first = await keeping(tmp_path)
    agent = await first.working()
    await agent.call("c1", "Write", file_path="/elsewhere", content="x")
    await agent.ask("r1", "c1", "Write", file_path="/elsewhere", content="x")
    second = await restarted(first)
    again = await adopted(second)
    assert await again.sink.request_state(RequestId("r1")) == "pending"
    await second.do(cmd.AnswerPermission(session=SESSION, request=RequestId("r1"), behavior="allow"))
    ((request, decision),) = again.answers
    assert (request, decision.behavior) == ("r1", "allow")
    assert "permission.cancelled" not in await second.kinds()
    await second.stop()


async def test_an_answer_before_the_adoption_waits_for_it(tmp_path: Path) -> None:
    first = await keeping(tmp_path)
    agent = await first.working()
    await agent.call("c1", "Write", file_path="/elsewhere", content="x")
    await agent.ask("r1", "c1", "Write", file_path="/elsewhere", content="x")
    second = await restarted(first)
    # Nothing was awaited since the start: the agent is not adopted yet.
    assert second.loaded().supervisor.agent is None
    await second.do(cmd.AnswerPermission(session=SESSION, request=RequestId("r1"), behavior="allow"))
    again = await adopted(second)
    assert [request for request, _ in again.answers] == ["r1"]
    assert "permission.cancelled" not in await second.kinds()
    await second.stop()


async def test_a_decision_before_the_crash_is_known_after_it(tmp_path: Path) -> None:
    first = await keeping(tmp_path)
    agent = await first.working()
    await agent.call("c1", "Write", file_path="/elsewhere", content="x")
    await agent.ask("r1", "c1", "Write", file_path="/elsewhere", content="x")
    await first.do(cmd.AnswerPermission(session=SESSION, request=RequestId("r1"), behavior="deny", message="no"))
    second = await restarted(first)
    again = await adopted(second)
    known = await again.sink.request_state(RequestId("r1"))
    assert isinstance(known, ev.PermissionResolved)
    assert (known.behavior, known.message) == ("deny", "no")
    assert await again.sink.request_state(RequestId("r2")) == "unknown"
    await second.stop()


async def test_the_prompt_of_an_open_turn_is_written_again(tmp_path: Path) -> None:
    """The gateway may have died between its append and its write; the keeper drops what the agent has got."""
    first = await keeping(tmp_path)
    agent = await first.working("first")
    await agent.result()
    await first.send("second")
    await agent.prompted()
    second = await restarted(first)
    again = await adopted(second)
    assert await again.prompted() == "second"
    await settled()
    assert [record.raw for record in again.written] == [agent.written[-1].raw]
    await second.stop()


async def test_a_typed_prompt_is_written_again_only_until_the_transcript_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def typed(content: Sequence[Content], message: MessageId, agent_session: str) -> Record:
        return Record(encode_marker(TypedPrompt(uuid=message, content=to_wire(tuple(content)))), "gateway")

    first = await keeping(tmp_path)
    agent = await first.working()
    await agent.result()
    monkeypatch.setattr(first.kind, "prompt", typed)
    await first.send("hello")
    await first.until(lambda: len(agent.written) == 2)
    second = await restarted(first)
    again = await adopted(second)
    await second.until(lambda: bool(again.written))
    row = {"type": "user", "uuid": "u1", "message": {"role": "user", "content": "hello"}}
    await again.sink.records([Record(msgspec.json.encode(row), "transcript")])
    second.kind.at_keeper[again.pid] = again
    third = await restarted(second)
    last = await adopted(third, 3)
    await third.until(lambda: not third.loaded().supervisor.following)
    assert not last.written
    await third.stop()


async def test_a_finished_turn_leaves_nothing_to_write_again(tmp_path: Path) -> None:
    first = await keeping(tmp_path)
    agent = await first.working()
    await agent.result()
    second = await restarted(first)
    again = await adopted(second)
    await settled()
    assert not again.written
    await second.send("next")
    assert await again.prompted() == "next"
    await second.stop()


async def test_an_interrupt_of_the_open_turn_is_sent_again_with_its_key(tmp_path: Path) -> None:
    first = await keeping(tmp_path)
    agent = await first.working()
    await first.do(cmd.Interrupt(session=SESSION))
    second = await restarted(first)
    again = await adopted(second)
    await second.until(lambda: bool(again.interrupt_keys))
    assert again.interrupt_keys == agent.interrupt_keys != [""]
    await second.stop()


async def test_a_detached_agent_is_not_ended_and_nothing_is_logged(tmp_path: Path) -> None:
    first = await keeping(tmp_path)
    agent = await first.working()
    before = await first.kinds()
    second = await restarted(first, crash=False)
    assert agent.released and not agent.stopping.is_set()
    again = await adopted(second)
    assert await second.kinds() == before
    await again.result()
    assert "turn.ended" in await second.kinds()
    await second.stop()


async def test_a_stop_that_ends_agents_ends_kept_ones_too(tmp_path: Path) -> None:
    first = await keeping(tmp_path)
    agent = await first.working()
    await first.stop()
    assert agent.stopping.is_set() and not agent.released


async def test_a_process_that_the_keeper_has_lost_is_followed(tmp_path: Path) -> None:
    first = await keeping(tmp_path)
    await first.working()
    first.kind.at_keeper.clear()
    second = await restarted(first)
    await second.until(lambda: bool(second.kind.followed))
    await second.until(lambda: not second.loaded().supervisor.following)
    kinds = await second.kinds()
    assert kinds[-2:] == ["turn.ended", "agent.exited"]
    await second.stop()


async def test_a_start_that_is_not_in_the_log_is_logged_by_the_next_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway died after it had recorded the process, and before it had logged the start."""
    first = await keeping(tmp_path)
    recorded = asyncio.Event()
    remember = CoreDependencies.remember_child

    async def remember_and_die(services: CoreDependencies, child: ProcessInfo) -> None:
        await remember(services, child)
        recorded.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(CoreDependencies, "remember_child", remember_and_die)
    await first.open()
    await first.send("hello")
    await recorded.wait()
    second = await restarted(first)
    again = await adopted(second, 1)
    assert await again.prompted() == "hello"
    kinds = await second.kinds()
    assert kinds.index("agent.started") < kinds.index("turn.started")
    assert kinds.count("agent.started") == 1
    await second.stop()


async def test_an_exit_that_is_in_the_log_is_not_logged_twice(tmp_path: Path) -> None:
    """The gateway died after it had logged the exit, and before it had deleted the record of the process."""
    first = await keeping(tmp_path)
    agent = await first.working()
    (child,) = await first.services.children()
    await agent.die(Exit(code=0))
    await first.services.remember_child(child)
    second = await restarted(first)
    await second.until(lambda: second.registry.loaded(SESSION) is not None)
    await second.until(lambda: not second.loaded().supervisor.following)
    assert (await second.kinds()).count("agent.exited") == 1
    assert not second.kind.adopted
    assert await second.services.children() == []
    await second.stop()


async def test_when_the_keeper_dies_the_process_is_followed_to_its_end(tmp_path: Path) -> None:
    harness = await keeping(tmp_path)
    agent = await harness.working()
    harness.kind.follow_until.clear()
    await agent.sink.keeper_lost()
    await harness.until(lambda: bool(harness.kind.followed))
    assert harness.loaded().supervisor.agent is None
    ((child, _),) = harness.kind.followed
    assert child.pid == agent.pid
    harness.kind.follow_until.set()
    await harness.until(lambda: not harness.loaded().supervisor.following)
    await harness.send("next")
    await (await harness.kind.launched(2)).prompted()
    await harness.stop()
