"""Error responses: every error becomes JSON with a stable code; an unexpected error becomes an id in the log."""

import logging
from typing import ClassVar

from fairlead.model.errors import FairleadError
from fairlead.model.web.requests import Refused, Response
from fairlead.model.web.routes import json_response

log = logging.getLogger("fairlead.server")


class CannotServe(FairleadError, code="cannot_serve"):
    """The server cannot start. `exit_code` is the exit code of the process."""

    exit_code: ClassVar[int] = 2


class UnsafeBind(CannotServe, code="unsafe_bind"):
    """Other machines can reach the address, and nothing protects it."""

    def __init__(self, host: str, public: str = "--public-url https://...") -> None:
        super().__init__(
            f"{host or 'every address'} can be reached by other machines. Give one of: --tls-cert and --tls-key, "
            f"or {public} (with a proxy in front), or --insecure-lan.",
            host=host,
        )


class PortInUse(CannotServe, code="port_in_use"):
    def __init__(self, host: str, port: int, option: str = "--port") -> None:
        message = f"{host}:{port} is in use by another program: choose another port with {option}."
        super().__init__(message, host=host, port=port)


class BadTls(CannotServe, code="bad_tls"):
    """The certificate or key cannot be used."""


class BadServerSetting(CannotServe, code="bad_setting"):
    """A URL or address is malformed."""


class RouteClash(CannotServe, code="route_clash"):
    """Two protocols claim one path."""

    def __init__(self, claim: str, first: str, second: str) -> None:
        message = f"{claim} is claimed twice, by {first} and by {second}: remove one of them."
        super().__init__(message, claim=claim, first=first, second=second)


class ProjectionClash(CannotServe, code="view_clash"):
    """Two protocols have a projection of the same name."""

    def __init__(self, view: str, first: str, second: str) -> None:
        message = f"The view {view} is declared twice, by {first} and by {second}: their rows would mix."
        super().__init__(message, view=view, first=first, second=second)


class Stopping(FairleadError, code="stopping", status=503):
    """The server stops before the answer is ready: the client may send the request again when the gateway is back."""

    def __init__(self) -> None:
        super().__init__("The gateway is stopping: send the request again when it is back.")


def error_response(error: FairleadError, worded: Refused | None = None) -> Response:
    """Build the response to an error. `worded` formats it for a protocol."""
    if worded:
        return Response(status=error.status, body=worded(error.status, error.code, error.message).body)
    data = {"data": error.data} if error.data else {}
    return json_response({"error": {"code": error.code, "message": error.message, **data}}, error.status)


def unexpected(error: BaseException, fresh: str, what: str) -> FairleadError:
    """Log an error that has no code in full, and return an error with an id under which the client can ask about it."""
    log.error("unexpected error", extra={"error_id": fresh, "what": what}, exc_info=error)
    return FairleadError(f"An internal error occurred; the log has the details under {fresh}.", id=fresh)
