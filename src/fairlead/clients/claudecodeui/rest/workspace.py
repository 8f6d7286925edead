"""Files and git changes of a project, for the app's panels and `@` mentions: read-only. Pure."""

from datetime import UTC, datetime
from typing import Any, Final

from fairlead.clients.claudecodeui.rest.git_text import branches_of, commits_of, status_of
from fairlead.clients.claudecodeui.rest.project_fields import Fields
from fairlead.clients.claudecodeui.rest.projects import folder_of
from fairlead.clients.claudecodeui.rest.responses import SMALL, Handler, refused, route
from fairlead.model.errors import NotFound
from fairlead.model.web.requests import Response
from fairlead.model.web.routes import Param, Request, Route, Steps, json_response
from fairlead.sessions.api.folders import FolderPage, ListFolders
from fairlead.sessions.api.workspace import FileEntry, GitText, NotRepository, ReadFile, ReadGit, ReadTree

TREES: Final = (
    ("/api/file-tree", "/api/file-tree/projects/{project}", ""),
    ("/api", "/api/projects/{project}", ".1_36"),
)
"""For each set of file routes: the path of folders, the path of a project, and the suffix of the routes' names. The
second set is the one that 1.36 uses."""
GIT: Final = "/api/git"
NO_REPOSITORY: Final = "This folder is not in a git repository."
READ_ONLY: Final = "Here files and changes are shown and not changed: ask the agent, or use the shell."
SAVED: Final = (
    ("content-disposition", "attachment"),
    ("x-content-type-options", "nosniff"),
    ("content-security-policy", "default-src 'none'; sandbox"),
)
"""Headers that keep a project's file from becoming a page of this origin."""
PICTURES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
}


def _entry(entry: FileEntry) -> Fields:
    moment = datetime.fromtimestamp(entry.modified / 1000, UTC).isoformat().replace("+00:00", "Z")
    fields = {"name": entry.name, "path": entry.path, "size": entry.size, "modified": moment}
    if not entry.folder:
        return {**fields, "type": "file"}
    return {**fields, "type": "directory", "children": [_entry(one) for one in entry.children]}


def files(request: Request) -> Steps:
    folder: str = yield from folder_of(request.params["project"])
    found: tuple[FileEntry, ...] = yield ReadTree(folder)
    return json_response([_entry(one) for one in found])


def text(request: Request) -> Steps:
    folder: str = yield from folder_of(request.params["project"])
    path = request.query.get("filePath", "")
    data: bytes = yield ReadFile(folder, path)
    return json_response({"content": data.decode(errors="replace"), "path": path})


def content(request: Request) -> Steps:
    folder: str = yield from folder_of(request.params["project"])
    data: bytes = yield ReadFile(folder, request.query.get("path", ""))
    kind = next((kind for head, kind in PICTURES.items() if data.startswith(head)), "application/octet-stream")
    return Response(body=data, content_type=kind, headers=SAVED)


def browse(request: Request) -> Steps:
    """Folders under a path; `~` stands for the allowed roots."""
    path = request.query.get("path", "").strip()
    page: FolderPage = yield ListFolders("" if path in ("", "~") else path)
    found = [{"path": folder.path, "name": folder.name, "type": "directory"} for folder in page.folders]
    return json_response({"path": page.path or "/", "suggestions": found})


def _git(request: Request, what: Any, name: str = "", count: int = 0) -> Any:
    """Steps: git's output; None without a repository."""
    folder: str = yield from folder_of(request.query.get("project", ""))
    output: GitText | NotRepository = yield ReadGit(folder, what, name, count)
    return output if isinstance(output, GitText) else None


def _no_repository() -> Response:
    return json_response({"error": NO_REPOSITORY, "details": NO_REPOSITORY, "notGitRepository": True})


def status(request: Request) -> Steps:
    output: GitText | None = yield from _git(request, "status")
    return _no_repository() if output is None else json_response(status_of(output.data))


def diff(request: Request) -> Steps:
    name = request.query.get("file", "")
    output: GitText | None = yield from _git(request, "diff", name)
    if output is None:
        return _no_repository()
    if output.data or not name:
        return json_response({"diff": output.data.decode(errors="replace")})
    # An untracked file: every line is new.
    lines: list[str] = []
    try:
        folder: str = yield from folder_of(request.query.get("project", ""))
        data: bytes = yield ReadFile(folder, name)
        lines = data.decode(errors="replace").splitlines()
    except NotFound:
        pass
    head = f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,{len(lines)} @@\n" if lines else ""
    return json_response({"diff": head + "\n".join(f"+{line}" for line in lines)})


def commits(request: Request) -> Steps:
    output: GitText | None = yield from _git(request, "log", count=request.query_int("limit", 10, 1, 100))
    return _no_repository() if output is None else json_response({"commits": commits_of(output.data)})


def commit(request: Request) -> Steps:
    output: GitText | None = yield from _git(request, "commit", request.query.get("commit", ""))
    return _no_repository() if output is None else json_response({"diff": output.data.decode(errors="replace")})


def branches(request: Request) -> Steps:
    output: GitText | None = yield from _git(request, "branches")
    return _no_repository() if output is None else json_response(branches_of(output.data))


def remote(request: Request) -> Steps:
    """The state of the remote as known locally: nothing is fetched."""
    names: GitText | None = yield from _git(request, "remotes")
    if names is None:
        return _no_repository()
    now: GitText = yield from _git(request, "status")
    apart: GitText = yield from _git(request, "upstream")
    known = names.data.decode(errors="replace").split()
    fields: Fields = {"hasRemote": bool(known), "hasUpstream": apart.ok, "branch": status_of(now.data)["branch"]}
    if apart.ok:
        ahead, behind = (int(number) for number in apart.data.split())
        fields |= {"ahead": ahead, "behind": behind, "isUpToDate": ahead == behind == 0}
    return json_response({**fields, "remoteName": known[0] if known else ""})


def both(request: Request) -> Steps:
    """A file as committed, and its current content."""
    name = request.query.get("file", "")
    old: GitText | None = yield from _git(request, "old", name)
    if old is None:
        return _no_repository()
    current, there = b"", True
    try:
        folder: str = yield from folder_of(request.query.get("project", ""))
        current = yield ReadFile(folder, name)
    except NotFound:
        there = False
    before = old.data.decode(errors="replace") if old.ok else ""
    fields = {"currentContent": current.decode(errors="replace"), "oldContent": before}
    return json_response({**fields, "isDeleted": not there, "isUntracked": not old.ok})


def read_only(request: Request) -> Steps:
    yield from ()
    return refused(403, "READ_ONLY", READ_ONLY)


_PROJECT: Final = Param("project", str, "The project's id.", required=True)
_FILE: Final = Param("file", str, "The file, from the project's folder.")


def _files(folders: str, tree: str, mark: str) -> tuple[Route, ...]:
    def at(method: str, path: str, name: str, handle: Handler, about: str, **more: Any) -> Route:
        return route(method, path, "view", name + mark, handle, about, **more)

    no = "Nothing is changed."
    return (
        at("GET", f"{tree}/files", "files", files, "What is in a project's folder."),
        at("GET", f"{tree}/file", "files.text", text, "A file, as text.", query=(Param("filePath"),)),
        at("GET", f"{tree}/files/content", "files.content", content, "A file's bytes.", query=(Param("path"),)),
        at("GET", f"{folders}/browse-filesystem", "folders", browse, "Folders.", query=(Param("path"),)),
        at("PUT", f"{tree}/file", "files.save", read_only, no),
        at("DELETE", f"{tree}/files", "files.delete", read_only, no, body_limit=SMALL),
        at("POST", f"{tree}/files/{{what}}", "files.make", read_only, no),
        at("PUT", f"{tree}/files/{{what}}", "files.move", read_only, no, body_limit=SMALL),
        at("POST", f"{folders}/create-folder", "folders.make", read_only, "No.", body_limit=SMALL),
    )


ROUTES: Final = (
    *(one for trees in TREES for one in _files(*trees)),
    route("GET", f"{GIT}/status", "view", "git.status", status, "What is not committed.", query=(_PROJECT,)),
    route("GET", f"{GIT}/diff", "view", "git.diff", diff, "Of one file.", query=(_PROJECT, _FILE)),
    route("GET", f"{GIT}/commits", "view", "git.commits", commits, "The last ones.", query=(_PROJECT, Param("limit"))),
    route("GET", f"{GIT}/commit-diff", "view", "git.commit", commit, "One.", query=(_PROJECT, Param("commit"))),
    route("GET", f"{GIT}/branches", "view", "git.branches", branches, "All of them.", query=(_PROJECT,)),
    route("GET", f"{GIT}/remote-status", "view", "git.remote", remote, "Nothing is fetched.", query=(_PROJECT,)),
    route("GET", f"{GIT}/file-with-diff", "view", "git.both", both, "Before and now.", query=(_PROJECT, _FILE)),
    route("POST", f"{GIT}/{{what}}", "view", "git.change", read_only, "Nothing is changed.", body_limit=SMALL),
)
