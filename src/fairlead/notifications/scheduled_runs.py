"""Runs of scheduled agents: each is a session of the core; the feed gets its start and its actual end."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

import msgspec
from msgspec import structs

from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model import queries as q
from fairlead.model.auth import OWNER, Identity, display_name
from fairlead.model.content import TextBlock
from fairlead.model.errors import Busy, Conflict, FairleadError, NotFound, Stale
from fairlead.model.gateway import Gateway
from fairlead.model.ids import MessageId, SessionId
from fairlead.notifications.api.cognova import AgentRun, RunStatus, ScheduledAgent
from fairlead.notifications.api.feed import Change, ChangeAction
from fairlead.notifications.api.resources import RowAsRead
from fairlead.notifications.resources import KINDS, Resources
from fairlead.system.clock import Clock
from fairlead.system.tasks import TaskSet

log = logging.getLogger("fairlead.notifications")

OVER_BUDGET: Final = "error_max_budget_usd"
"""Claude Code's reason for a turn that used up its budget."""
RUN: Final = KINDS[AgentRun].name
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


class ActiveRun(msgspec.Struct):
    run: AgentRun
    agent: ScheduledAgent
    cancelling: bool = False


@dataclass(eq=False, repr=False)
class ScheduledRuns:
    _resources: Resources
    _gateway: Callable[[], Gateway]
    _clock: Clock
    _fresh: Callable[[], str]
    _node: str = ""
    """This node, if there are several: it follows the runs that it started."""
    _active: dict[SessionId, ActiveRun] = field(default_factory=dict)
    _tasks: TaskSet = field(default_factory=TaskSet)

    async def start(self) -> None:
        """Resume the runs of an earlier gateway process: a run whose agent still lives continues, the others get the
        end that their log has."""
        for run in await self._resources.list(AgentRun, self._is_ours):
            active = self._active[run.session_id] = ActiveRun(run, await self._agent_of(run))
            try:
                await self._resume(active)
            except FairleadError:
                await self._finish(active, "cancelled", LOST)

    def _is_ours(self, run: AgentRun) -> bool:
        return run.status == "running" and run.node in ("", self._node)

    def followed(self, session: SessionId) -> None:
        """A turn of a session on another node has ended."""
        if active := self._active.get(session):
            self._tasks.spawn(self._resume(active))

    async def stop(self) -> None:
        await self._tasks.wait()

    async def run(self, agent: ScheduledAgent, due: int | None = None) -> AgentRun:
        """Run an agent. `due`: the time of its schedule; of several nodes that try, one runs it, and the others get
        Stale."""
        if self._runs_of(agent):
            raise Busy(f"{agent.name} runs already.", agent=agent.id)
        session, now = SessionId(self._fresh()), self._clock.now_ms()
        name = self._fresh() if due is None else str(uuid5(NAMESPACE_URL, f"fairlead:run/{agent.id}/{due}"))
        run = AgentRun(
            id=name,
            agent_id=agent.id,
            session_id=session,
            created_at=now,
            modified_at=now,
            user=agent.user,
            node=self._node,
        )
        active = self._active[session] = ActiveRun(run, agent)
        try:
            # Before the session is made: a row of this time means that another node runs it.
            await self._publish(run, agent, "", RowAsRead(RUN, run.id, None))
        except Conflict:
            del self._active[session]
            raise Stale(f"{agent.name} was started by another node.", agent=agent.id) from None
        who = identity(agent)
        settings = cmd.Settings(max_turns=agent.max_turns, max_budget_usd=agent.max_budget_usd)
        content = (TextBlock(text=agent.prompt),)
        try:
            await self._gateway().command(
                who, cmd.Create(session=session, cwd=agent.folder, title=agent.name, settings=settings)
            )
            await self._gateway().command(who, cmd.Send(session=session, content=content, message=MessageId(run.id)))
            if active.cancelling:
                # The run was cancelled before its session existed.
                await self._interrupt(active)
        except FairleadError as error:
            await self._finish(active, "error", error.message)
        return run

    async def cancel(self, agent: ScheduledAgent) -> int:
        """Cancel an agent's runs and return their number. Each is published as cancelled when it has ended."""
        runs = self._runs_of(agent)
        if not runs:
            raise NotFound("running execution of agent", agent.id)
        for active in runs:
            await self._interrupt(active)
        return len(runs)

    def abandon(self, agent: ScheduledAgent) -> None:
        """Cancel the runs of a deleted agent."""
        for active in self._runs_of(agent):
            self._tasks.spawn(self._interrupt(active))

    async def forget(self, user: str) -> None:
        """Cancel the runs of this user's agents without publishing their end."""
        await self.stop()
        for active in [active for active in self._active.values() if active.run.user == user]:
            await self._interrupt(active)
            self._active.pop(active.run.session_id, None)

    def committed(self, session: SessionId, events: Sequence[ev.Event]) -> None:
        if active := self._active.get(session):
            for event in events:
                if isinstance(event, ev.TurnEnded):
                    self._tasks.spawn(self._ended(active, event))
                    return

    def deleted(self, session: SessionId) -> None:
        if active := self._active.get(session):
            self._tasks.spawn(self._finish(active, "cancelled", "Its session was deleted."))

    def _runs_of(self, agent: ScheduledAgent) -> list[ActiveRun]:
        return [active for active in self._active.values() if active.agent.id == agent.id]

    async def _interrupt(self, active: ActiveRun) -> None:
        """End a run, which may still wait for its agent, be in progress, or be over."""
        active.cancelling = True
        run, who = active.run, identity(active.agent)
        try:
            await self._gateway().command(who, cmd.CancelMessage(session=run.session_id, message=MessageId(run.id)))
        except FairleadError:
            try:
                await self._gateway().command(who, cmd.Interrupt(session=run.session_id))
            except FairleadError as error:
                log.info("nothing to interrupt", extra={"run": run.id, "error": error.message})
        else:
            await self._finish(active, "cancelled", "")

    async def _ended(self, active: ActiveRun, event: ev.TurnEnded) -> None:
        status, message = ending(event, cancelling=active.cancelling)
        await self._finish(active, status, message, cost_usd=event.cost_usd, duration_ms=event.duration_ms)

    async def _finish(self, active: ActiveRun, status: RunStatus, message: str, **figures: Any) -> None:
        # The first end counts: deleting a session ends its turn as well.
        if self._active.pop(active.run.session_id, None) is None:
            return
        active.cancelling = False
        now = self._clock.now_ms()
        end = {"status": status, "error": message or None, "completed_at": now, "modified_at": now, **figures}
        await self._publish(structs.replace(active.run, **end), active.agent, message)

    async def _publish(
        self, run: AgentRun, agent: ScheduledAgent, message: str, expected: RowAsRead | None = None
    ) -> None:
        meta: dict[str, Any] = {"runId": run.id, "sessionId": run.session_id}
        if run.status != "running":
            meta["status"] = run.status
        change = Change(
            resource="agent",
            action=ACTIONS[run.status],
            id=agent.id,
            name=agent.name,
            sentence=message if run.status in ("error", "budget_exceeded") else "",
            meta=meta,
            seen=(run.user,) if run.user else None,
        )
        await self._resources.put(run, change, expected=expected)
        log.info("agent run", extra={"agent": agent.id, "run": run.id, "session": run.session_id, "status": run.status})

    async def _agent_of(self, run: AgentRun) -> ScheduledAgent:
        try:
            return await self._resources.get(ScheduledAgent, run.agent_id)
        except NotFound:
            return ScheduledAgent(id=run.agent_id, name="", schedule="", prompt="")

    async def _resume(self, active: ActiveRun) -> None:
        session, who = active.run.session_id, identity(active.agent)
        view: q.SessionView = await self._gateway().ask(who, q.GetSession(session))
        if view.turn is not None or view.queue:
            return
        page: q.EventPage = await self._gateway().ask(who, q.ReadMessages(session))
        events = (ev.decode(bytes(line)) for line in reversed(page.events))
        ended = next((event for event in events if isinstance(event, ev.TurnEnded)), None)
        await (self._finish(active, "cancelled", LOST) if ended is None else self._ended(active, ended))
