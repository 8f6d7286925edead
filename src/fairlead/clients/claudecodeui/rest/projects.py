"""REST for projects, the folders in which sessions worked: all from one read of the index of sessions. Pure."""

from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

from msgspec import structs

from fairlead.clients.claudecodeui.chat.session_list import CHANNEL, loading
from fairlead.clients.claudecodeui.rest.project_fields import (
    PROVIDER,
    Fields,
    project_fields,
    project_id,
    session_fields,
)
from fairlead.clients.claudecodeui.rest.responses import SMALL, body_text, bounds, ok, refused
from fairlead.model import queries as q
from fairlead.model.errors import NotFound
from fairlead.model.store import Summary
from fairlead.model.web.broadcast import Broadcast
from fairlead.model.web.requests import Step, do
from fairlead.model.web.routes import Request, Routes, Steps, json_response
from fairlead.sessions.api.folders import UNMARKED, FolderMarks, ListFolder, MarkFolder, ReadSessionChoices

PATH: Final = "/api/projects"
ONE: Final = f"{PATH}/{{project}}"
NAME: Final = 100
"""Maximum characters of a project's name."""
SESSIONS: Final = 20
"""Number of a project's sessions in a list, as in the original."""
MOST: Final = 200

Sessions = dict[str, list[Summary]]

ROUTES: Final = Routes("claudecodeui.")


def _session(summary: Summary) -> Fields:
    return {**session_fields(summary), "provider": PROVIDER}


def _project(path: str, sessions: list[Summary], marks: FolderMarks = UNMARKED) -> Fields:
    shown = [_session(one) for one in sessions[:SESSIONS]]
    meta = {"hasMore": len(sessions) > SESSIONS, "total": len(sessions)}
    return {**project_fields(path, marks), "sessions": shown, "sessionMeta": meta}


def _by_folder() -> Generator[Step, Any, tuple[Sessions, Mapping[str, FolderMarks]]]:
    """Steps: the sessions of each folder, newest first, then the folders that have none yet; and the user's marks."""
    found: Sessions = {}
    for summary in (yield from q.every_session()):
        if summary.cwd:
            found.setdefault(summary.cwd, []).append(summary)
    choices = yield from do(ReadSessionChoices())
    for folder in (*choices.folders, *choices.roots):
        found.setdefault(folder, [])
    return found, choices.marks


def _project_of(project: str) -> Generator[Step, Any, tuple[str, list[Summary], FolderMarks]]:
    """Steps: the folder of a project's id, its sessions and the user's marks of it. Raises NotFound."""
    found, marks = yield from _by_folder()
    for path, sessions in found.items():
        if project_id(path) == project:
            return path, sessions, marks.get(path, UNMARKED)
    raise NotFound("project", project)


def folder_of(project: str) -> Generator[Step, Any, str]:
    return (yield from _project_of(project))[0]


@ROUTES.get(PATH, "view", "projects")
def projects(request: Request) -> Steps:
    """The list of projects. All chat sockets are notified twice, however long it is: of its start and its end."""
    yield Broadcast(CHANNEL, loading(0, 1))
    found, marks = yield from _by_folder()
    listed = [
        _project(path, sessions, marks.get(path, UNMARKED))
        for path, sessions in found.items()
        if not marks.get(path, UNMARKED).archived
    ]
    yield Broadcast(CHANNEL, loading(len(listed), len(listed)))
    return json_response(listed)


@ROUTES.get(f"{ONE}/sessions", "view", "projects.sessions")
def sessions(request: Request) -> Steps:
    limit, offset = bounds(request, SESSIONS, MOST)
    try:
        _, own, _ = yield from _project_of(request.params["project"])
    except NotFound:
        return refused(404, "PROJECT_NOT_FOUND", "There is no such project.")
    page = [_session(one) for one in own[offset : offset + limit]]
    meta = {"hasMore": offset + limit < len(own), "total": len(own)}
    return json_response({"sessions": page, "sessionMeta": meta})


@ROUTES.post(f"{PATH}/create-project", "chat", "projects.create", body_limit=SMALL)
def create(request: Request) -> Steps:
    """Add a folder without sessions to the list."""
    path = body_text(request, "path").strip()
    if not path:
        return refused(400, "PROJECT_PATH_REQUIRED", "path is required.")
    folder = yield from do(ListFolder(path))
    return json_response({"success": True, "project": _project(folder, [])})


@ROUTES.get(f"{PATH}/archived", "view", "projects.archived")
def archived(request: Request) -> Steps:
    found, marks = yield from _by_folder()
    listed = [
        {**_project(path, own, marks[path]), "isArchived": True}
        for path, own in found.items()
        if path in marks and marks[path].archived
    ]
    return ok({"projects": listed})


def _marked(request: Request, change: Callable[[FolderMarks], FolderMarks]) -> Generator[Step, Any, FolderMarks]:
    """Steps: change the calling user's marks of the project in the path, and return them."""
    folder, _, before = yield from _project_of(request.params["project"])
    marks = change(before)
    yield MarkFolder(folder, marks)
    return marks


@ROUTES.post(f"{ONE}/toggle-star", "chat", "projects.star", body_limit=SMALL)
def star(request: Request) -> Steps:
    marks = yield from _marked(request, lambda old: structs.replace(old, starred=not old.starred))
    return json_response({"success": True, "isStarred": marks.starred})


@ROUTES.put(f"{ONE}/rename", "chat", "projects.rename", body_limit=SMALL)
def rename(request: Request) -> Steps:
    name = " ".join(body_text(request, "displayName").split())[:NAME]
    yield from _marked(request, lambda old: structs.replace(old, name=name))
    return json_response({"success": True})


@ROUTES.delete(ONE, "chat", "projects.archive")
def archive(request: Request) -> Steps:
    """Remove a project from this user's list. Sessions and files stay, whatever the request's options are."""
    yield from _marked(request, lambda old: structs.replace(old, archived=True))
    return json_response({"success": True, "action": "archived"})


@ROUTES.post(f"{ONE}/restore", "chat", "projects.restore", body_limit=SMALL)
def restore(request: Request) -> Steps:
    yield from _marked(request, lambda old: structs.replace(old, archived=False))
    return json_response({"success": True, "isArchived": False})
