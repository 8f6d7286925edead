"""The data that newer versions of the app store on the server: user settings, drafts, scheduled messages. Pure.

Settings are stored: the app forgets its own copy when the server has none. Drafts are not, because the app has its own
copy. Scheduled messages do not exist: the gateway's schedules start separate agents.
"""

from typing import Any, Final

from fairlead.clients.claudecodeui.rest.responses import SMALL, always, ok, refused
from fairlead.model.web.requests import Response, do
from fairlead.model.web.routes import Request, Routes, Steps, json_response
from fairlead.sessions.api.preferences import ReadPreferences, SavePreferences

CLIENT: Final = "claudecodeui"
NOT_LATER: Final = "Scheduled messages are not supported: send the message now."
_SETTINGS: Final = "/api/user/preferences"
_DRAFTS: Final = "/api/user/drafts"
_LATER: Final = "/api/scheduled-messages"

ROUTES: Final = Routes("claudecodeui.")


@ROUTES.get(_SETTINGS, "view", "preferences")
def read(request: Request) -> Steps:
    kept = yield from do(ReadPreferences(CLIENT))
    return json_response({"success": True, "preferences": kept})


@ROUTES.patch(_SETTINGS, "approve", "preferences.save", body_limit=SMALL)
def save(request: Request) -> Steps:
    yield SavePreferences(CLIENT, request.json(dict[str, Any]))
    return (yield from read(request))


@ROUTES.get(_DRAFTS, "view", "drafts")
@ROUTES.put(_DRAFTS, "view", "drafts.save")
@ROUTES.delete(_DRAFTS, "view", "drafts.delete", body_limit=SMALL)
def drafts(request: Request) -> Response:
    """Answer without a list, which differs from an empty one: the app continues with its own drafts."""
    return json_response({"success": True, "stored": False})


ROUTES.get(_LATER, "view", "scheduled")(always(ok([])))
ROUTES.post(_LATER, "view", "scheduled.make")(always(refused(403, "NOT_HERE", NOT_LATER)))
ROUTES.delete(f"{_LATER}/{{message}}", "view", "scheduled.cancel")(
    always(refused(404, "NOT_FOUND", "The message does not exist."))
)
