"""Delivery of messages: a sender can wait until a message leaves the queue, and gets an error if delivery failed."""

import asyncio
from collections.abc import Sequence

from fairlead.model import events as ev
from fairlead.model.errors import AgentFailed
from fairlead.model.formats.bounded_tables import keep_newest
from fairlead.model.ids import MessageId
from fairlead.sessions.commit import SessionCore

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
