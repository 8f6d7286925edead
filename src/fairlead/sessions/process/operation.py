"""Operation of the gateway by an admin: reports its state, drains it and stops it."""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

from fairlead.model.auth import Identity
from fairlead.model.web.requests import ServiceHandlers
from fairlead.sessions.api.operation import DrainGateway, GatewayState, ReadGatewayState, StopGateway, WorkingSession
from fairlead.sessions.process.handover import describe_work
from fairlead.sessions.registry import Registry
from fairlead.sessions.session import Session
from fairlead.terminals.api import session_of_terminal

logger = logging.getLogger("fairlead.operation")

CHECK_S: Final = 0.25
"""Interval of the checks whether any session still works while the gateway drains. The end of background work is not
an event that could be waited for."""


class GatewayOperation:
    """`stop` stops the server. `terminals` returns the names of the running terminals.

    `detaches`: at its end the gateway leaves agents and terminals to the keeper. It is read when the gateway stops:
    a request to end them turns it off."""

    def __init__(
        self, registry: Registry, *, stop: Callable[[], None], terminals: Callable[[], Collection[str]], detaches: bool
    ) -> None:
        self.detaches = detaches
        self.left = 0, 0
        """The numbers of agents and terminals that run on when the gateway has stopped."""
        self._registry = registry
        self._services = registry.services
        self._stop = stop
        self._terminals = terminals
        self._stopping = False
        self._draining: asyncio.Task[None] | None = None

    def handlers(self) -> ServiceHandlers:
        return {ReadGatewayState: self._read, DrainGateway: self._drain, StopGateway: self._stop_on_request}

    async def _read(self, who: Identity, call: ReadGatewayState) -> GatewayState:
        return await self._state()

    async def _drain(self, who: Identity, call: DrainGateway) -> GatewayState:
        if call.cancel:
            await self._cancel_drain(who)
        elif self._draining is None and not self._stopping:
            logger.info("draining", extra={"who": who.name})
            self._services.drain.on = True
            self._draining = self._registry.tasks.spawn(self._stop_when_idle())
        return await self._state()

    async def _cancel_drain(self, who: Identity) -> None:
        draining, self._draining = self._draining, None
        if draining is None or self._stopping:
            return
        draining.cancel()
        await asyncio.wait({draining})
        logger.info("drain cancelled", extra={"who": who.name})
        self._services.drain.on = False
        for session in self._registry.all_loaded():
            session.supervisor.schedule_next()

    async def _stop_when_idle(self) -> None:
        while any(map(_is_working, self._registry.all_loaded())):
            await self._services.clock.sleep(CHECK_S)
        logger.info("drained: no session works")
        self._end(agents=True)

    async def _stop_on_request(self, who: Identity, call: StopGateway) -> GatewayState:
        logger.info("stopped on request", extra={"who": who.name, "agents": call.agents})
        state = await self._state()
        self._end(agents=call.agents)
        return state

    def _end(self, *, agents: bool) -> None:
        if agents:
            self.detaches = False
        if not self._stopping:
            self._stopping = True
            self._stop()

    async def stop_agents(self) -> None:
        """At the end of the gateway: stop the agents, or leave those that a keeper holds to the next gateway."""
        if self.detaches:
            self.left = self._count_kept(), self._count_terminals()
        await self._registry.stop(detach=self.detaches)

    def _count_kept(self) -> int:
        agents = [session.supervisor.agent for session in self._registry.all_loaded()]
        return sum(agent is not None and agent.kept for agent in agents)

    def _count_terminals(self) -> int:
        """The terminals of people. That of an agent counts as the agent."""
        return sum(not session_of_terminal(name) for name in self._terminals())

    async def _state(self) -> GatewayState:
        sessions = self._registry.all_loaded()
        return GatewayState(
            state="stopping" if self._stopping else "draining" if self._services.drain.on else "running",
            working=tuple([await self._describe(session) for session in sessions if _is_working(session)]),
            agents=sum(_has_agent(session) for session in sessions),
            kept=self._count_kept(),
            terminals=self._count_terminals(),
            queued=sum(len(session.core.state.queue) for session in sessions),
            on_stop="detach" if self.detaches else "end",
        )

    async def _describe(self, session: Session) -> WorkingSession:
        core = session.core
        page = await self._services.store.tail(core.session, None, 1, ("turn.started",))
        return WorkingSession(
            session=core.session,
            title=core.state.summary().title,
            work=describe_work(core) or ("a message that is being sent",),
            since=page.entries[-1].at if page.entries else core.state.updated,
        )


def _is_working(session: Session) -> bool:
    supervisor = session.supervisor
    if supervisor.agent is not None and supervisor.agent.lent:
        return False
    return supervisor.is_working or supervisor.is_dispatching


def _has_agent(session: Session) -> bool:
    agent = session.supervisor.agent
    return agent is not None and not agent.lent
