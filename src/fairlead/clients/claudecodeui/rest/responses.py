"""How REST calls of this protocol answer and refuse, and what opens its routes and sockets. Pure.

Answers are `{success, data}`. Every error is `{success: false, error, code}` with a line of text in `error`: its app
renders that, and dies of anything else. A token that is dead is told as such in a header, whereupon its app forgets it:
nothing else may carry that header. One that is more than half over is replaced.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from msgspec import structs

from fairlead.auth.api.accounts import RenewToken, SignedIn
from fairlead.model.errors import BadId, FairleadError, NotFound
from fairlead.model.ids import SessionId, session_id
from fairlead.model.requests import Response
from fairlead.model.routes import Request, Route, Steps, json_response
from fairlead.model.sockets import SocketRoute

REFRESHED: Final = "x-refreshed-token"
DEAD: Final = {
    "bad_credential": ("AUTH_TOKEN_INVALID", "invalid-token"),
    "expired_credential": ("AUTH_TOKEN_EXPIRED", "session-expired"),
}
"""By the gate's code: this protocol's own, and the header that makes its app sign out."""
SMALL: Final = 64 << 10
"""Bytes of a body that carries names and a few words."""

Handler = Callable[[Request], Steps]


def ok(data: Any, status: int = 200) -> Response:
    return json_response({"success": True, "data": data}, status)


def refused(status: int, code: str, message: str) -> Response:
    return json_response({"success": False, "error": message, "code": code}, status)


def not_found(session: str) -> Response:
    return refused(404, "SESSION_NOT_FOUND", f'Session "{session}" was not found.')


def named_session(request: Request) -> SessionId:
    """BadId for what names none."""
    return session_id(request.params["session"])


def flag(request: Request, name: str) -> bool:
    return request.query.get(name, "").lower() in ("1", "true", "yes")


def bounds(request: Request, usual: int, most: int) -> tuple[int, int]:
    """`limit` and `offset`; what is no number is not there."""

    def number(name: str, default: int) -> int:
        text = request.query.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else default

    return max(1, min(number("limit", usual), most)), number("offset", 0)


def answering(handler: Handler) -> Handler:
    """Errors in this protocol's form, and a new token for who comes with one that is more than half over."""

    @wraps(handler)
    def run(request: Request) -> Steps:
        try:
            answer = yield from handler(request)
        except FairleadError as error:
            answer = worded(request, error)
        if not request.who.expires or not isinstance(answer, Response):
            return answer
        new: SignedIn | None = yield RenewToken()
        if new is None:
            return answer
        return structs.replace(answer, headers=(*answer.headers, (REFRESHED, new.token)))

    return run


def worded(request: Request, error: FairleadError) -> Response:
    if isinstance(error, NotFound | BadId) and error.data.get("what") == "session":
        return not_found(request.params.get("session", ""))
    return refused(error.status, error.code.upper(), error.message)


def denied(status: int, code: str, message: str) -> Response:
    """What the gate refuses, of REST."""
    if status != 401:
        return refused(status, code.upper(), message)
    own, header = DEAD.get(code, ("AUTH_TOKEN_INVALID", ""))
    headers = (("x-auth-error", header),) if header else ()
    return Response(body=json_response({"error": message, "code": own}).body, headers=headers)


def unauthorized(status: int, code: str, message: str) -> Response:
    """What the gate refuses, of sockets: a browser shows nobody what it says."""
    return Response(body=b"Unauthorized" if status == 401 else message.encode(), content_type="text/plain")


def for_users(route: Route) -> Route:
    """Open to those who signed in, in this protocol's words."""
    return structs.replace(route, accounts=True, refused=denied, handle=answering(route.handle))


def socket_for_users(socket: SocketRoute) -> SocketRoute:
    """The token is in the query, which counts first, or the second word of a header."""
    return structs.replace(socket, accounts=True, token_query="token", query_first=True, refused=unauthorized)


def route(method: str, path: str, access: Any, name: str, handle: Handler, about: str, **more: Any) -> Route:
    full = f"claudecodeui.{name}"
    return Route(method=method, path=path, access=access, name=full, handle=handle, about=about, **more)
