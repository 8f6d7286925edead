"""Reminders and scheduled agents on several nodes: each rings once, whichever node believes to lead."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cell import Cell, CellStore
from fairlead.model import commands as cmd
from fairlead.model.errors import NotFound
from fairlead.notifications.api.cognova import AgentRun, Reminder, ScheduledAgent
from fairlead.notifications.api.feed import Change
from fairlead.notifications.resources import Resources
from fairlead.notifications.service import NotificationService
from fairlead_testing.clock import ManualClock
from notifications.harness import ANN, FakeGateway, NotificationsHarness, RestClock


class Node:
    """The notifications of one node. `leads` is what it believes."""

    def __init__(self, folder: Path, store: CellStore, number: int) -> None:
        self.store = store
        self.gateway = FakeGateway()
        self.clock = RestClock()
        self.leads = number == 0
        self._numbers = iter(range(number * 100_000 + 1, number * 100_000 + 100_000))
        store.cell_peers.leads = lambda: self.leads  # type: ignore[method-assign]
        helper = NotificationsHarness(folder, store, self.clock, self.gateway)
        self.service = NotificationService(
            store.resources,
            store.documents,
            lambda: self.gateway,
            folder,
            self.clock,
            fresh=lambda: f"00000000-0000-4000-8000-{next(self._numbers):012d}",
            describe=helper._describe,
            caller=helper.caller(),
            who_is=lambda credential: ANN,
            peers=store.peers,
        )

    @property
    def resources(self) -> Resources:
        return self.service.resources

    async def ring(self) -> None:
        """Fire what is due."""
        self.service.scheduler._look()
        ringing = self.service.scheduler._ringing
        assert ringing is not None
        await asyncio.wait({ringing})


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[list[Node]]:
    cell = Cell(tmp_path)
    made = [Node(tmp_path, await cell.open(name), number) for number, name in enumerate(("one", "two"))]
    for node in made:
        await node.service.begin()
        await node.service.start()
    yield made
    for node in made:
        await node.service.stop()
        await node.store.close()


async def advance(nodes: list[Node], seconds: float) -> None:
    for node in nodes:
        assert isinstance(node.clock, ManualClock)
        await node.clock.advance(seconds)


async def test_a_reminder_fires_once_though_both_nodes_believe_to_lead(nodes: list[Node]) -> None:
    one, two = nodes
    due = one.clock.now_ms() + 1000
    reminder = await one.resources.add(Reminder(id="r1", message="tea", remind_at=due))
    await two.service.scheduler.refresh(Reminder, reminder.id)
    two.leads = True
    await advance(nodes, 2)
    await asyncio.gather(one.ring(), two.ring())
    changes = [entry.item for entry in (await one.service.feed.read(0, 100)).entries]
    assert [item.action for item in changes if isinstance(item, Change)] == ["create", "complete"]


async def test_a_schedule_runs_once_at_each_of_its_times_though_both_nodes_believe_to_lead(nodes: list[Node]) -> None:
    one, two = nodes
    agent = await one.resources.add(ScheduledAgent(id="a1", name="nightly", schedule="* * * * *", prompt="go"))
    await two.service.scheduler.refresh(ScheduledAgent, agent.id)
    two.leads = True
    dues = 200
    for _ in range(dues):
        await advance(nodes, 60)
        await asyncio.gather(one.ring(), two.ring())
        for node in nodes:
            node.service.runs._active.clear()
    made = [command.session for node in nodes for command in node.gateway.of(cmd.Create)]
    runs = await one.resources.list(AgentRun)
    assert len(made) == len(runs) == dues
    assert {run.session_id for run in runs} == set(made)
    assert {run.node for run in runs} <= {"one", "two"}


async def test_a_node_that_does_not_lead_rings_nothing_and_takes_over_when_the_leader_is_gone(
    nodes: list[Node],
) -> None:
    one, two = nodes
    agent = await one.resources.add(ScheduledAgent(id="a1", name="nightly", schedule="* * * * *", prompt="go"))
    await two.service.scheduler.refresh(ScheduledAgent, agent.id)
    one.leads = False
    await advance(nodes, 61)
    await asyncio.gather(one.ring(), two.ring())
    assert not one.gateway.commands
    assert not two.gateway.commands
    two.leads = True
    await two.ring()
    assert len(two.gateway.of(cmd.Create)) == 1, "what was due without a leader is not lost"


async def test_a_change_of_another_node_is_not_overwritten(nodes: list[Node]) -> None:
    one, two = nodes
    reminder = await one.resources.add(Reminder(id="r1", message="tea", remind_at=10_000_000_000_000))
    await asyncio.gather(
        *(node.resources.edit(Reminder, reminder.id, {"message": node.store.node}) for node in nodes for _ in range(5)),
        one.resources.amend(Reminder, reminder.id, {"notified": True}),
    )
    assert (await two.resources.get(Reminder, reminder.id)).notified
    await one.resources.remove(Reminder, reminder.id)
    with pytest.raises(NotFound):
        await two.resources.edit(Reminder, reminder.id, {"message": "late"})


async def test_a_node_that_starts_leaves_the_runs_of_others_alone(nodes: list[Node]) -> None:
    one, two = nodes
    agent = await one.resources.add(ScheduledAgent(id="a1", name="nightly", schedule="0 0 1 1 *", prompt="go"))
    run = await one.service.runs.run(agent)
    await two.service.runs.start()
    assert (await two.resources.get(AgentRun, run.id)).status == "running"
    assert not two.service.runs._active
