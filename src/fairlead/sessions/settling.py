"""When turns of a transcript are over: it does not say so itself. A final answer after which nothing follows ends its
turn; without one it is given up after a while."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fairlead.model.ids import SessionId
from fairlead.sessions.services import Services
from fairlead.sessions.session import Session

SETTLE_S = 3.0
"""A final answer after which so long nothing was written ends its turn: rows of one answer come within a second."""
LOST_MS = 600_000
"""A turn without a final answer is given up after so long (design: an orphan waits 10 minutes)."""


class Settling:
    def __init__(
        self,
        services: Services,
        loaded: Callable[[SessionId], Session | None],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._services = services
        self._loaded = loaded
        self._spawn = spawn
        self._due: dict[SessionId, float] = {}

    def soon(self, session: SessionId) -> None:
        first = not self._due
        self._due[session] = self._services.clock.monotonic() + SETTLE_S
        if first:
            self._spawn(self._forever())

    async def _forever(self) -> None:
        """While there are sessions that were written to lately."""
        while self._due:
            now = self._services.clock.monotonic()
            for session in [session for session, due in self._due.items() if due <= now]:
                if await self.settle(session):
                    self._due.pop(session, None)
                elif session in self._due:
                    self._due[session] = now + SETTLE_S
            if self._due:
                await self._services.clock.sleep(SETTLE_S / 3)

    async def settle(self, session_id: SessionId) -> bool:
        """End a turn that is over; true if there is nothing left to wait for."""
        session = self._loaded(session_id)
        if session is None or session.runner.agent is not None or session.runner.following:
            return True
        core = session.core
        async with core.lock:
            turn = core.interpreter.turn
            if turn is None:
                return True
            outcome = core.interpreter.settle()
            if not outcome.events and self._services.clock.now_ms() - core.log.last_at > LOST_MS:
                outcome = core.interpreter.exited("nothing more was written", turn)
            if not outcome.events:
                return False
            transition = core.begin()
            for event in outcome.events:
                transition.add(event, at=core.log.last_at + 1)
            transition.stage.drop.update(outcome.drop)
            await core.commit(transition, patient=True)
        session.runner.pump()
        return True

    def forget(self, session: SessionId) -> None:
        self._due.pop(session, None)
