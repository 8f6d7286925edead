"""Sends change notices about sessions to the current listeners. Implements `model.web.session_changes`."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from fairlead.model import events as ev
from fairlead.model.auth import Identity
from fairlead.model.ids import SessionId
from fairlead.model.scopes import require_scope
from fairlead.model.web.requests import ServiceHandlers
from fairlead.model.web.session_changes import ListenToChanges, SessionChangeNotice, What
from fairlead.system.clock import Clock

_UPDATES = (
    *(ev.SessionChanged, ev.AgentReady, ev.UserMessage, ev.TurnStarted, ev.TurnEnded, ev.ModeChanged),
    *(ev.PermissionRequested, ev.QuestionAsked, ev.PlanProposed, ev.PermissionResolved, ev.PermissionCancelled),
)
"""Events that change a session's entry in a list."""
_CHANGES: tuple[tuple[tuple[type[ev.Event], ...], What], ...] = (
    ((ev.AgentStarted,), "activated"),
    ((ev.AgentExited,), "deactivated"),
    (_UPDATES, "updated"),
)


_BY_KIND: dict[str, What] = {
    "session.opened": "created",
    "session.forked": "created",
    **{str(kind.__struct_config__.tag): what for kinds, what in _CHANGES for kind in kinds},
}


class ChangeListener:
    """One listener. `sees` selects the sessions whose notices it receives."""

    def __init__(self, changes: "SessionChanges", sees: Callable[[SessionId], Awaitable[bool]] | None = None) -> None:
        self._changes = changes
        self._sees = sees
        self._waiting: dict[tuple[SessionId, What], SessionChangeNotice] = {}
        self._wake = asyncio.Event()
        self._closed = False

    def notify(self, notice: SessionChangeNotice) -> None:
        # Only the last notice of a session and kind is kept, in the order of the last occurrence.
        self._waiting.pop((notice.session, notice.what), None)
        self._waiting[notice.session, notice.what] = notice
        self._wake.set()

    async def next_notices(self) -> Sequence[SessionChangeNotice]:
        while not self._closed:
            while not self._waiting and not self._closed:
                self._wake.clear()
                await self._wake.wait()
            notices, self._waiting = tuple(self._waiting.values()), {}
            if self._sees is not None:
                notices = tuple([notice for notice in notices if await self._sees(notice.session)])
            if notices and not self._closed:
                return notices
        return ()

    def close(self) -> None:
        self._closed = True
        self._wake.set()
        self._changes.listeners.discard(self)


class SessionChanges:
    """The set of listeners. `sees` is `ownership.SessionOwnership.sees`."""

    def __init__(self, clock: Clock, sees: Callable[[Identity, SessionId], Awaitable[bool]]) -> None:
        self._clock = clock
        self._sees = sees
        self.listeners: set[ChangeListener] = set()

    def listen(self, who: Identity | None = None) -> ChangeListener:
        """Add a listener for the sessions that `who` sees; None: for all sessions."""
        listener = ChangeListener(self, None if who is None else partial(self._sees, who))
        self.listeners.add(listener)
        return listener

    def handlers(self) -> ServiceHandlers:
        return {ListenToChanges: self._listen}

    async def _listen(self, who: Identity, action: ListenToChanges) -> ChangeListener:
        require_scope(who, "view")
        return self.listen(who)

    def notify(self, session: SessionId, what: What) -> None:
        if self.listeners:
            notice = SessionChangeNotice(session, what, self._clock.now_ms())
            for listener in self.listeners:
                listener.notify(notice)


def changes_of(events: Sequence[ev.Event]) -> list[What]:
    """The kinds of change that a commit's events mean for lists, each once."""
    return list(dict.fromkeys(what for event in events for kinds, what in _CHANGES if isinstance(event, kinds)))


def changes_of_kinds(kinds: Sequence[str]) -> list[What]:
    """The same for a commit of another node, of which only the kinds of its events are known."""
    return list(dict.fromkeys(_BY_KIND[kind] for kind in kinds if kind in _BY_KIND))
