"""The signed-in user, which Cognova's page requests at its start. Pure.

The original's page signs in itself and keeps a cookie; here only the credential of the request exists (HTTP Basic on a
door, or a token), so the session never expires before the credential, and signing out is not offered.
"""

from typing import Any, Final

from fairlead.clients.cognova.rest import new_routes
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.web.requests import Response
from fairlead.model.web.routes import Request, json_response

ROUTES: Final = new_routes()


@ROUTES.get("/api/auth/get-session", "any", "auth.get-session", body_limit=0)
def session(request: Request) -> Response:
    who, now = request.who, iso_timestamp(request.at)
    user: dict[str, Any] = {"id": who.user, "name": who.name, "email": "", "emailVerified": False, "image": None}
    expires = iso_timestamp(who.expires) if who.expires else None
    signed: dict[str, Any] = {"id": who.credential, "userId": who.user, "expiresAt": expires}
    times = {"createdAt": now, "updatedAt": now}
    return json_response({"session": signed | times, "user": user | times})
