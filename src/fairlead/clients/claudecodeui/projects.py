"""REST for projects, which are the folders that sessions worked in: from the index of sessions, in one go. Pure."""

from typing import Any, Final

import msgspec

from fairlead.clients.claudecodeui.chat_hall import HALL, loading
from fairlead.clients.claudecodeui.places import PROVIDER, Fields, project_fields, project_id, session_fields
from fairlead.clients.claudecodeui.rest import SMALL, bounds, ok, refused, route
from fairlead.model import queries as q
from fairlead.model.halls import TellHall
from fairlead.model.routes import Param, Request, Steps, json_response
from fairlead.model.store import Summary
from fairlead.model.surroundings import ListFolder, ReadSurroundings, Surroundings

PATH: Final = "/api/projects"
SESSIONS: Final = 20
"""Sessions of a project that a list shows, as many as the original's."""
MOST: Final = 200


class NewProject(msgspec.Struct, frozen=True):
    path: str = ""


def _session(summary: Summary) -> Fields:
    return {**session_fields(summary), "provider": PROVIDER}


def _project(path: str, sessions: list[Summary]) -> Fields:
    shown = [_session(one) for one in sessions[:SESSIONS]]
    meta = {"hasMore": len(sessions) > SESSIONS, "total": len(sessions)}
    return {**project_fields(path), "sessions": shown, "sessionMeta": meta}


def _by_folder() -> Any:
    """Steps: the sessions of each folder, newest first; then the folders that have none yet."""
    found: dict[str, list[Summary]] = {}
    for summary in (yield from q.every_session()):
        if summary.cwd:
            found.setdefault(summary.cwd, []).append(summary)
    around: Surroundings = yield ReadSurroundings()
    for folder in (*around.folders, *around.roots):
        found.setdefault(folder, [])
    return found


def projects(request: Request) -> Steps:
    """Told to all chat sockets twice, however many there are: that it begins, and that it is complete."""
    yield TellHall(HALL, loading(0, 1))
    found: dict[str, list[Summary]] = yield from _by_folder()
    told = [_project(path, sessions) for path, sessions in found.items()]
    yield TellHall(HALL, loading(len(told), len(told)))
    return json_response(told)


def sessions(request: Request) -> Steps:
    """More of one project's sessions."""
    limit, offset = bounds(request, SESSIONS, MOST)
    wanted = request.params["project"]
    found: dict[str, list[Summary]] = yield from _by_folder()
    for path, own in found.items():
        if project_id(path) == wanted:
            page = [_session(one) for one in own[offset : offset + limit]]
            meta = {"hasMore": offset + limit < len(own), "total": len(own)}
            return json_response({"sessions": page, "sessionMeta": meta})
    return refused(404, "PROJECT_NOT_FOUND", "There is no such project.")


def create(request: Request) -> Steps:
    """Put a folder on the list that has no session yet."""
    path = request.json(NewProject).path.strip()
    if not path:
        return refused(400, "PROJECT_PATH_REQUIRED", "path is required.")
    folder: str = yield ListFolder(path)
    return json_response({"success": True, "project": _project(folder, [])})


def archived(request: Request) -> Steps:
    """Sessions are archived here, projects are not."""
    yield from ()
    return ok({"projects": []})


ROUTES: Final = (
    route("GET", PATH, "view", "projects", projects, f"All projects, each with its newest {SESSIONS} sessions."),
    route("GET", f"{PATH}/archived", "view", "projects.archived", archived, "Always none."),
    route(
        "GET",
        f"{PATH}/{{project}}/sessions",
        "view",
        "projects.sessions",
        sessions,
        "Sessions of one project.",
        query=(Param("limit", int, f"At most so many, up to {MOST}."), Param("offset", int, "After so many.")),
    ),
    route("POST", f"{PATH}/create-project", "chat", "projects.create", create, "List a folder.", body_limit=SMALL),
)
