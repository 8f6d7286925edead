"""Files and git changes of a project, for the app's panels and `@` mentions: read-only. Pure."""

from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import structs

from fairlead.clients.claudecodeui.rest.git_text import branches_of, commits_of, status_of
from fairlead.clients.claudecodeui.rest.project_fields import Fields
from fairlead.clients.claudecodeui.rest.projects import folder_of
from fairlead.clients.claudecodeui.rest.responses import SMALL, always, refused
from fairlead.model.errors import NotFound
from fairlead.model.web.requests import Response, Step, do
from fairlead.model.web.routes import Handler, Request, Routes, Steps, json_response
from fairlead.sessions.api.folders import ListFolders
from fairlead.sessions.api.workspace import FileEntry, GitText, NotRepository, ReadFile, ReadGit, ReadTree

READ_ONLY: Final = "Files and changes are read-only here: ask the agent, or use the shell."
SAVED: Final = (
    ("content-disposition", "attachment"),
    ("x-content-type-options", "nosniff"),
    ("content-security-policy", "default-src 'none'; sandbox"),
)
"""Headers that keep a project's file from becoming a page of this origin."""
PICTURES: Final = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}

ROUTES: Final = Routes("claudecodeui.")
_READ_ONLY: Final = always(refused(403, "READ_ONLY", READ_ONLY))


def _entry(entry: FileEntry) -> Fields:
    moment = datetime.fromtimestamp(entry.modified / 1000, UTC).isoformat().replace("+00:00", "Z")
    fields = {"name": entry.name, "path": entry.path, "size": entry.size, "modified": moment}
    if not entry.folder:
        return {**fields, "type": "file"}
    return {**fields, "type": "directory", "children": [_entry(one) for one in entry.children]}


# --- files


def files(request: Request) -> Steps:
    folder = yield from folder_of(request.params["project"])
    found = yield from do(ReadTree(folder))
    return json_response([_entry(one) for one in found])


def text(request: Request) -> Steps:
    folder = yield from folder_of(request.params["project"])
    path = request.query.get("filePath", "")
    data = yield from do(ReadFile(folder, path))
    return json_response({"content": data.decode(errors="replace"), "path": path})


def content(request: Request) -> Steps:
    folder = yield from folder_of(request.params["project"])
    data = yield from do(ReadFile(folder, request.query.get("path", "")))
    kind = next((kind for head, kind in PICTURES.items() if data.startswith(head)), "application/octet-stream")
    return Response(body=data, content_type=kind, headers=SAVED)


def browse(request: Request) -> Steps:
    """Folders under a path; `~` stands for the allowed roots."""
    path = request.query.get("path", "").strip()
    page = yield from do(ListFolders("" if path in ("", "~") else path))
    found = [{"path": folder.path, "name": folder.name, "type": "directory"} for folder in page.folders]
    return json_response({"path": page.path or "/", "suggestions": found})


def _declare_files(folders: str, tree: str, suffix: str) -> None:
    """Declare the file routes: the path of folders, the path of a project, and the suffix of the routes' names."""
    ROUTES.get(f"{tree}/files", "view", f"files{suffix}")(files)
    ROUTES.get(f"{tree}/file", "view", f"files.text{suffix}")(text)
    ROUTES.get(f"{tree}/files/content", "view", f"files.content{suffix}")(content)
    ROUTES.get(f"{folders}/browse-filesystem", "view", f"folders{suffix}")(browse)
    ROUTES.put(f"{tree}/file", "view", f"files.save{suffix}")(_READ_ONLY)
    ROUTES.delete(f"{tree}/files", "view", f"files.delete{suffix}", body_limit=SMALL)(_READ_ONLY)
    ROUTES.post(f"{tree}/files/{{what}}", "view", f"files.make{suffix}")(_READ_ONLY)
    ROUTES.put(f"{tree}/files/{{what}}", "view", f"files.move{suffix}", body_limit=SMALL)(_READ_ONLY)
    ROUTES.post(f"{folders}/create-folder", "view", f"folders.make{suffix}", body_limit=SMALL)(_READ_ONLY)


_declare_files("/api/file-tree", "/api/file-tree/projects/{project}", "")
_declare_files("/api", "/api/projects/{project}", ".1_36")  # the paths that 1.36 uses


# --- git


GIT: Final = Routes("claudecodeui.git.")


def _with_repository_check(handler: Handler) -> Handler:
    def handle(request: Request) -> Steps:
        try:
            return (yield from handler(request))
        except NotRepository as error:
            return json_response({"error": error.message, "details": error.message, "notGitRepository": True})

    return handle


def _git(request: Request, what: Any, name: str = "", count: int = 0) -> Generator[Step, Any, GitText]:
    """Steps: git's output. Raises NotRepository."""
    folder = yield from folder_of(request.query.get("project", ""))
    return (yield from do(ReadGit(folder, what, name, count)))


def _current(request: Request, name: str) -> Generator[Step, Any, bytes | None]:
    """Steps: the current content of a file; None if it does not exist."""
    try:
        folder = yield from folder_of(request.query.get("project", ""))
        data = yield from do(ReadFile(folder, name))
    except NotFound:
        return None
    return data


@GIT.get("/api/git/status", "view", "status")
def status(request: Request) -> Steps:
    return json_response(status_of((yield from _git(request, "status")).data))


@GIT.get("/api/git/diff", "view", "diff")
def diff(request: Request) -> Steps:
    name = request.query.get("file", "")
    output = yield from _git(request, "diff", name)
    if output.data or not name:
        return json_response({"diff": output.data.decode(errors="replace")})
    # An untracked file: every line is new.
    lines = ((yield from _current(request, name)) or b"").decode(errors="replace").splitlines()
    head = f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,{len(lines)} @@\n" if lines else ""
    return json_response({"diff": head + "\n".join(f"+{line}" for line in lines)})


@GIT.get("/api/git/commits", "view", "commits")
def commits(request: Request) -> Steps:
    output = yield from _git(request, "log", count=request.query_int("limit", 10, 1, 100))
    return json_response({"commits": commits_of(output.data)})


@GIT.get("/api/git/commit-diff", "view", "commit")
def commit(request: Request) -> Steps:
    output = yield from _git(request, "commit", request.query.get("commit", ""))
    return json_response({"diff": output.data.decode(errors="replace")})


@GIT.get("/api/git/branches", "view", "branches")
def branches(request: Request) -> Steps:
    return json_response(branches_of((yield from _git(request, "branches")).data))


@GIT.get("/api/git/remote-status", "view", "remote")
def remote(request: Request) -> Steps:
    """The state of the remote as known locally: nothing is fetched."""
    known = (yield from _git(request, "remotes")).data.decode(errors="replace").split()
    branch = status_of((yield from _git(request, "status")).data)["branch"]
    apart = yield from _git(request, "upstream")
    fields: Fields = {"hasRemote": bool(known), "hasUpstream": apart.ok, "branch": branch}
    if apart.ok:
        ahead, behind = (int(number) for number in apart.data.split())
        fields |= {"ahead": ahead, "behind": behind, "isUpToDate": ahead == behind == 0}
    return json_response({**fields, "remoteName": known[0] if known else ""})


@GIT.get("/api/git/file-with-diff", "view", "both")
def both(request: Request) -> Steps:
    """A file as committed, and its current content."""
    name = request.query.get("file", "")
    old = yield from _git(request, "old", name)
    current = yield from _current(request, name)
    before = old.data.decode(errors="replace") if old.ok else ""
    fields = {"currentContent": (current or b"").decode(errors="replace"), "oldContent": before}
    return json_response({**fields, "isDeleted": current is None, "isUntracked": not old.ok})


ROUTES.extend(structs.replace(route, handle=_with_repository_check(route.handle)) for route in GIT)
ROUTES.post("/api/git/{what}", "view", "git.change", body_limit=SMALL)(_READ_ONLY)
