"""Ends turns of a followed transcript, which does not mark their end itself.

A final answer followed by silence ends its turn. A turn without one is ended after a longer timeout, and so is the wait
for the parent of orphaned records. Sessions that were written to recently have one timer each, the others none.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from fairlead.model.agents import Interpretation
from fairlead.model.ids import SessionId
from fairlead.sessions.commit import SessionCore
from fairlead.sessions.dependencies import CoreDependencies
from fairlead.sessions.session import Session
from fairlead.system.clock import Timer
from fairlead.system.tasks import TaskSet

SETTLE_S = 3.0
"""A final answer ends its turn when nothing is written for this long: rows of one answer come within a second."""
LOST_MS = 600_000
"""A turn without a final answer is ended after this long (design: an orphan waits 10 minutes)."""


@dataclass(eq=False, repr=False)
class TurnTimeouts:
    _services: CoreDependencies
    _loaded: Callable[[SessionId], Session | None]
    _tasks: TaskSet
    _due: dict[SessionId, Timer] = field(default_factory=dict)

    def soon(self, session: SessionId) -> None:
        self._after(session, SETTLE_S)

    async def read(self, session: Session) -> None:
        """Handle a file that was read to its end: end a turn that was over when the file was last written."""
        silent = self._silence(session.core)
        if silent < SETTLE_S * 1000:
            self._after(session.core.session, SETTLE_S - silent / 1000)
        elif not await self._settle(session.core):
            self._check_when_lost(session.core.session, silent)

    def _after(self, session: SessionId, seconds: float) -> None:
        self.forget(session)
        self._due[session] = self._services.clock.call_later(seconds, lambda: self._tasks.spawn(self._check(session)))

    async def _check(self, session: SessionId) -> None:
        self._due.pop(session, None)
        if not await self.settle(session) and session not in self._due:
            # Check again when the timeout is reached; a write to the file triggers an earlier check.
            loaded = self._loaded(session)
            self._check_when_lost(session, 0 if loaded is None else self._silence(loaded.core))

    def _check_when_lost(self, session: SessionId, silent: int) -> None:
        self._after(session, max(SETTLE_S, (LOST_MS - silent) / 1000 + 1))

    def _silence(self, core: SessionCore) -> int:
        """Milliseconds since the last row was written, by its own time."""
        return self._services.clock.now_ms() - core.log.last_at

    async def settle(self, session_id: SessionId) -> bool:
        """End a turn that is over, and stop waiting for lost records; True if there is nothing left to wait for."""
        session = self._loaded(session_id)
        if session is None or session.supervisor.agent is not None or session.supervisor.following:
            return True
        rests = await self._settle(session.core)
        session.supervisor.schedule_next()
        return rests

    async def _settle(self, core: SessionCore) -> bool:
        async with core.transaction() as transition:
            outcomes = self._over(core)
            if any(outcome.events for outcome in outcomes):
                transition.force_checkpoint = True
                for outcome in outcomes:
                    transition.apply(outcome, at=core.log.last_at + 1)
        return core.interpreter.turn is None and not core.interpreter.deferred_count

    def _over(self, core: SessionCore) -> list[Interpretation]:
        interpreter, outcomes = core.interpreter, []
        lost = self._silence(core) > LOST_MS
        turn = interpreter.turn
        if turn is not None:
            outcomes.append(interpreter.end_quiet_turn())
            if not outcomes[0].events and lost:
                outcomes.append(interpreter.exited("nothing more was written", turn))
        if interpreter.deferred_count and lost:
            outcomes.append(interpreter.flush_unresolved(f"{core.session}@{core.log.head}"))
        return outcomes

    def forget(self, session: SessionId) -> None:
        timer = self._due.pop(session, None)
        if timer is not None:
            timer.cancel()

    def stop(self) -> None:
        for session in list(self._due):
            self.forget(session)
