"""Sessions and their projects as lists tell them: the same in REST and in what is broadcast. Pure.

A project is a folder that sessions worked in; its id is derived from its path, so that nobody has to keep it.
"""

import hashlib
from typing import Any, Final

from fairlead.model.store import Summary
from fairlead.model.timestamps import moment
from fairlead.sessions.api.session_choices import UNMARKED, FolderMarks

PROVIDER: Final = "claude"
"""What this protocol calls our agents; its app knows no name for the demo."""
UNTITLED: Final = "Untitled Session"

Fields = dict[str, Any]


def project_id(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:32]


def project_fields(path: str, marks: FolderMarks = UNMARKED) -> Fields:
    name = marks.name or path.rstrip("/").rpartition("/")[2] or path
    told = {"projectId": project_id(path), "path": path, "fullPath": path, "displayName": name}
    return {**told, "isStarred": marks.starred}


def session_fields(summary: Summary) -> Fields:
    """`messageCount` is 0, as the original has it: its app counts what it has loaded."""
    title = summary.title or UNTITLED
    return {"id": summary.session, "summary": title, "messageCount": 0, "lastActivity": moment(summary.updated)}
