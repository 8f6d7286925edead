"""What a session's events are for the feed. Pure.

No word of what was said or asked goes into a notice: it may be sent to a service that strangers run.
"""

from collections.abc import Sequence
from typing import Any, Final

from fairlead.model import events as ev
from fairlead.model.ids import SessionId
from fairlead.model.news import What
from fairlead.model.notices import Change, Color, Notice, Told, Topic

_ENDS: Final[dict[str, tuple[str, str, Color]]] = {
    "completed": ("Turn finished", "is finished", "success"),
    "failed": ("Turn failed", "has failed", "error"),
    "cancelled": ("Turn cancelled", "was cancelled", "warning"),
}


class Teller:
    """Of one session; `name` is its title, empty if it has none."""

    def __init__(self, session: SessionId, name: str) -> None:
        self._session = session
        self._name = name
        self._called = f'session "{name}"' if name else "a session"

    def news(self, what: What) -> Sequence[Told]:
        """Of a session that was made or deleted, which no event in its log can tell."""
        if what == "created":
            change = Change(resource="conversation", action="create", id=self._session, name=self._name)
            return change, self._notice("session", "session.created", "Session created", f"New: {self._called}")
        if what == "deleted":
            change = Change(resource="conversation", action="delete", id=self._session)
            return change, self._notice("session", "session.deleted", "Session deleted", f"Gone: {self._called}")
        return ()

    def event(self, event: ev.Event) -> Sequence[Told]:
        match event:
            case ev.SessionChanged():
                notice = self._notice("session", "session.changed", "Session updated", f"Changed: {self._called}")
                if event.title is None and event.archived is None:
                    return (notice,)
                return Change(resource="conversation", action="edit", id=self._session, name=self._name), notice
            case ev.TurnStarted():
                return (self._notice("session", "session.working", "Session at work", f"At work: {self._called}"),)
            case ev.TurnEnded():
                title, verb, color = _ENDS[event.status]
                meta: dict[str, Any] = {
                    "status": event.status,
                    "costUsd": event.cost_usd,
                    "durationMs": event.duration_ms,
                }
                told = f"A turn of {self._called} {verb}"
                return (self._notice("turn", f"turn.{event.status}", title, told, color, **meta),)
            case ev.PermissionAsked():
                return (self._waiting(event.tool, event.request, toolName=event.tool),)
            case ev.QuestionAsked():
                return (self._waiting("A question", event.request),)
            case ev.PlanProposed():
                return (self._waiting("A plan", event.request),)
            case ev.PermissionResolved(asked=True):
                verb = "allowed" if event.behavior == "allow" else "denied"
                told = f"A permission of {self._called} was {verb} by {event.by or f'a {event.how}'}"
                return (self._settled(told, event.request, behavior=event.behavior, by=event.by),)
            case ev.PermissionCancelled():
                return (self._settled(f"A permission of {self._called} is settled", event.request),)
            case ev.AgentExited(expected=False):
                told = f"The agent of {self._called} ended unexpectedly"
                return (self._notice("session", "session.agent_exited", "Agent ended", told, "error"),)
            case _:
                return ()

    def _waiting(self, what: str, request: str, **meta: Any) -> Notice:
        told = f"{what} waits for an answer in {self._called}"
        return self._notice(
            "permission", "permission.asked", "Permission waiting", told, "warning", requestId=request, **meta
        )

    def _settled(self, told: str, request: str, **meta: Any) -> Notice:
        return self._notice("permission", "permission.settled", "Permission settled", told, requestId=request, **meta)

    def _notice(self, topic: Topic, kind: str, title: str, message: str, color: Color = "info", **meta: Any) -> Notice:
        return Notice(
            topic=topic,
            kind=kind,
            session=self._session,
            title=title,
            message=message,
            color=color,
            name=self._name,
            meta=meta or None,
        )
