"""Scheduled and manual runs of agents: each run is a session, and its end is reported with its real outcome."""

from pathlib import Path
from typing import Any

import pytest

from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model import queries as q
from fairlead.model.errors import Busy, NotFound, OutsideRoots, Stale
from fairlead.model.ids import EventId, SessionId
from fairlead.model.store import Summary
from fairlead.notifications.api.cognova import AgentRun, ScheduledAgent
from fairlead.notifications.api.feed import Change
from notifications.harness import FakeGateway, NotificationsHarness, ended, open_harness

HOURLY = "0 * * * *"


async def added(harness: NotificationsHarness, **more: Any) -> ScheduledAgent:
    agent = ScheduledAgent(**{"id": "a", "name": "Tidy", "schedule": HOURLY, "prompt": "Tidy up."} | more)
    return await harness.service.resources.add(agent)


async def finish(harness: NotificationsHarness, session: SessionId, event: ev.Event) -> None:
    harness.service.committed(session, [event])
    await harness.service.runs.stop()
    await harness.service.sessions.stop()


async def agent_changes(harness: NotificationsHarness) -> list[tuple[str, str, Any]]:
    """Action, message and status of every change of an agent except creating and editing."""
    return [
        (change.action, change.message, (change.meta or {}).get("status"))
        for change in await harness.feed_items()
        if isinstance(change, Change) and change.resource == "agent" and change.action not in ("create", "edit")
    ]


async def only_run(harness: NotificationsHarness) -> AgentRun:
    (run,) = await harness.service.resources.list(AgentRun)
    return run


@pytest.mark.rules("S002-105", "S002-116", "S002-118")
async def test_an_agent_runs_on_time_as_a_session_with_its_limits(harness: NotificationsHarness) -> None:
    await added(harness, max_turns=7, max_budget_usd=0.5)
    await harness.clock.advance(3600)
    await harness.wait_fired()
    (create,), (send,) = harness.gateway.of(cmd.Create), harness.gateway.of(cmd.Send)
    assert (create.title, create.settings.max_turns, create.settings.max_budget_usd) == ("Tidy", 7, 0.5)
    assert (send.session, send.content[0].text) == (create.session, "Tidy up.")
    assert {scope for who in harness.gateway.who for scope in who.scopes} == {"view", "chat"}
    await finish(harness, create.session, ended(cost_usd=0.25, duration_ms=9))
    assert await agent_changes(harness) == [
        ("run", 'Agent "Tidy" was started', None),
        ("complete", 'Agent "Tidy" was completed', "success"),
    ]
    run = await only_run(harness)
    assert (run.status, run.cost_usd, run.duration_ms, run.session_id) == ("success", 0.25, 9, create.session)


async def test_it_runs_again_at_its_next_time_and_not_before(harness: NotificationsHarness) -> None:
    await added(harness)
    for hours in (1, 2):
        await harness.clock.advance(3600)
        await harness.wait_fired()
        (*_, create) = harness.gateway.of(cmd.Create)
        assert len(harness.gateway.of(cmd.Create)) == hours
        await finish(harness, create.session, ended())


async def test_a_scheduled_time_during_a_run_is_skipped(harness: NotificationsHarness) -> None:
    await added(harness)
    for _ in range(3):
        await harness.clock.advance(3600)
        await harness.wait_fired()
    (create,) = harness.gateway.of(cmd.Create)
    await finish(harness, create.session, ended())
    await harness.clock.advance(3600)
    await harness.wait_fired()
    assert len(harness.gateway.of(cmd.Create)) == 2


async def test_a_disabled_or_deleted_agent_does_not_run(harness: NotificationsHarness) -> None:
    await added(harness, id="off", enabled=False)
    await added(harness, id="gone")
    await harness.service.resources.remove(ScheduledAgent, "gone")
    await harness.clock.advance(7200)
    await harness.wait_fired()
    assert harness.gateway.commands == []


@pytest.mark.rules("S002-118", "S002-119")
@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (ended("failed", reason="it broke"), ("fail", "it broke", "error")),
        (ended("failed", reason="error_x", errors=("one", "two")), ("fail", "one; two", "error")),
        (ended("failed", reason="error_max_turns"), ("fail", "error_max_turns", "error")),
        (
            ended("failed", reason="error_max_budget_usd"),
            ("cancel", "It reached its budget.", "budget_exceeded"),
        ),
        (ended("cancelled"), ("cancel", 'Agent "Tidy" was cancelled', "cancelled")),
    ],
)
async def test_the_end_of_a_run_is_reported_with_its_outcome(
    harness: NotificationsHarness, event: ev.TurnEnded, expected: tuple[str, str, str]
) -> None:
    run = await harness.service.runs.run(await added(harness))
    await finish(harness, run.session_id, event)
    assert (await agent_changes(harness))[-1] == expected


async def test_a_run_that_cannot_be_started_fails_with_the_reason(harness: NotificationsHarness) -> None:
    harness.gateway.refuse[cmd.Create] = OutsideRoots("/elsewhere", ("/here",))
    await harness.service.runs.run(await added(harness, folder="/elsewhere"))
    action, message, status = (await agent_changes(harness))[-1]
    assert (action, status) == ("fail", "error") and "/elsewhere is outside" in message
    # The failed start does not block the next run.
    await harness.service.runs.run(await harness.service.resources.get(ScheduledAgent, "a"))


async def test_a_second_run_at_once_is_refused(harness: NotificationsHarness) -> None:
    agent = await added(harness)
    await harness.service.runs.run(agent)
    with pytest.raises(Busy):
        await harness.service.runs.run(agent)


@pytest.mark.rules("S002-117")
async def test_a_running_agent_is_interrupted_and_reported_as_cancelled_when_it_ends(
    harness: NotificationsHarness,
) -> None:
    agent = await added(harness)
    run = await harness.service.runs.run(agent)
    harness.gateway.refuse[cmd.CancelMessage] = Stale("it is not queued any more")
    assert await harness.service.runs.cancel(agent) == 1
    assert len(harness.gateway.of(cmd.Interrupt)) == 1
    assert (await agent_changes(harness))[-1][0] == "run"
    await finish(harness, run.session_id, ended("failed", reason="error_during_execution"))
    assert (await agent_changes(harness))[-1][0] == "cancel"


async def test_a_run_that_finished_before_the_cancel_is_complete(harness: NotificationsHarness) -> None:
    agent = await added(harness)
    run = await harness.service.runs.run(agent)
    harness.gateway.refuse[cmd.CancelMessage] = Stale("gone")
    harness.gateway.refuse[cmd.Interrupt] = Stale("nothing runs")
    await harness.service.runs.cancel(agent)
    await finish(harness, run.session_id, ended("completed"))
    assert (await agent_changes(harness))[-1][0] == "complete"


async def test_a_run_that_still_waits_is_withdrawn(harness: NotificationsHarness) -> None:
    agent = await added(harness)
    await harness.service.runs.run(agent)
    await harness.service.runs.cancel(agent)
    assert harness.gateway.of(cmd.Interrupt) == []
    assert (await agent_changes(harness))[-1][0] == "cancel"
    with pytest.raises(NotFound):
        await harness.service.runs.cancel(agent)


async def test_deleting_the_agent_or_its_session_ends_the_run(harness: NotificationsHarness) -> None:
    await added(harness)
    run = await harness.service.runs.run(await harness.service.resources.get(ScheduledAgent, "a"))
    harness.service.session_changed(run.session_id, "deleted")
    await harness.service.runs.stop()
    assert (await agent_changes(harness))[-1][0] == "cancel"
    await harness.service.runs.run(await harness.service.resources.get(ScheduledAgent, "a"))
    await harness.service.resources.remove(ScheduledAgent, "a")
    await harness.service.runs.stop()
    assert [action for action, _, _ in await agent_changes(harness)][-2:] == ["delete", "cancel"]


def view(session: SessionId, turn: str | None) -> q.SessionView:
    return q.SessionView(summary=Summary(session=session), log_id="l", head=1, turn=turn)


@pytest.mark.parametrize(
    ("turn", "events", "status"),
    [
        (None, (), "cancelled"),
        (None, (ended("completed"),), "success"),
        (None, (ended("failed", reason="gateway lost"),), "error"),
        ("t1", (), "running"),
    ],
)
async def test_a_run_left_by_a_stopped_gateway_ends_as_recorded_in_its_log(
    tmp_path: Path, turn: str | None, events: tuple[ev.Event, ...], status: str
) -> None:
    async with open_harness(tmp_path) as harness:
        run = await harness.service.runs.run(await added(harness))
    gateway = FakeGateway()
    gateway.views[run.session_id] = view(run.session_id, turn)
    gateway.events[run.session_id] = events
    async with open_harness(tmp_path, gateway) as harness:
        assert (await only_run(harness)).status == status
        if status == "running":
            await finish(harness, run.session_id, ended())
            assert (await only_run(harness)).status == "success"


async def test_a_run_whose_session_is_gone_is_cancelled_at_the_start(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.service.runs.run(await added(harness))
        await harness.service.resources.remove(ScheduledAgent, "a")

    class Empty(FakeGateway):
        async def ask(self, who: Any, query: q.Query) -> Any:
            raise NotFound("session", "x")

    async with open_harness(tmp_path, Empty()) as harness:
        assert (await only_run(harness)).status == "cancelled"


async def test_events_of_other_sessions_end_nothing(harness: NotificationsHarness) -> None:
    run = await harness.service.runs.run(await added(harness))
    await finish(harness, SessionId("other"), ended())
    await finish(harness, run.session_id, ev.TurnStarted(id=EventId("e")))
    assert (await only_run(harness)).status == "running"


async def test_times_missed_by_a_stopped_gateway_are_not_made_up(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        await added(harness)
    async with open_harness(tmp_path) as harness:
        # The clock of the second gateway starts at the same time: it must also wait for the full hour.
        await harness.clock.advance(60)
        await harness.wait_fired()
        assert harness.gateway.commands == []


async def test_a_cancel_before_the_session_exists_is_not_lost(tmp_path: Path) -> None:
    class Early(FakeGateway):
        async def command(self, who: Any, command: cmd.Command) -> cmd.Reply:
            if isinstance(command, cmd.Create):
                for kind in (cmd.CancelMessage, cmd.Interrupt):
                    self.refuse[kind] = NotFound("session", "x")
                await harness.service.runs.cancel(await harness.service.resources.get(ScheduledAgent, "a"))
            return await super().command(who, command)

    async with open_harness(tmp_path, Early()) as harness:
        await harness.service.runs.run(await added(harness))
        assert (await only_run(harness)).status == "cancelled"
