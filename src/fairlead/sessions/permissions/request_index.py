"""Index of the pending permission requests: request id -> session. The sessions keep it up to date.

A session adds its requests when it is loaded and on each commit; a gateway that starts loads every session with a
pending request. Bounded: beyond the limit the oldest requests are dropped here, and can still be answered through
their session.
"""

from collections.abc import Sequence
from typing import Final

from fairlead.model import events as ev
from fairlead.model.formats.bounded_tables import keep_newest
from fairlead.model.ids import SessionId

MOST: Final = 10_000


class RequestIndex:
    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._sessions: dict[str, SessionId] = {}

    def find(self, request: str) -> SessionId | None:
        return self._sessions.get(request)

    def add(self, session: SessionId, request: str) -> None:
        keep_newest(self._sessions, request, session, self._most)

    def on_commit(self, session: SessionId, events: Sequence[ev.Event]) -> None:
        for event in events:
            if isinstance(event, ev.PermissionRequested | ev.QuestionAsked | ev.PlanProposed):
                self.add(session, event.request)
            elif isinstance(event, ev.PermissionResolved | ev.PermissionCancelled):
                self._sessions.pop(event.request, None)

    def drop(self, session: SessionId) -> None:
        """Remove the requests of a session that is gone."""
        for request in [request for request, of in self._sessions.items() if of == session]:
            del self._sessions[request]
