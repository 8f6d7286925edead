"""Signing in: status, login, registration by invitation, renewal of the token. Pure.

The first visitor does not become a user: `needsSetup` is never true, and `register` needs an invitation. An error is a
line of text here, which the app shows unchanged.
"""

from typing import Any, Final

import msgspec

from fairlead.auth.api.accounts import AcceptInvitation, BadInvitation, RenewToken, SignedIn, SignIn, TooManyAttempts
from fairlead.clients.claudecodeui.rest import invite
from fairlead.clients.claudecodeui.rest.responses import SMALL, refused, route
from fairlead.model.errors import FairleadError
from fairlead.model.web.requests import Response
from fairlead.model.web.routes import Request, Steps, json_response


class LoginBody(msgspec.Struct, frozen=True):
    username: str
    password: str


class RegisterBody(msgspec.Struct, frozen=True):
    username: str
    password: str
    invitation: str = ""


def status(request: Request) -> Steps:
    yield from ()
    return json_response({"needsSetup": False, "isAuthenticated": False})


def login(request: Request) -> Steps:
    try:
        body = request.json(LoginBody)
        found: SignedIn = yield SignIn(_name(body.username), body.password, request.head.peer)
    except FairleadError as error:
        return _error_response(error)
    return _signed_in(found)


def register(request: Request) -> Steps:
    try:
        body = request.json(RegisterBody)
        if not body.invitation:
            raise BadInvitation
        found: SignedIn = yield AcceptInvitation(body.invitation, _name(body.username), body.password)
    except FairleadError as error:
        return _error_response(error)
    return _signed_in(found)


def user(request: Request) -> Steps:
    # The user of a token that a person made for a script has no number here.
    _, _, number = request.who.credential.partition(":")
    fields = {"id": int(number) if request.who.expires else 0, "username": request.who.user}
    yield from ()
    return json_response({"user": fields})


def refresh(request: Request) -> Steps:
    new: SignedIn | None = yield RenewToken(now=True)
    if new is None:
        return refused(400, "NOT_RENEWABLE", "Only the token of a user who signed in is renewed.")
    return json_response({"token": new.token})


def onboarding(request: Request) -> Steps:
    """Always complete: setup is done where the gateway is started."""
    yield from ()
    return json_response({"success": True, "hasCompletedOnboarding": True})


def page(request: Request) -> Steps:
    yield from ()
    return invite.PAGE


def _name(username: str) -> str:
    """Normalise a user name: phones capitalise the first character."""
    return username.strip().lower()


def _signed_in(found: SignedIn) -> Response:
    fields: dict[str, Any] = {"id": found.id, "username": found.name}
    return json_response({"success": True, "user": fields, "token": found.token})


def _error_response(error: FairleadError) -> Response:
    wait = (("retry-after", str(error.seconds)),) if isinstance(error, TooManyAttempts) else ()
    response = json_response({"success": False, "error": error.message, "code": error.code.upper()}, error.status)
    return Response(status=response.status, body=response.body, headers=wait)


ROUTES: Final = (
    route("GET", "/api/auth/status", "public", "auth.status", status, "Whether somebody has to sign in.", body_limit=0),
    route(
        "POST", "/api/auth/login", "public", "auth.login", login, "Name and password in, token out.", body_limit=SMALL
    ),
    route(
        "POST",
        "/api/auth/register",
        "public",
        "auth.register",
        register,
        "Make the user whom an invitation is for.",
        body_limit=SMALL,
    ),
    route("GET", invite.PATH, "public", "invite", page, "The page that an invitation's link opens.", body_limit=0),
    route("GET", "/api/auth/user", "any", "auth.user", user, "Who you are."),
    route("POST", "/api/auth/refresh", "any", "auth.refresh", refresh, "A new token for yours.", body_limit=SMALL),
    route("GET", "/api/user/onboarding-status", "any", "onboarding", onboarding, "Done, always."),
)
