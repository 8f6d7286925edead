"""Runs of scheduled agents: each is a session of the core; the feed gets its start and its actual end."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from msgspec import structs

from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model import queries as q
from fairlead.model.auth import OWNER, Identity, display_name
from fairlead.model.content import TextBlock
from fairlead.model.errors import Busy, FairleadError, NotFound
from fairlead.model.gateway import Gateway
from fairlead.model.ids import MessageId, SessionId
from fairlead.notifications.api import AgentRun, Change, ChangeAction, RunStatus, ScheduledAgent
from fairlead.notifications.resources import Resources
from fairlead.system.clock import Clock

log = logging.getLogger("fairlead.notifications")

OVER_BUDGET: Final = "error_max_budget_usd"
"""Claude Code's reason for a turn that used up its budget."""
LOST: Final = "The gateway stopped while it ran."
ACTIONS: Final[dict[RunStatus, ChangeAction]] = {
    "running": "run",
    "success": "complete",
    "error": "fail",
    "cancelled": "cancel",
    "budget_exceeded": "cancel",
}


def ending(event: ev.TurnEnded, *, cancelling: bool) -> tuple[RunStatus, str]:
    """A run's final status and its message. A run that completed before the cancel reached it counts as a success."""
    if event.status == "completed":
        return "success", ""
    if event.reason == OVER_BUDGET:
        return "budget_exceeded", "It reached its budget."
    if event.status == "cancelled" or cancelling:
        return "cancelled", ""
    return "error", "; ".join(event.errors) or event.reason or "The turn failed."


def identity(agent: ScheduledAgent) -> Identity:
    """The identity that an agent runs with: the rights that every creator of an agent has, and no right to approve,
    because no person is present. Its sessions belong to the user who made it."""
    user = agent.user or OWNER
    return Identity(f"agent:{agent.id}", user, display_name(user, agent.name), frozenset({"view", "chat"}))


class ScheduledRuns:
    def __init__(
        self, resources: Resources, gateway: Callable[[], Gateway], clock: Clock, fresh: Callable[[], str]
    ) -> None:
        self._resources = resources
        self._gateway = gateway
        self._clock = clock
        self._fresh = fresh
        self._running: dict[SessionId, AgentRun] = {}
        self._agents: dict[str, ScheduledAgent] = {}
        self._cancelling: set[SessionId] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Resume the runs of an earlier gateway process: a run whose agent still lives continues, the others get the
        end that their log has."""
        for run in await self._resources.list(AgentRun, lambda run: run.status == "running"):
            agent = await self._agent_of(run)
            self._running[run.session_id], self._agents[agent.id] = run, agent
            try:
                await self._look(run, agent)
            except FairleadError:
                await self._finish(run, "cancelled", LOST)

    async def stop(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def run(self, agent: ScheduledAgent) -> AgentRun:
        if any(run.agent_id == agent.id for run in self._running.values()):
            raise Busy(f"{agent.name} runs already.", agent=agent.id)
        session, now = SessionId(self._fresh()), self._clock.now_ms()
        run = AgentRun(
            id=self._fresh(), agent_id=agent.id, session_id=session, created_at=now, modified_at=now, user=agent.user
        )
        self._running[session], self._agents[agent.id] = run, agent
        await self._publish(run, agent, "")
        who = identity(agent)
        settings = cmd.Settings(max_turns=agent.max_turns, max_budget_usd=agent.max_budget_usd)
        message = MessageId(run.id)
        try:
            await self._gateway().command(
                who, cmd.Create(session=session, cwd=agent.folder, title=agent.name, settings=settings)
            )
            content = (TextBlock(text=agent.prompt),)
            await self._gateway().command(who, cmd.Send(session=session, content=content, message=message))
            if session in self._cancelling:
                # The run was cancelled before its session existed.
                await self._interrupt(run, who)
        except FairleadError as error:
            await self._finish(run, "error", error.message)
        return run

    async def cancel(self, agent: ScheduledAgent) -> int:
        """Cancel an agent's runs and return their number. Each is published as cancelled when it has ended."""
        asked = [run for run in self._running.values() if run.agent_id == agent.id]
        if not asked:
            raise NotFound("running execution of agent", agent.id)
        for run in asked:
            self._cancelling.add(run.session_id)
            await self._interrupt(run, identity(agent))
        return len(asked)

    def abandon(self, agent: ScheduledAgent) -> None:
        """Cancel the runs of a deleted agent."""
        if any(run.agent_id == agent.id for run in self._running.values()):
            self._spawn(self._abandon(agent))

    async def forget(self, user: str) -> None:
        """Cancel the runs of this user's agents without publishing their end."""
        await self.stop()
        for run in [run for run in self._running.values() if run.user == user]:
            agent = self._agents[run.agent_id]
            self._cancelling.add(run.session_id)
            await self._interrupt(run, identity(agent))
            self._running.pop(run.session_id, None)
            self._cancelling.discard(run.session_id)
            self._agents.pop(run.agent_id, None)

    def committed(self, session: SessionId, events: Sequence[ev.Event]) -> None:
        """Handle events that were appended to a session's log."""
        run = self._running.get(session)
        if run is None:
            return
        for event in events:
            if isinstance(event, ev.TurnEnded):
                self._spawn(self._ended(run, event))
                return

    def deleted(self, session: SessionId) -> None:
        run = self._running.get(session)
        if run is not None:
            self._spawn(self._finish(run, "cancelled", "Its session was deleted."))

    # --- inside

    async def _abandon(self, agent: ScheduledAgent) -> None:
        with contextlib.suppress(NotFound):
            await self.cancel(agent)

    async def _interrupt(self, run: AgentRun, who: Identity) -> None:
        """End a run, which may still wait for its agent, be in progress, or be over."""
        try:
            await self._gateway().command(who, cmd.CancelMessage(session=run.session_id, message=MessageId(run.id)))
        except FairleadError:
            try:
                await self._gateway().command(who, cmd.Interrupt(session=run.session_id))
            except FairleadError as error:
                log.info("nothing to interrupt", extra={"run": run.id, "error": error.message})
        else:
            await self._finish(run, "cancelled", "")

    async def _ended(self, run: AgentRun, event: ev.TurnEnded) -> None:
        status, message = ending(event, cancelling=run.session_id in self._cancelling)
        done = structs.replace(run, cost_usd=event.cost_usd, duration_ms=event.duration_ms)
        await self._finish(done, status, message)

    async def _finish(self, run: AgentRun, status: RunStatus, message: str) -> None:
        # The first end counts: deleting a session ends its turn as well.
        if self._running.pop(run.session_id, None) is None:
            return
        self._cancelling.discard(run.session_id)
        now = self._clock.now_ms()
        done = structs.replace(run, status=status, error=message or None, completed_at=now, modified_at=now)
        await self._publish(done, self._agents.pop(run.agent_id), message)

    async def _publish(self, run: AgentRun, agent: ScheduledAgent, message: str) -> None:
        meta: dict[str, Any] = {"runId": run.id, "sessionId": run.session_id}
        if run.status != "running":
            meta["status"] = run.status
        shown = message if run.status in ("error", "budget_exceeded") else ""
        change = Change(
            resource="agent",
            action=ACTIONS[run.status],
            id=agent.id,
            name=agent.name,
            sentence=shown,
            meta=meta,
            seen=(run.user,) if run.user else None,
        )
        await self._resources.put(run, change)
        log.info("agent run", extra={"agent": agent.id, "run": run.id, "session": run.session_id, "status": run.status})

    async def _agent_of(self, run: AgentRun) -> ScheduledAgent:
        try:
            return await self._resources.get(ScheduledAgent, run.agent_id)
        except NotFound:
            return ScheduledAgent(id=run.agent_id, name="", schedule="", prompt="")

    async def _look(self, run: AgentRun, agent: ScheduledAgent) -> None:
        who = identity(agent)
        view: q.SessionView = await self._gateway().ask(who, q.GetSession(run.session_id))
        if view.turn is not None or view.queue:
            return
        page: q.EventPage = await self._gateway().ask(who, q.ReadMessages(run.session_id))
        for line in reversed(page.events):
            event = ev.decode(bytes(line))
            if isinstance(event, ev.TurnEnded):
                await self._ended(run, event)
                return
        await self._finish(run, "cancelled", LOST)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
