"""REST calls of MyLifeDB's page that are not about sessions: login state, folders to choose from, share links. Pure.

The extra port (`--door`) handles the login (HTTP Basic, or a token): a request that gets here is authenticated.
"""

from typing import Any, Final

from fairlead.clients.mylifedb.rest import ONE, with_error_text
from fairlead.model import queries as q
from fairlead.model.errors import NotFound
from fairlead.model.ids import session_id
from fairlead.model.web.requests import Response
from fairlead.model.web.routes import Access, Param, Request, Route, Steps, json_response
from fairlead.sessions.api.folders import FolderPage, ListFolders
from fairlead.sessions.api.session_choices import ReadSessionChoices, SessionChoices

NO_LINKS: Final = "There are no public links here: whoever is to see a session signs in."


def settings(request: Request) -> Steps:
    """Return success: the page takes it for "signed in". The page's preferences are stored in the browser only."""
    yield from ()
    return json_response({"preferences": {}})


def auth_status(request: Request) -> Steps:
    """Always report "logged in": False would open the page's login terminal. An agent without an account reports that
    when it gets a message."""
    yield from ()
    return json_response({"loggedIn": True})


def refresh(request: Request) -> Steps:
    """Return success: the request's own credential was accepted, so there is nothing to refresh."""
    yield from ()
    return json_response({"success": True})


def authorize(request: Request) -> Steps:
    """Handle the page's "Sign In" link: the extra port has already asked for name and password, so open the page."""
    yield from ()
    return Response(status=302, headers=(("location", "../../"),))


@with_error_text("Failed to read directory tree")
def tree(request: Request) -> Steps:
    """List the folders in one folder; the page requests their children separately."""
    around: SessionChoices = yield ReadSessionChoices()
    asked = request.query.get("path", "").rstrip("/")
    base, inside = (asked, "") if asked.startswith("/") else (around.roots[0], asked)
    try:
        page: FolderPage = yield ListFolders(f"{base}/{inside}".rstrip("/") or "/")
    except NotFound:
        return json_response({"basePath": base, "path": inside, "children": []})
    before = f"{inside}/" if inside else ""
    children: list[dict[str, Any]] = [
        {"path": f"{before}{folder.name}", "type": "folder", "children": []} for folder in page.folders
    ]
    return json_response({"basePath": base, "path": inside, "children": children, "truncated": page.more})


@with_error_text("Failed to share session")
def share(request: Request) -> Steps:
    yield q.GetSession(session_id(request.params["session"]))
    return json_response({"error": NO_LINKS}, 403)


@with_error_text("Failed to unshare session")
def unshare(request: Request) -> Steps:
    yield q.GetSession(session_id(request.params["session"]))
    return json_response({"success": True})


def _route(method: str, path: str, access: Access, name: str, handle: Any, about: str, **more: Any) -> Route:
    return Route(method=method, path=path, access=access, name=f"mylifedb.{name}", handle=handle, about=about, **more)


ROUTES: Final = (
    _route("GET", "/api/settings", "any", "settings", settings, "Success for whoever is signed in."),
    _route("GET", "/api/claude/auth-status", "any", "auth_status", auth_status, "Whether the agent has an account."),
    _route("POST", "/api/oauth/refresh", "any", "refresh", refresh, "Success for whoever is signed in."),
    _route("GET", "/api/oauth/authorize", "any", "authorize", authorize, "Back to the page, signed in."),
    _route(
        "GET",
        "/api/library/tree",
        "view",
        "tree",
        tree,
        "The folders that a session may be opened in.",
        query=(Param("path", str, "A folder: absolute, or below the first allowed one, which is the default."),),
    ),
    _route("POST", f"{ONE}/share", "chat", "share", share, "Refused: there are no public links here."),
    _route("DELETE", f"{ONE}/share", "chat", "unshare", unshare, "Nothing is shared: done."),
)
