"""Turns a session's events into feed entries. Pure.

A notice contains nothing of a session's messages or requests, except the session's title, which may be the first
prompt: only users who see the session get it, and external targets get `FeedNotice.outside` without it.
"""

from collections.abc import Sequence
from typing import Any, Final

from fairlead.model import events as ev
from fairlead.model.ids import SessionId
from fairlead.model.web.session_changes import What
from fairlead.notifications.api.feed import Change, ChangeAction, Color, FeedItem, FeedNotice, Topic

_ENDS: Final[dict[str, tuple[str, str, Color]]] = {
    "completed": ("Turn completed", "has completed", "success"),
    "failed": ("Turn failed", "has failed", "error"),
    "cancelled": ("Turn cancelled", "was cancelled", "warning"),
}
_CALLED: Final = "\0"
"""Placeholder in a message for the session's name."""


class NoticeBuilder:
    """Builds the feed entries of one session. `name`: its title, or empty; `seen`: the users who see it."""

    def __init__(self, session: SessionId, name: str, seen: tuple[str, ...]) -> None:
        self._session = session
        self._name = name
        self._seen = seen

    def for_session_change(self, what: What) -> Sequence[FeedItem]:
        """The entries for a created or deleted session, for which its log has no event."""
        if what == "created":
            change = self._change("create", self._name)
            return change, self._notice("session", "session.created", "New session", f"New: {_CALLED}")
        if what == "deleted":
            change = self._change("delete", "")
            return change, self._notice("session", "session.deleted", "Session deleted", f"Deleted: {_CALLED}")
        return ()

    def for_event(self, event: ev.Event) -> Sequence[FeedItem]:
        match event:
            case ev.SessionChanged():
                notice = self._notice("session", "session.changed", "Session updated", f"Changed: {_CALLED}")
                if event.title is None and event.archived is None:
                    return (notice,)
                return self._change("edit", self._name), notice
            case ev.TurnStarted():
                return (self._notice("session", "session.working", "Session working", f"Working: {_CALLED}"),)
            case ev.TurnEnded():
                title, verb, color = _ENDS[event.status]
                meta = {"status": event.status, "costUsd": event.cost_usd, "durationMs": event.duration_ms}
                message = f"A turn of {_CALLED} {verb}"
                return (self._notice("turn", f"turn.{event.status}", title, message, color, **meta),)
            case ev.PermissionRequested():
                return (self._waiting(event.tool, event.request, toolName=event.tool),)
            case ev.QuestionAsked():
                return (self._waiting("A question", event.request),)
            case ev.PlanProposed():
                return (self._waiting("A plan", event.request),)
            case ev.PermissionResolved(asked=True):
                verb = "allowed" if event.behavior == "allow" else "denied"
                message = f"A permission request of {_CALLED} was {verb} by {event.by or f'a {event.how}'}"
                return (self._settled(message, event.request, behavior=event.behavior, by=event.by),)
            case ev.PermissionCancelled():
                return (self._settled(f"A permission request of {_CALLED} is settled", event.request),)
            case ev.AgentExited(expected=False):
                message = f"The agent of {_CALLED} exited unexpectedly"
                return (self._notice("session", "session.agent_exited", "Agent exited unexpectedly", message, "error"),)
            case _:
                return ()

    def _waiting(self, what: str, request: str, **meta: Any) -> FeedNotice:
        message = f"{what} needs your answer in {_CALLED}"
        title = "The agent needs your answer"
        return self._notice("permission", "permission.asked", title, message, "warning", requestId=request, **meta)

    def _settled(self, message: str, request: str, **meta: Any) -> FeedNotice:
        title = "Permission request settled"
        return self._notice("permission", "permission.settled", title, message, requestId=request, **meta)

    def _change(self, action: ChangeAction, name: str) -> Change:
        return Change(resource="conversation", action=action, id=self._session, name=name, seen=self._seen)

    def _notice(
        self, topic: Topic, kind: str, title: str, message: str, color: Color = "info", **meta: Any
    ) -> FeedNotice:
        return FeedNotice(
            topic=topic,
            kind=kind,
            session=self._session,
            title=title,
            message=message.replace(_CALLED, f'session "{self._name}"' if self._name else "a session"),
            color=color,
            name=self._name,
            outside=message.replace(_CALLED, "a session"),
            meta=meta or None,
            seen=self._seen,
        )
