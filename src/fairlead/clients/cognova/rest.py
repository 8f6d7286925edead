"""The REST responses of this protocol: `{"data": ...}`, errors `{statusCode, statusMessage, message}`. Pure."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from fairlead.model.errors import FairleadError
from fairlead.model.web.requests import Response
from fairlead.model.web.routes import Request, Steps, json_response

TOKEN_HEADER: Final = "x-api-token"

Handler = Callable[[Request], Steps]


def data(value: Any) -> Response:
    return json_response({"data": value})


def problem(status: int, message: str) -> Response:
    return json_response({"statusCode": status, "statusMessage": message, "message": message}, status)


def with_errors(handler: Handler) -> Handler:
    """Put the gateway's errors into this protocol's form."""

    @wraps(handler)
    def run(request: Request) -> Steps:
        try:
            return (yield from handler(request))
        except FairleadError as error:
            return problem(error.status, error.message)

    return run
