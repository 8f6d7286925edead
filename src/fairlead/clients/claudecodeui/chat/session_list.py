"""What every chat socket is told, whichever session it watches: that a session changed, that lists are made. Pure.

Whoever makes a list of projects tells how far it is with `yield TellHall(HALL, loading(...))`.
"""

from typing import Final

from fairlead.clients.claudecodeui.chat.frames import frame
from fairlead.clients.claudecodeui.rest.project_fields import PROVIDER, Fields, project_fields, session_fields
from fairlead.model.store import Summary
from fairlead.model.timestamps import moment

HALL: Final = "claudecodeui"


def upserted(summary: Summary, at: int) -> Fields:
    native = {"providerSessionId": summary.agent_session} if summary.agent_session else {}
    return {
        "kind": "session_upserted",
        "sessionId": summary.session,
        **native,
        "provider": PROVIDER,
        "session": session_fields(summary),
        "project": project_fields(summary.cwd) if summary.cwd else None,
        "timestamp": moment(at),
    }


def loading(current: int, total: int, project: str = "") -> bytes:
    """So many projects of so many are listed; `project` is the one at hand. With the last, the list is complete."""
    named = {"currentProject": project} if project else {}
    phase = "complete" if current >= total else "loading"
    return frame({"kind": "loading_progress", "phase": phase, "current": current, "total": total, **named})


class ChatSessionList:
    """Implements `model.halls.HallCodec`."""

    key = HALL

    def session(self, summary: Summary, at: int) -> bytes:
        return b"" if summary.archived else frame(upserted(summary, at))


CODEC: Final = ChatSessionList()
