"""A session moves to another link: when it moves, what it waits for, what waits for it, and which events report it."""

import asyncio
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.agents import Exit, Record
from fairlead.model.errors import AgentMissing, AgentNotRunning, Busy, NotFound, OutsideRoots, Stale
from fairlead.model.queries import GetSession
from fairlead.sessions.process.handover import CUT_OFF_S
from sessions.harness import ANN, BOB, CHILD, SESSION, CoreHarness, FakeAgent
from sessions.test_restart import restarted, row

T = TypeVar("T")

MOVED = {"state": "moved", "link": "terminal"}


async def to(harness: CoreHarness, link: str = "terminal", **fields: Any) -> cmd.Reply:
    return await harness.do(msgspec.convert({"session": SESSION, "link": link, **fields}, cmd.StartHandover))


async def idle(harness: CoreHarness) -> FakeAgent:
    """Run one turn to its end; the process stays."""
    agent = await harness.working("one")
    await agent.result()
    return agent


async def of_kind(harness: CoreHarness, kind: type[T]) -> list[T]:
    return [event for event in await harness.log() if isinstance(event, kind)]


async def settled(harness: CoreHarness) -> ev.HandoverSettled:
    await harness.until(lambda: harness.state().handover is None and not harness.loaded().supervisor.starting.locked())
    return (await of_kind(harness, ev.HandoverSettled))[-1]


def live(harness: CoreHarness) -> list[FakeAgent]:
    return [agent for agent in harness.kind.agents if not agent.gone]


# --- idle -----------------------------------------------------------------------------------------------


async def test_an_idle_session_moves_at_once_and_continues_with_its_history(harness: CoreHarness) -> None:
    old = await idle(harness)
    reply = await to(harness)
    assert reply.data == MOVED
    new = await harness.kind.launched(2)
    assert old.gone and live(harness) == [new]
    assert (new.launch.settings.link, new.launch.resume) == ("terminal", SESSION)
    after = (await harness.kinds())[(await harness.kinds()).index("turn.ended") + 1 :]
    assert after == [
        "handover.asked",
        "agent.exited",
        "session.changed",
        "session.resumed",
        "agent.started",
        "handover.settled",
    ]
    (exited,) = await of_kind(harness, ev.AgentExited)
    assert (exited.expected, exited.reason) == (True, "handed over to terminal")
    assert [end.status for end in await of_kind(harness, ev.TurnEnded)] == ["completed"]
    await harness.send("two")
    assert await new.prompted() == "two"


async def test_a_session_moves_back_again(harness: CoreHarness) -> None:
    await idle(harness)
    await to(harness)
    assert (await to(harness, "stdio")).data == {"state": "moved", "link": "stdio"}
    assert [agent.launch.settings.link for agent in harness.kind.agents] == ["stdio", "terminal", "stdio"]
    assert len(live(harness)) == 1


async def test_a_session_without_a_process_gets_one_on_the_new_link(harness: CoreHarness) -> None:
    await harness.open()
    assert (await to(harness)).data == MOVED
    (agent,) = harness.kind.agents
    assert (agent.launch.settings.link, agent.launch.resume) == ("terminal", "")


async def test_a_handover_to_the_current_link_does_nothing(harness: CoreHarness) -> None:
    await idle(harness)
    before = await harness.kinds()
    assert (await to(harness, "stdio")).data == {"state": "there", "link": "stdio"}
    assert await harness.kinds() == before


async def test_a_configured_link_that_is_not_in_use_yet_is_used_now(harness: CoreHarness) -> None:
    await idle(harness)
    await harness.do(cmd.Configure(session=SESSION, settings=cmd.Settings(link="terminal")))
    assert (await to(harness)).data == MOVED
    assert (await harness.kind.launched(2)).launch.settings.link == "terminal"


async def test_a_handover_cancels_the_invitation(harness: CoreHarness) -> None:
    await harness.open()
    await harness.do(cmd.DialIn(session=SESSION))
    assert (await to(harness)).data == MOVED
    assert harness.kind.guests[0].called_off


async def test_a_message_to_a_session_in_a_terminal_does_not_move_it(harness: CoreHarness) -> None:
    await idle(harness)
    await to(harness)
    terminal = await harness.kind.launched(2)
    await harness.send("from the phone")
    assert await terminal.prompted() == "from the phone"
    assert harness.state().settings.link == "terminal" and len(harness.kind.agents) == 2


async def test_a_handover_with_a_key_is_done_once(harness: CoreHarness) -> None:
    await idle(harness)
    await to(harness, key="k")
    again = await to(harness, key="k")
    assert again.repeated and len(harness.kind.agents) == 2


# --- in a turn ------------------------------------------------------------------------------------------


@pytest.mark.rules("S001-012")
async def test_in_a_turn_it_waits_for_the_end_and_runs_before_the_queue(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await harness.send("two")
    reply = await to(harness)
    assert reply.data == {"state": "waiting", "link": "terminal", "waits_for": ["a running turn"]}
    (asked,) = await of_kind(harness, ev.HandoverRequested)
    assert (asked.by, asked.when, asked.waits_for) == ("ann", "turn_end", ("a running turn",))
    await harness.send("three")
    await agent.result()
    terminal = await harness.kind.launched(2)
    assert await terminal.prompted() == "two"
    assert len(agent.written) == 1
    assert (await settled(harness)).outcome == "moved"
    (end,) = await of_kind(harness, ev.TurnEnded)
    assert end.status == "completed"
    await terminal.result()
    assert await terminal.prompted() == "three"


async def test_without_waiting_it_is_refused_with_the_running_work(harness: CoreHarness) -> None:
    await harness.working("one")
    with pytest.raises(Busy, match="a running turn") as refused:
        await to(harness, wait=False)
    assert refused.value.data["waits_for"] == ["a running turn"]
    assert "handover.asked" not in await harness.kinds()


async def test_an_open_request_counts_as_a_turn(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await agent.call("c1", command="touch x")
    await agent.ask("r1", "c1", command="touch x")
    waits_for = ["a running turn", "a request that waits for an answer (Bash)"]
    assert (await to(harness)).data["waits_for"] == waits_for
    assert harness.state().phase == "waiting"


async def test_background_work_is_waited_for_by_name(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    task = {"task_id": "b1", "task_type": "local_bash", "description": "npm run dev"}
    changed = {"type": "system", "subtype": "background_tasks_changed", "session_id": SESSION}
    await agent.say({**changed, "uuid": "u1", "tasks": [task]})
    await agent.result()
    reply = await to(harness)
    assert reply.data["waits_for"] == ["background work (npm run dev)"]
    with pytest.raises(Busy, match="npm run dev"):
        await to(harness, wait=False)
    # Messages are not held back meanwhile, because background work may never end.
    await harness.send("two")
    assert await agent.prompted() == "two"
    await agent.result()
    await agent.say({**changed, "uuid": "u2", "tasks": []})
    await harness.kind.launched(2)
    assert (await settled(harness)).outcome == "moved"


@pytest.mark.rules("S001-012", "S001-022", "S001-136")
async def test_now_interrupts_the_turn_and_moves_when_the_agent_has_ended_it(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await agent.call("c1", command="sleep 9")
    moving = asyncio.create_task(to(harness, when="now"))
    await harness.until(lambda: ("interrupt", None) in agent.requests)
    await agent.result(subtype="error_during_execution", is_error=True)
    assert (await moving).data == MOVED
    (end,) = await of_kind(harness, ev.TurnEnded)
    assert end.status == "cancelled"
    kinds = await harness.kinds()
    order = [kinds.index(kind) for kind in ("interrupt.asked", "tool.ended", "turn.ended", "agent.exited")]
    assert order == sorted(order)
    assert [event.status for event in await of_kind(harness, ev.ToolEnded)] == ["interrupted"]


@pytest.mark.rules("S001-012", "S001-128")
async def test_now_stops_an_agent_that_ignores_the_interrupt(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await agent.call("c1", command="sleep 9")
    await agent.ask("r1", "c1", command="sleep 9")
    moving = asyncio.create_task(to(harness, when="now"))
    await harness.until(lambda: ("interrupt", None) in agent.requests)
    await harness.until(lambda: harness.clock.waiting > 1)
    await harness.clock.advance(CUT_OFF_S)
    assert (await moving).data == MOVED
    (end,) = await of_kind(harness, ev.TurnEnded)
    assert (end.status, end.closed) == ("cancelled", ("c1",))
    assert [event.status for event in await of_kind(harness, ev.ToolEnded)] == ["interrupted"]
    assert harness.state().pending == ()
    (exited,) = await of_kind(harness, ev.AgentExited)
    assert exited.expected


async def test_now_with_only_background_work_ends_it(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    changed = {"type": "system", "subtype": "background_tasks_changed", "session_id": SESSION}
    await agent.say({**changed, "uuid": "u1", "tasks": [{"task_id": "b1", "description": "npm run dev"}]})
    await agent.result()
    assert (await to(harness, when="now")).data == MOVED
    assert [end.status for end in await of_kind(harness, ev.TurnEnded)] == ["completed"]


async def test_now_replaces_a_handover_that_waits(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await to(harness)
    moving = asyncio.create_task(to(harness, "dial-in", when="now"))
    await harness.until(lambda: ("interrupt", None) in agent.requests)
    await agent.result(is_error=True)
    assert (await moving).data == {"state": "moved", "link": "dial-in"}
    assert len(harness.kind.agents) == 2


async def test_a_turn_that_begins_while_the_process_is_stopped_is_cancelled(harness: CoreHarness) -> None:
    """In a terminal a person may type at any moment."""
    agent = await idle(harness)
    agent.stop_when.clear()
    moving = asyncio.create_task(to(harness))
    await agent.stopping.wait()
    await agent.text("I begin by myself")
    agent.stop_when.set()
    assert (await moving).data == MOVED
    assert [end.status for end in await of_kind(harness, ev.TurnEnded)] == ["completed", "cancelled"]


# --- withdrawn ------------------------------------------------------------------------------------------


async def test_a_waiting_handover_is_shown_and_can_be_withdrawn(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await to(harness)
    view = await harness.gateway.ask(ANN, GetSession(SESSION))
    assert (view.handover.link, view.handover.by, view.handover.waits_for) == ("terminal", "ann", ("a running turn",))
    reply = await harness.do(cmd.WithdrawHandover(session=SESSION), BOB)
    assert reply.data == {"state": "there", "link": "stdio"}
    event = await settled(harness)
    assert (event.outcome, event.by, event.link) == ("withdrawn", "bob", "stdio")
    await agent.result()
    await harness.send("two")
    assert await agent.prompted() == "two"
    assert len(harness.kind.agents) == 1
    with pytest.raises(NotFound):
        await harness.do(cmd.WithdrawHandover(session=SESSION))


async def test_a_handover_to_the_current_link_withdraws_the_waiting_one(harness: CoreHarness) -> None:
    await harness.working("one")
    await to(harness)
    assert (await to(harness, "stdio")).data["state"] == "there"
    assert (await settled(harness)).outcome == "withdrawn"


async def test_closing_the_session_withdraws_it(harness: CoreHarness) -> None:
    await harness.working("one")
    await to(harness)
    await harness.do(cmd.Close(session=SESSION))
    assert ((await settled(harness)).outcome, live(harness), harness.state().phase) == ("withdrawn", [], "closed")


async def test_a_handover_in_progress_cannot_be_changed(harness: CoreHarness) -> None:
    old = await idle(harness)
    old.stop_when.clear()
    moving = asyncio.create_task(to(harness))
    await old.stopping.wait()
    with pytest.raises(Stale):
        await harness.do(cmd.WithdrawHandover(session=SESSION))
    with pytest.raises(Busy):
        await to(harness, "dial-in")
    await harness.send("two")
    old.stop_when.set()
    assert (await moving).data == MOVED
    assert await (await harness.kind.launched(2)).prompted() == "two"
    assert len(old.written) == 1


# --- failures ---------------------------------------------------------------------------------------------


async def test_if_the_new_link_does_not_start_the_old_one_continues(harness: CoreHarness) -> None:
    await idle(harness)
    harness.kind.failures = [AgentMissing("There is no claude.")]
    with pytest.raises(AgentMissing, match="no claude"):
        await to(harness)
    event = await settled(harness)
    assert (event.outcome, event.link, event.reason) == ("failed", "stdio", "There is no claude.")
    (failure,) = await of_kind(harness, ev.ErrorRaised)
    assert failure.code == "agent_missing" and "terminal" in failure.message
    again = await harness.kind.launched(2)
    assert (again.launch.settings.link, again.launch.resume) == ("stdio", SESSION)
    await harness.send("two")
    assert await again.prompted() == "two"


async def test_if_nothing_starts_the_next_message_tries_again(harness: CoreHarness) -> None:
    await idle(harness)
    harness.kind.failures = [AgentNotRunning("refused"), AgentNotRunning("neither")]
    with pytest.raises(AgentNotRunning, match="refused"):
        await to(harness)
    assert [failure.message for failure in await of_kind(harness, ev.ErrorRaised)][-1] == "neither"
    await harness.send("two")
    again = await harness.kind.launched(2)
    assert (again.launch.settings.link, await again.prompted()) == ("stdio", "two")


async def test_a_handover_that_waited_and_failed_is_reported_too(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await to(harness)
    harness.kind.failures = [AgentNotRunning("refused")]
    await agent.result()
    assert (await settled(harness)).outcome == "failed"
    assert (await harness.kind.launched(2)).launch.settings.link == "stdio"


async def test_a_folder_outside_the_roots_gets_no_process(tmp_path: Path) -> None:
    harness = await CoreHarness(tmp_path).start()
    await harness.open()
    await harness.stop()
    (tmp_path / "elsewhere").mkdir()
    other = await CoreHarness(tmp_path, roots=(str(tmp_path / "elsewhere"),)).start()
    with pytest.raises(OutsideRoots):
        await to(other)
    await other.stop()


# --- deaths and restarts ------------------------------------------------------------------------------------


@pytest.mark.rules("S001-023", "S001-136")
async def test_an_agent_that_dies_in_its_turn_lets_the_handover_proceed(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await to(harness)
    await agent.die(Exit(code=3))
    await harness.kind.launched(2)
    assert (await settled(harness)).outcome == "moved"
    (end,) = await of_kind(harness, ev.TurnEnded)
    assert end.status == "failed"


async def test_a_waiting_handover_survives_a_restart(tmp_path: Path) -> None:
    harness = await CoreHarness(tmp_path).start()
    await harness.working("one")
    await to(harness)
    harness.kind.follow_until.clear()
    harness = await restarted(harness)
    assert harness.loaded().handovers.waits_for("now")
    assert harness.state().handover is not None
    harness.kind.follow_until.set()
    terminal = await harness.kind.launched(2)
    assert terminal.launch.settings.link == "terminal"
    assert (await settled(harness)).outcome == "moved"
    await harness.stop()


async def test_a_gateway_that_died_in_a_handover_continues_it(tmp_path: Path) -> None:
    """The old process is stopped and the new one is not started yet."""
    harness = await CoreHarness(tmp_path).start()
    await idle(harness)
    harness.kind.launch_when.clear()
    moving = asyncio.create_task(to(harness))
    await harness.until(lambda: harness.state().settings.link == "terminal")
    moving.cancel()
    dispatching = harness.loaded().supervisor._dispatching
    assert dispatching is not None
    dispatching.cancel()
    await asyncio.wait({moving, dispatching})
    harness.kind.launch_when.set()
    harness = await restarted(harness)
    terminal = await harness.kind.launched(2)
    assert (terminal.launch.settings.link, terminal.launch.resume) == ("terminal", SESSION)
    assert (await settled(harness)).outcome == "moved"
    await harness.stop()


async def test_a_stopped_gateway_fails_the_waiting_caller_and_hands_over_after_its_restart(tmp_path: Path) -> None:
    harness = await CoreHarness(tmp_path).start()
    await idle(harness)
    harness.kind.launch_when.clear()
    moving = asyncio.create_task(to(harness))
    await harness.until(lambda: harness.state().settings.link == "terminal")
    await harness.stop()
    with pytest.raises(Exception, match="hands over when it is back"):
        await moving
    harness.kind.launch_when.set()
    again = CoreHarness(tmp_path)
    again.kind = harness.kind
    await again.start()
    assert (await again.kind.launched(2)).launch.settings.link == "terminal"
    await settled(again)
    await again.stop()


async def test_a_fork_does_not_inherit_the_waiting_handover(harness: CoreHarness) -> None:
    agent = await idle(harness)
    await harness.send("two")
    await agent.prompted()
    await to(harness)
    first = (await of_kind(harness, ev.UserMessage))[0].message
    await harness.do(cmd.Fork(session=SESSION, child=CHILD, at=first))
    assert harness.state(CHILD).handover is None


# --- one conversation, two sources ---------------------------------------------------------------------------


@pytest.mark.rules("S001-109")
async def test_wire_records_are_not_repeated_from_the_transcript_after_a_handover(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await agent.text("said once", "m1")
    await agent.result()
    wire = [entry for entry in (await harness.store.read(SESSION, 0, 1000)).entries if entry.raw and entry.origin]
    kept = [msgspec.json.decode(entry.raw or b"") for entry in wire]
    prompt = next(record["uuid"] for record in kept if record["type"] == "user")
    answer = next(record["uuid"] for record in kept if record["type"] == "assistant")
    await to(harness)
    terminal = await harness.kind.launched(2)
    content = [{"type": "text", "text": "said once"}]
    rows = [
        row("user", prompt, "one"),
        row("assistant", answer, content, id="m1", stop_reason="end_turn", model="opus"),
        row("user", "t1", "typed at the desk"),
        row("assistant", "t2", [{"type": "text", "text": "yes"}], id="m2", stop_reason="end_turn", model="opus"),
    ]
    await terminal.sink.records([Record(raw, "transcript") for raw in rows])
    assert [event.text for event in await of_kind(harness, ev.Text)] == ["said once", "yes"]
    assert len(await of_kind(harness, ev.UserMessage)) == len(await of_kind(harness, ev.TurnStarted)) == 2
    ids = [event.id for event in await harness.log()]
    assert len(ids) == len(set(ids))


# --- settings that this link cannot change by request ----------------------------------------------------------


async def test_settings_that_need_a_restart_are_not_sent_to_the_agent(harness: CoreHarness) -> None:
    await harness.open(settings=cmd.Settings(link="terminal"))
    await harness.send("one")
    terminal = await harness.kind.launched()
    await terminal.prompted()
    await terminal.ready()
    await harness.do(cmd.SetMode(session=SESSION, mode="acceptEdits"))
    await harness.do(cmd.SetModel(session=SESSION, model="haiku"))
    await harness.do(cmd.SetThinking(session=SESSION, budget=1000))
    assert terminal.requests == []
    assert {"mode.changed", "model.changed", "thinking.changed"} <= set(await harness.kinds())
    await terminal.result()
    await harness.send("two")
    again = await harness.kind.launched(2)
    settings = again.launch.settings
    assert (settings.mode, settings.model, settings.thinking) == ("acceptEdits", "haiku", 1000)
    assert again.launch.resume == SESSION and await again.prompted() == "two"


async def test_a_mode_that_the_agent_went_into_by_itself_needs_no_restart(harness: CoreHarness) -> None:
    await harness.open(settings=cmd.Settings(link="terminal"))
    await harness.send("one")
    terminal = await harness.kind.launched()
    await terminal.prompted()
    await terminal.ready()
    await terminal.say({"type": "system", "subtype": "status", "status": None, "permissionMode": "plan", "uuid": "s1"})
    assert harness.state().settings.mode == "plan"
    await terminal.result()
    await harness.send("two")
    assert await terminal.prompted() == "two"


async def test_a_change_by_request_is_sent_even_if_another_setting_needs_a_restart(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await harness.do(cmd.Configure(session=SESSION, settings=cmd.Settings(directories=(str(harness.cwd),))))
    await harness.do(cmd.SetModel(session=SESSION, model="haiku"))
    assert agent.requests == [("model", "haiku")]


async def test_the_caller_gets_a_reply_when_another_user_withdraws_the_handover(harness: CoreHarness) -> None:
    harness.kind.launch_when.clear()
    await harness.open()
    await harness.send("one")
    await harness.until(lambda: harness.loaded().supervisor.starting.locked())
    moving = asyncio.create_task(to(harness))
    await harness.until(lambda: harness.state().handover is not None)
    await harness.do(cmd.WithdrawHandover(session=SESSION))
    assert (await moving).data == {"state": "there", "link": "stdio"}
    harness.kind.launch_when.set()
    assert await (await harness.kind.launched()).prompted() == "one"


async def test_the_caller_gets_a_reply_when_a_turn_begins_before_the_move(harness: CoreHarness) -> None:
    await harness.open()
    await harness.send("one")
    agent = await harness.kind.launched()
    await agent.prompted()
    await agent.result()
    async with harness.loaded().supervisor.starting:
        moving = asyncio.create_task(to(harness))
        await harness.until(lambda: harness.state().handover is not None)
        await agent.text("I go on by myself")
        assert (await moving).data["state"] == "waiting"
    await agent.result()
    assert (await settled(harness)).outcome == "moved"
