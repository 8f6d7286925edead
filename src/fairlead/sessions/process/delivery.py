"""Messages on their way to the agent: who sent one can wait for it to leave the queue, and hears if it failed."""

import asyncio
from collections.abc import Sequence

from fairlead.model import events as ev
from fairlead.model.errors import AgentFailed
from fairlead.model.ids import MessageId
from fairlead.sessions.commit import SessionCore

FAILED_KEPT = 64
"""Failures of the recent past, for whoever asks a moment later."""


class DeliveryWaiters:
    def __init__(self, core: SessionCore) -> None:
        self._core = core
        self._waiting: dict[MessageId, list[asyncio.Future[None]]] = {}
        self._failed: dict[MessageId, ev.ErrorRaised] = {}

    def committed(self, events: Sequence[ev.Event]) -> None:
        """A message that cannot be handed over leaves the queue together with the reason."""
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
