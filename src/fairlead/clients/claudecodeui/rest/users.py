"""Signing in: status, login, registration by invitation, renewal of the token. Pure.

The first visitor does not become a user: `needsSetup` is never true, and `register` needs an invitation. An error is a
line of text here, which the app shows unchanged.
"""

from typing import Final

import msgspec

from fairlead.auth.api.credentials import AcceptInvitation, BadInvitation, RenewToken, SignedIn, SignIn
from fairlead.clients.claudecodeui.rest import invite
from fairlead.clients.claudecodeui.rest.responses import SMALL, always, refused
from fairlead.model.web.requests import Response, do
from fairlead.model.web.routes import Request, Routes, Steps, json_response

ROUTES: Final = Routes("claudecodeui.")


class LoginBody(msgspec.Struct, frozen=True):
    username: str
    password: str


class RegisterBody(LoginBody, frozen=True):
    invitation: str = ""


ROUTES.get("/api/auth/status", "public", "auth.status", body_limit=0)(
    always(json_response({"needsSetup": False, "isAuthenticated": False}))
)
ROUTES.get(invite.PATH, "public", "invite", body_limit=0)(always(invite.PAGE))
# Setup is done where the gateway is started.
ROUTES.get("/api/user/onboarding-status", "any", "onboarding")(
    always(json_response({"success": True, "hasCompletedOnboarding": True}))
)


@ROUTES.post("/api/auth/login", "public", "auth.login", body_limit=SMALL)
def login(request: Request) -> Steps:
    body = request.json(LoginBody)
    return _signed_in((yield SignIn(_name(body.username), body.password, request.head.peer)))


@ROUTES.post("/api/auth/register", "public", "auth.register", body_limit=SMALL)
def register(request: Request) -> Steps:
    body = request.json(RegisterBody)
    if not body.invitation:
        raise BadInvitation
    return _signed_in((yield AcceptInvitation(body.invitation, _name(body.username), body.password)))


@ROUTES.get("/api/auth/user", "any", "auth.user")
def user(request: Request) -> Response:
    # The user of a token that a person made for a script has no number here.
    _, _, number = request.who.credential.partition(":")
    fields = {"id": int(number) if request.who.expires else 0, "username": request.who.user}
    return json_response({"user": fields})


@ROUTES.post("/api/auth/refresh", "any", "auth.refresh", body_limit=SMALL)
def refresh(request: Request) -> Steps:
    new = yield from do(RenewToken(now=True))
    if new is None:
        return refused(400, "NOT_RENEWABLE", "Only the token of a user who signed in is renewed.")
    return json_response({"token": new.token})


def _name(username: str) -> str:
    """Normalise a user name: phones capitalise the first character."""
    return username.strip().lower()


def _signed_in(found: SignedIn) -> Response:
    return json_response({"success": True, "user": {"id": found.id, "username": found.name}, "token": found.token})
