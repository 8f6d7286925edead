"""The root channel: its state, the list of sessions, and the notices of their changes. Pure."""

from typing import Final

from fairlead.clients.ahp.channels import PROVIDER, ROOT, file_uri, session_uri
from fairlead.clients.ahp.context import ARCHIVED, IDLE, INPUT_NEEDED, READ, WORKING
from fairlead.clients.ahp.snapshots import UNTITLED
from fairlead.clients.ahp.wire import Fields, notification_frame
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.store import Summary

_STATUS: Final = {"waiting": INPUT_NEEDED, "working": WORKING}
MODEL: Final = "default"
"""The one model that is offered: the agent's own default."""


def root_state() -> Fields:
    model = {"id": MODEL, "name": "Default", "provider": PROVIDER}
    about = {"displayName": "Fairlead", "description": "Sessions of the Fairlead gateway"}
    return {"agents": [{"provider": PROVIDER, **about, "models": [model]}]}


def session_summary(summary: Summary) -> Fields:
    return {
        "resource": session_uri(summary.session),
        "provider": PROVIDER,
        "title": summary.title or UNTITLED,
        "status": _STATUS.get(summary.state, IDLE) | READ | (ARCHIVED if summary.archived else 0),
        "createdAt": iso_timestamp(summary.created),
        "modifiedAt": iso_timestamp(summary.updated),
        "workingDirectories": [file_uri(summary.cwd)] if summary.cwd else [],
    }


def removed_frame(session: str) -> bytes:
    return notification_frame("root/sessionRemoved", {"channel": ROOT, "session": session_uri(session)})


def added_frame(summary: Summary) -> bytes:
    return notification_frame("root/sessionAdded", {"channel": ROOT, "summary": session_summary(summary)})


def current_frame(summary: Summary) -> bytes:
    """A session as it is now, for a client that may have missed notices about it."""
    return removed_frame(summary.session) if summary.archived else added_frame(summary)


class AhpSessionList:
    """Implements `model.web.broadcast.SessionListCodec`.

    A session counts as new until its second turn: notices of one session that come close together are sent as one, so
    that the first notice that a client receives may be one of the first turn."""

    key = "ahp"

    def session(self, summary: Summary, at: int) -> bytes:
        if summary.deleted or summary.archived:
            return removed_frame(summary.session)
        if summary.turns <= 1:
            return added_frame(summary)
        fields = session_summary(summary)
        changed = {name: fields[name] for name in ("title", "status", "modifiedAt", "workingDirectories")}
        about = {"channel": ROOT, "session": fields["resource"], "changes": changed}
        return notification_frame("root/sessionSummaryChanged", about)


CODEC: Final = AhpSessionList()
