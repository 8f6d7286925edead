"""Signing in: status, login, the account that an invitation makes, the token's renewal. Pure.

Nobody becomes a user by being the first to come: `needsSetup` is never true, and `register` wants an invitation. Errors
are a line of text here, which its app shows as it is.
"""

from typing import Any, Final

import msgspec

from fairlead.auth.api.accounts import AcceptInvitation, BadInvitation, RenewToken, SignedIn, SignIn, TooManyAttempts
from fairlead.clients.claudecodeui.rest import invite
from fairlead.clients.claudecodeui.rest.responses import SMALL, refused, route
from fairlead.model.errors import FairleadError
from fairlead.model.requests import Response
from fairlead.model.routes import Request, Steps, json_response


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
        return _told(error)
    return _signed_in(found)


def register(request: Request) -> Steps:
    try:
        body = request.json(RegisterBody)
        if not body.invitation:
            raise BadInvitation
        found: SignedIn = yield AcceptInvitation(body.invitation, _name(body.username), body.password)
    except FairleadError as error:
        return _told(error)
    return _signed_in(found)


def user(request: Request) -> Steps:
    # Of a token that a person made for a script the user has no number here.
    _, _, number = request.who.credential.partition(":")
    told = {"id": int(number) if request.who.expires else 0, "username": request.who.user}
    yield from ()
    return json_response({"user": told})


def refresh(request: Request) -> Steps:
    new: SignedIn | None = yield RenewToken(now=True)
    if new is None:
        return refused(400, "NOT_RENEWABLE", "Only the token of a user who signed in is renewed.")
    return json_response({"token": new.token})


def onboarding(request: Request) -> Steps:
    """There is nothing to set up: that was done where the gateway was started."""
    yield from ()
    return json_response({"success": True, "hasCompletedOnboarding": True})


def page(request: Request) -> Steps:
    yield from ()
    return invite.PAGE


def _name(username: str) -> str:
    """Phones write the first letter large."""
    return username.strip().lower()


def _signed_in(found: SignedIn) -> Response:
    told: dict[str, Any] = {"id": found.id, "username": found.name}
    return json_response({"success": True, "user": told, "token": found.token})


def _told(error: FairleadError) -> Response:
    wait = (("retry-after", str(error.seconds)),) if isinstance(error, TooManyAttempts) else ()
    told = json_response({"success": False, "error": error.message, "code": error.code.upper()}, error.status)
    return Response(status=told.status, body=told.body, headers=wait)


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
