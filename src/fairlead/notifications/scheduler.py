"""Fires reminders and scheduled agents when they are due: one timer for all, none without anything scheduled.

The wall clock may be changed in the meantime, so the timer never waits longer than a minute before it is checked.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from fairlead.model.errors import FairleadError
from fairlead.notifications.api.cognova import Reminder, ScheduledAgent
from fairlead.notifications.api.resources import Resource
from fairlead.notifications.cron import next_due
from fairlead.notifications.resources import Resources
from fairlead.system.clock import Clock, Timer

log = logging.getLogger("fairlead.notifications")

LONGEST_S: Final = 60.0


class Scheduler:
    """`ring` is called with each due item: a reminder once, even if its time passed while the gateway was down; an
    agent at each of its times, except those that passed while the gateway was down."""

    def __init__(self, resources: Resources, clock: Clock, ring: Callable[[Resource], Awaitable[None]]) -> None:
        self._resources = resources
        self._clock = clock
        self._ring = ring
        self._due: dict[tuple[type[Resource], str], int] = {}
        self._timer: Timer | None = None
        self._ringing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        for reminder in await self._resources.list(Reminder):
            self._note(reminder)
        for agent in await self._resources.list(ScheduledAgent):
            self._note(agent)
        self._set_timer()

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._ringing is not None:
            self._ringing.cancel()
            await asyncio.wait({self._ringing})

    def changed(self, item: Resource) -> None:
        if isinstance(item, Reminder | ScheduledAgent):
            self._note(item)
            self._set_timer()

    def _note(self, item: Reminder | ScheduledAgent) -> None:
        key = type(item), item.id
        self._due.pop(key, None)
        if item.deleted_at is not None:
            return
        if isinstance(item, Reminder):
            if not item.notified:
                self._due[key] = item.remind_at
        elif item.enabled:
            self._due[key] = next_due(item.schedule, self._clock.now_ms())

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._due:
            seconds = (min(self._due.values()) - self._clock.now_ms()) / 1000
            self._timer = self._clock.call_later(min(max(seconds, 0.0), LONGEST_S), self._look)

    def _look(self) -> None:
        self._timer = None
        if self._ringing is None or self._ringing.done():
            self._ringing = asyncio.get_running_loop().create_task(self._ring_due())

    async def _ring_due(self) -> None:
        now = self._clock.now_ms()
        try:
            for kind, id in sorted((key for key, due in self._due.items() if due <= now), key=self._due.__getitem__):
                # Remove it before it fires, so that an item that fails does not fire forever.
                self._due.pop((kind, id), None)
                try:
                    item: Resource = await self._resources.get(kind, id)
                    if isinstance(item, ScheduledAgent):
                        self._note(item)
                    await self._ring(item)
                except FairleadError as error:
                    log.warning("alarm failed", extra={"kind": kind.__name__, "id": id, "error": error.message})
        finally:
            self._set_timer()
