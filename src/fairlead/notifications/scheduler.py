"""Fires reminders and scheduled agents when they are due: one timer for all, none without anything scheduled.

The wall clock may be changed in the meantime, so the timer never waits longer than a minute before it is checked.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from fairlead.model.errors import FairleadError, NotFound
from fairlead.notifications.api.cognova import Reminder, ScheduledAgent
from fairlead.notifications.api.resources import Resource
from fairlead.notifications.cron import next_due
from fairlead.notifications.resources import Resources
from fairlead.system.clock import Clock, Timer

log = logging.getLogger("fairlead.notifications")

LONGEST_S: Final = 60.0
LEADS_S: Final = 5.0
"""How often a node that does not lead looks whether it does."""
LATE_MS: Final = 10 * 60 * 1000
"""A node that comes to lead runs no agent that is due for longer: the leader of that time has done it."""


class Scheduler:
    """`ring` is called with each due item and its time: a reminder once, even if its time passed while the gateway was
    down; an agent at each of its times, except those that passed while the gateway was down.

    Of several nodes the one that `leads` rings. The others keep what is due: one of them may have to ring it, if the
    leader is gone. `ring` makes sure that nothing rings twice."""

    def __init__(
        self,
        resources: Resources,
        clock: Clock,
        ring: Callable[[Resource, int], Awaitable[None]],
        leads: Callable[[], bool] | None = None,
    ) -> None:
        self._resources = resources
        self._clock = clock
        self._ring = ring
        self._leads = leads or (lambda: True)
        self._alone = leads is None
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

    async def refresh(self, kind: type[Reminder | ScheduledAgent], id: str) -> None:
        """Note an item that another node has changed or rung."""
        try:
            self._note(await self._resources.get(kind, id))
        except NotFound:
            self._due.pop((kind, id), None)
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
            least = 0.0 if self._leads() else LEADS_S
            self._timer = self._clock.call_later(min(max(seconds, least), LONGEST_S), self._look)

    def _look(self) -> None:
        self._timer = None
        if self._ringing is None or self._ringing.done():
            self._ringing = asyncio.get_running_loop().create_task(self._ring_due())

    async def _ring_due(self) -> None:
        now = self._clock.now_ms()
        ringing = [key for key, due in self._due.items() if due <= now] if self._leads() else []
        try:
            for kind, id in sorted(ringing, key=self._due.__getitem__):
                # Remove it before it fires, so that an item that fails does not fire forever.
                due = self._due.pop((kind, id), now)
                try:
                    item: Resource = await self._resources.get(kind, id)
                    if isinstance(item, ScheduledAgent):
                        self._note(item)
                        if now - due > LATE_MS and not self._alone:
                            continue
                    await self._ring(item, due)
                except FairleadError as error:
                    log.warning("alarm failed", extra={"kind": kind.__name__, "id": id, "error": error.message})
        finally:
            self._set_timer()
