"""Delivery of messages: a sender can wait until a message leaves the queue, and gets an error if delivery failed."""

import asyncio
from collections.abc import Sequence

from fairlead.model import events as ev
from fairlead.model.errors import AgentFailed
from fairlead.model.ids import MessageId
from fairlead.sessions.commit import SessionCore

FAILED_KEPT = 64
"""Recent failures that are kept for callers that ask a moment later."""


class DeliveryWaiters:
    def __init__(self, core: SessionCore) -> None:
        self._core = core
        self._waiting: dict[MessageId, list[asyncio.Future[None]]] = {}
        self._failed: dict[MessageId, ev.ErrorRaised] = {}

    def committed(self, events: Sequence[ev.Event]) -> None:
        """Wake the waiters. A message that cannot be delivered leaves the queue in the same commit as its error."""
        failure = next((event for event in events if isinstance(event, ev.ErrorRaised)), None)
        for event in events:
            if isinstance(event, ev.MessageDequeued | ev.MessageCancelled):
                self._left(event.message, failure)

    async def wait(self, message: MessageId) -> None:
        if self._core.state.find_queued(message) is not None:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(message, []).append(future)
            await future
        failure = self._failed.get(message)
        if failure is not None:
            raise AgentFailed(failure.message, **failure.data)

    def _left(self, message: MessageId, failure: ev.ErrorRaised | None) -> None:
        if failure is not None:
            self._failed[message] = failure
            if len(self._failed) > FAILED_KEPT:
                del self._failed[next(iter(self._failed))]
        for future in self._waiting.pop(message, ()):
            if not future.done():
                future.set_result(None)
