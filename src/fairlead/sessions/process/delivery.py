"""Waiting for a session: until a message has left the queue (with an error if it was not delivered), and until the
session has nothing more to do."""

import asyncio
from collections.abc import Sequence
from typing import Final

from fairlead.model import events as ev
from fairlead.model.errors import AgentFailed
from fairlead.model.formats.bounded_tables import keep_newest
from fairlead.model.ids import MessageId
from fairlead.sessions.commit import SessionCore

WORKING: Final = "working"
"""`SessionState.phase` of a session with a turn or queued messages."""
FAILED_KEPT = 64
"""Recent failures that are kept for callers that ask a moment later."""


class DeliveryWaiters:
    def __init__(self, core: SessionCore) -> None:
        self._core = core
        self._waiting: dict[MessageId, asyncio.Event] = {}
        self._failed: dict[MessageId, ev.ErrorRaised] = {}

    def committed(self, events: Sequence[ev.Event]) -> None:
        """Wake the waiters. A message that cannot be delivered leaves the queue in the same commit as its error."""
        failure = next((event for event in events if isinstance(event, ev.ErrorRaised)), None)
        for event in events:
            if isinstance(event, ev.MessageDequeued | ev.MessageCancelled):
                if failure is not None:
                    keep_newest(self._failed, event.message, failure, FAILED_KEPT)
                if (waiting := self._waiting.pop(event.message, None)) is not None:
                    waiting.set()

    async def wait(self, message: MessageId) -> None:
        if self._core.state.find_queued(message) is not None:
            await self._waiting.setdefault(message, asyncio.Event()).wait()
        failure = self._failed.get(message)
        if failure is not None:
            raise AgentFailed(failure.message, **failure.data)


class TurnWaiters:
    """Callers that wait until the session neither works nor has queued messages, or waits for a person."""

    def __init__(self, core: SessionCore) -> None:
        self._core = core
        self._waiting: set[asyncio.Event] = set()

    def committed(self) -> None:
        if self._core.state.phase != WORKING:
            self.release()

    def release(self) -> None:
        for waiting in self._waiting:
            waiting.set()

    async def wait(self, seconds: float) -> str:
        """Wait at most `seconds`; return the session's state."""
        if self._core.state.phase == WORKING:
            ended = asyncio.Event()
            self._waiting.add(ended)
            timer = self._core.services.clock.call_later(seconds, ended.set)
            try:
                await ended.wait()
            finally:
                timer.cancel()
                self._waiting.discard(ended)
        return self._core.state.phase
