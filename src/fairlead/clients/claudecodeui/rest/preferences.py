"""The data that newer versions of the app store on the server: user settings, drafts, scheduled messages. Pure.

Settings are stored: the app forgets its own copy when the server has none. Drafts are not, because the app has its own
copy. Scheduled messages do not exist: the gateway's schedules start separate agents.
"""

from typing import Any, Final

from fairlead.clients.claudecodeui.rest.responses import SMALL, ok, refused, route
from fairlead.model.web.routes import Request, Steps, json_response
from fairlead.sessions.api.preferences import ReadPreferences, SavePreferences

CLIENT: Final = "claudecodeui"
NOT_LATER: Final = "Messages cannot be sent later here: send it now."


def read(request: Request) -> Steps:
    kept: dict[str, Any] = yield ReadPreferences(CLIENT)
    return json_response({"success": True, "preferences": kept})


def save(request: Request) -> Steps:
    yield SavePreferences(CLIENT, request.json(dict[str, Any]))
    kept: dict[str, Any] = yield ReadPreferences(CLIENT)
    return json_response({"success": True, "preferences": kept})


def drafts(request: Request) -> Steps:
    """Answer without a list, which differs from an empty one: the app continues with its own drafts."""
    yield from ()
    return json_response({"success": True, "stored": False})


def scheduled(request: Request) -> Steps:
    yield from ()
    return ok([])


def schedule(request: Request) -> Steps:
    yield from ()
    return refused(403, "NOT_HERE", NOT_LATER)


def unschedule(request: Request) -> Steps:
    yield from ()
    return refused(404, "NOT_FOUND", "There is no such message.")


_SETTINGS: Final = "/api/user/preferences"
_DRAFTS: Final = "/api/user/drafts"
_LATER: Final = "/api/scheduled-messages"

ROUTES: Final = (
    route("GET", _SETTINGS, "view", "preferences", read, "The user's settings of the app."),
    route("PATCH", _SETTINGS, "approve", "preferences.save", save, "Some of them anew.", body_limit=SMALL),
    route("GET", _DRAFTS, "view", "drafts", drafts, "They stay in the browser."),
    route("PUT", _DRAFTS, "view", "drafts.save", drafts, "They stay in the browser."),
    route("DELETE", _DRAFTS, "view", "drafts.delete", drafts, "They stay in the browser.", body_limit=SMALL),
    route("GET", _LATER, "view", "scheduled", scheduled, "None."),
    route("POST", _LATER, "view", "scheduled.make", schedule, "No."),
    route("DELETE", f"{_LATER}/{{message}}", "view", "scheduled.cancel", unschedule, "None."),
)
