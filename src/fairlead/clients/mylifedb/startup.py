"""REST calls of MyLifeDB's page that are not about sessions: login state, folders to choose from, share links. Pure.

The extra port (`--door`) handles the login (HTTP Basic, or a token): a request that gets here is authenticated.
"""

from typing import Any, Final

from fairlead.clients.mylifedb.rest import ONE, with_error_text
from fairlead.model import queries as q
from fairlead.model.errors import NotFound
from fairlead.model.web.requests import Response, do
from fairlead.model.web.routes import Request, Routes, Steps, json_response
from fairlead.sessions.api.folders import ListFolders
from fairlead.sessions.api.session_choices import ReadSessionChoices

routes = Routes("mylifedb.")
NO_LINKS: Final = "This server has no public links. People who should see a session must sign in."


@routes.get("/api/settings", access="any", name="settings")
def settings(request: Request) -> Response:
    """Success for a signed-in user.

    The page takes success for "signed in". The page's preferences are stored in the browser only."""
    return json_response({"preferences": {}})


@routes.get("/api/claude/auth-status", access="any", name="auth_status")
def auth_status(request: Request) -> Response:
    """Whether the agent has an account.

    Always true: False would open the page's login terminal. An agent without an account reports that when
    it gets a message."""
    return json_response({"loggedIn": True})


@routes.post("/api/oauth/refresh", access="any", name="refresh")
def refresh(request: Request) -> Response:
    """Success for a signed-in user.

    The request's own credential was accepted, so there is nothing to refresh."""
    return json_response({"success": True})


@routes.get("/api/oauth/authorize", access="any", name="authorize")
def authorize(request: Request) -> Response:
    """Open the page: the answer to its "Sign In" link.

    The extra port has already asked for name and password."""
    return Response(status=302, headers=(("location", "../../"),))


@routes.get("/api/library/tree", access="view", name="tree")
@with_error_text("Failed to read directory tree")
def tree(request: Request) -> Steps:
    """List the folders that a session may be opened in.

    One level: the page requests the children of each folder separately."""
    around = yield from do(ReadSessionChoices())
    asked = request.query.get("path", "").rstrip("/")
    base, inside = (asked, "") if asked.startswith("/") else (around.roots[0], asked)
    try:
        page = yield from do(ListFolders(f"{base}/{inside}".rstrip("/") or "/"))
    except NotFound:
        return json_response({"basePath": base, "path": inside, "children": []})
    before = f"{inside}/" if inside else ""
    children: list[dict[str, Any]] = [
        {"path": f"{before}{folder.name}", "type": "folder", "children": []} for folder in page.folders
    ]
    return json_response({"basePath": base, "path": inside, "children": children, "truncated": page.more})


@routes.post(f"{ONE}/share", access="chat", name="share")
@with_error_text("Failed to share session")
def share(request: Request) -> Steps:
    """Rejected: this server has no public links."""
    yield q.GetSession(request.session)
    return json_response({"error": NO_LINKS}, 403)


@routes.delete(f"{ONE}/share", access="chat", name="unshare")
@with_error_text("Failed to unshare session")
def unshare(request: Request) -> Steps:
    """Success: this server shares nothing by public links."""
    yield q.GetSession(request.session)
    return json_response({"success": True})
