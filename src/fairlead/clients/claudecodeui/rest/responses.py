"""Success and error responses of this protocol's REST calls, and the credentials for its routes and sockets. Pure.

Answers are `{success, data}`. Every error is `{success: false, error, code}` with a line of text in `error`: the app
renders that text, and crashes on anything else. A header marks an invalid token, and the app then forgets the token:
no other response may carry that header. A token past half of its lifetime is replaced.
"""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, Final

from msgspec import Struct, defstruct, structs

from fairlead.auth.api.credentials import RenewToken, TooManyAttempts
from fairlead.model.errors import BadId, FairleadError, NotFound
from fairlead.model.web.requests import Response, do
from fairlead.model.web.routes import Handler, Request, Route, Steps, json_response
from fairlead.model.web.sockets import SocketRoute

REFRESHED: Final = "x-refreshed-token"
DEAD: Final = {
    "bad_credential": ("AUTH_TOKEN_INVALID", "invalid-token"),
    "expired_credential": ("AUTH_TOKEN_EXPIRED", "session-expired"),
}
"""For each code of access control: this protocol's own code, and the header value that makes the app sign out."""
SMALL: Final = 64 << 10
"""Maximum bytes of a body that carries only names and short texts."""


def ok(data: Any, status: int = 200) -> Response:
    return json_response({"success": True, "data": data}, status)


def refused(status: int, code: str, message: str) -> Response:
    return json_response({"success": False, "error": message, "code": code}, status)


def not_found(session: str) -> Response:
    return refused(404, "SESSION_NOT_FOUND", f'Session "{session}" was not found.')


def bounds(request: Request, usual: int, most: int) -> tuple[int, int]:
    limit = query_number(request, "limit")
    return max(1, min(usual if limit is None else limit, most)), query_number(request, "offset") or 0


def query_number(request: Request, name: str) -> int | None:
    """A whole number from the query; anything else counts as absent, as in the original."""
    text = request.query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


def body_text(request: Request, name: str) -> str:
    """A text of the body; empty if it is missing. Raises BadRequest if it is not a text."""
    return str(getattr(request.json(_body_with(name)), name))


@cache
def _body_with(name: str) -> type[Struct]:
    return defstruct("Body", [(name, str, "")])


def always(response: Response) -> Callable[[Request], Response]:
    """A handler whose response is always the same."""
    return lambda request: response


def with_errors_and_renewal(handler: Handler) -> Handler:
    """Put errors into this protocol's form, and send a new token to a client whose token is past half its lifetime."""

    @wraps(handler)
    def run(request: Request) -> Steps:
        try:
            answer = yield from handler(request)
        except FairleadError as error:
            answer = error_response(request, error)
        if not request.who.expires or not isinstance(answer, Response):
            return answer
        new = yield from do(RenewToken())
        if new is None:
            return answer
        return structs.replace(answer, headers=(*answer.headers, (REFRESHED, new.token)))

    return run


def error_response(request: Request, error: FairleadError) -> Response:
    if isinstance(error, NotFound | BadId) and error.data.get("what") == "session":
        return not_found(request.params.get("session", ""))
    wait = (("retry-after", str(error.seconds)),) if isinstance(error, TooManyAttempts) else ()
    return structs.replace(refused(error.status, error.code.upper(), error.message), headers=wait)


def denied(status: int, code: str, message: str) -> Response:
    """The response to a REST call that access control refuses."""
    if status != 401:
        return refused(status, code.upper(), message)
    own, header = DEAD.get(code, ("AUTH_TOKEN_INVALID", ""))
    headers = (("x-auth-error", header),) if header else ()
    return Response(body=json_response({"error": message, "code": own}).body, headers=headers)


def unauthorized(status: int, code: str, message: str) -> Response:
    """The response to a socket upgrade that access control refuses; browsers do not show its body."""
    return Response(body=b"Unauthorized" if status == 401 else message.encode(), content_type="text/plain")


def for_users(route: Route) -> Route:
    """Open a route to signed-in users, with answers in this protocol's form."""
    return structs.replace(route, accounts=True, refused=denied, handle=with_errors_and_renewal(route.handle))


def socket_for_users(socket: SocketRoute) -> SocketRoute:
    """Open a socket to signed-in users. The query's token comes first, then the second word of a header."""
    return structs.replace(socket, accounts=True, token_query="token", query_first=True, refused=unauthorized)
