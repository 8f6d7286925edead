"""The fields of sessions and projects in lists: the same in REST and in broadcasts. Pure.

A project is a folder in which sessions worked; its id is derived from its path, so that it need not be stored.
"""

import hashlib
from typing import Any, Final

from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.store import Summary
from fairlead.sessions.api.folders import UNMARKED, FolderMarks

PROVIDER: Final = "claude"
"""This protocol's name for Fairlead's agents; the app has no name for the demo agent."""
UNTITLED: Final = "Untitled Session"

Fields = dict[str, Any]


def project_id(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:32]


def project_fields(path: str, marks: FolderMarks = UNMARKED) -> Fields:
    name = marks.name or path.rstrip("/").rpartition("/")[2] or path
    fields = {"projectId": project_id(path), "path": path, "fullPath": path, "displayName": name}
    return {**fields, "isStarred": marks.starred}


def session_fields(summary: Summary) -> Fields:
    """A session's fields. `messageCount` is 0, as in the original: the app counts the messages that it has loaded."""
    title = summary.title or UNTITLED
    return {"id": summary.session, "summary": title, "messageCount": 0, "lastActivity": iso_timestamp(summary.updated)}
