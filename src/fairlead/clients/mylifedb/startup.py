"""REST calls of MyLifeDB's page that are not about sessions: login state, folders to choose from, and share links.
Pure.

The extra port (`--door`) handles the login (HTTP Basic, or a token): a request that gets here is authenticated.
"""

from typing import Any, Final

from fairlead.clients.mylifedb.rest import ONE, perform, with_error_text
from fairlead.model import queries as q
from fairlead.model.errors import NotFound
from fairlead.model.web.requests import Response, do
from fairlead.model.web.routes import Request, Routes, Steps, json_response
from fairlead.sessions.api.folders import ListFolders, ReadSessionChoices

routes = Routes("mylifedb.")
NO_LINKS: Final = "This server has no public links. People who should see a session must sign in."


# The page takes success for "signed in". Its preferences are stored in the browser only.
routes.get("/api/settings", "any", "settings")(lambda request: json_response({"preferences": {}}))
# False would open the page's login terminal. An agent without an account reports that when it gets a message.
routes.get("/api/claude/auth-status", "any", "auth_status")(lambda request: json_response({"loggedIn": True}))
# The request's own credential was accepted, so there is nothing to refresh.
routes.post("/api/oauth/refresh", "any", "refresh")(lambda request: json_response({"success": True}))
# Open the page: the extra port has already asked for name and password.
routes.get("/api/oauth/authorize", "any", "authorize")(
    lambda request: Response(status=302, headers=(("location", "../../"),))
)


@routes.get("/api/library/tree", "view", "tree")
@with_error_text("Failed to read directory tree")
def tree(request: Request) -> Steps:
    """One level of folders: the page requests the children of each folder separately."""
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


@routes.post(f"{ONE}/share", "chat", "share")
@with_error_text("Failed to share session")
def share(request: Request) -> Steps:
    yield q.GetSession(request.session)
    return json_response({"error": NO_LINKS}, 403)


routes.delete(f"{ONE}/share", "chat", "unshare")(perform("unshare", lambda request: q.GetSession(request.session)))
