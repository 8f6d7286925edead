"""Frames for every chat socket, whichever session it is subscribed to: changed sessions, progress of lists. Pure.

A route that builds a list of projects reports its progress with `yield Broadcast(CHANNEL, loading(...))`.
"""

from typing import Final

from fairlead.clients.claudecodeui.rest.project_fields import PROVIDER, Fields, project_fields, session_fields
from fairlead.model.formats.frames import json_frame
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.store import Summary

CHANNEL: Final = "claudecodeui"


def upserted(summary: Summary, at: int) -> Fields:
    native = {"providerSessionId": summary.agent_session} if summary.agent_session else {}
    return {
        "kind": "session_upserted",
        "sessionId": summary.session,
        **native,
        "provider": PROVIDER,
        "session": session_fields(summary),
        "project": project_fields(summary.cwd) if summary.cwd else None,
        "timestamp": iso_timestamp(at),
    }


def loading(current: int, total: int, project: str = "") -> bytes:
    """Progress of a project list: `current` of `total` are listed; `project` is the current one. The list is complete
    when `current` reaches `total`."""
    named = {"currentProject": project} if project else {}
    phase = "complete" if current >= total else "loading"
    return json_frame({"kind": "loading_progress", "phase": phase, "current": current, "total": total, **named})


class ChatSessionList:
    """Implements `model.web.broadcast.SessionListCodec`."""

    key = CHANNEL

    def session(self, summary: Summary, at: int) -> bytes:
        return b"" if summary.archived or summary.deleted else json_frame(upserted(summary, at))


CODEC: Final = ChatSessionList()
