"""Sessions as the list of an editor shows them. Pure."""

from typing import Final

from fairlead.clients.acp.wire import Fields
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.store import Summary

TITLE_LENGTH: Final = 120


def listed_session(summary: Summary) -> Fields:
    """`_meta.fairlead.state` is `transcript` for a session that only its agent's file has: it opens like others."""
    title = summary.title or " ".join(summary.first_prompt.split())[:TITLE_LENGTH]
    return {
        "sessionId": summary.session,
        "cwd": summary.cwd,
        "title": title or None,
        "updatedAt": iso_timestamp(summary.updated),
        "_meta": {"fairlead": {"state": summary.state, "agent": summary.agent}},
    }
