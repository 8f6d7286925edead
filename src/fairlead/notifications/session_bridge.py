"""From the core's commits to the feed: events are queued at commit and written to the feed afterwards, in order."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from fairlead.model import events as ev
from fairlead.model.errors import FairleadError
from fairlead.model.ids import SessionId
from fairlead.model.web.session_changes import What
from fairlead.notifications.api.feed import FeedItem
from fairlead.notifications.change_feed import ChangeFeed
from fairlead.notifications.from_events import NoticeBuilder

log = logging.getLogger("fairlead.notifications")

WAITING: Final = 10_000
"""Maximum number of queued notes while the store is busy; the logs have everything, so the oldest may be dropped."""
BATCH: Final = 200

Note = tuple[SessionId, What | ev.Event]
Describe = Callable[[SessionId], Awaitable[tuple[str, tuple[str, ...]]]]

_REPORTED: Final = frozenset(
    (
        *(ev.SessionChanged, ev.TurnStarted, ev.TurnEnded, ev.AgentExited, ev.PermissionRequested),
        *(ev.QuestionAsked, ev.PlanProposed, ev.PermissionResolved, ev.PermissionCancelled),
    )
)
"""The events that `NoticeBuilder.for_event` handles. A set of types, because every delta is checked against it."""


class SessionBridge:
    """`describe` returns a session's current title and the users who see it."""

    def __init__(self, feed: ChangeFeed, describe: Describe) -> None:
        self._feed = feed
        self._describe = describe
        self._waiting: deque[Note] = deque(maxlen=WAITING)
        self._writing: asyncio.Task[None] | None = None

    def committed(self, session: SessionId, events: Sequence[ev.Event]) -> None:
        for event in events:
            if type(event) in _REPORTED:
                self._note(session, event)

    def session_changed(self, session: SessionId, what: What) -> None:
        if what in ("created", "deleted"):
            self._note(session, what)

    async def stop(self) -> None:
        """Wait until all queued notes are written."""
        while self._writing is not None and not self._writing.done():
            await asyncio.wait({self._writing})

    def _note(self, session: SessionId, what: What | ev.Event) -> None:
        self._waiting.append((session, what))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        while self._waiting:
            notes = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            try:
                builders = {
                    session: NoticeBuilder(session, *await self._describe(session))
                    for session in {note[0] for note in notes}
                }
                items: list[FeedItem] = []
                for session, what in notes:
                    builder = builders[session]
                    items += builder.for_session_change(what) if isinstance(what, str) else builder.for_event(what)
                if items:
                    await self._feed.write(*items)
            except FairleadError as error:
                log.warning("notices lost", extra={"number": len(notes), "error": error.message})
