"""Error responses: every error becomes JSON with a stable code; an unexpected error becomes an id in the log.

CannotServe
  UnsafeBind        other machines can reach the address, and nothing protects it
  PortInUse
  BadTls            the certificate or key cannot be used
  BadServerSetting  a URL or address is malformed
  RouteClash        two protocols claim one path
  ViewClash         two protocols have a projection of the same name
Stopping            the server stops before the answer is ready
"""

import logging
from typing import ClassVar

import msgspec

from fairlead.model.errors import FairleadError
from fairlead.model.web.requests import Refused
from fairlead.model.web.routes import Response

log = logging.getLogger("fairlead.server")


class CannotServe(FairleadError):
    """The server cannot start. `exit_code` is the exit code of the process."""

    code = "cannot_serve"
    exit_code: ClassVar[int] = 2


class UnsafeBind(CannotServe):
    code = "unsafe_bind"

    def __init__(self, host: str, public: str = "--public-url https://...") -> None:
        super().__init__(
            f"{host or 'every address'} can be reached by other machines. Give one of: --tls-cert and --tls-key, "
            f"or {public} (with a proxy in front), or --insecure-lan.",
            host=host,
        )


class PortInUse(CannotServe):
    code = "port_in_use"

    def __init__(self, host: str, port: int, option: str = "--port") -> None:
        super().__init__(
            f"{host}:{port} is in use by another program: choose another port with {option}.", host=host, port=port
        )


class BadTls(CannotServe):
    code = "bad_tls"


class BadServerSetting(CannotServe):
    code = "bad_setting"


class RouteClash(CannotServe):
    code = "route_clash"

    def __init__(self, claim: str, first: str, second: str) -> None:
        super().__init__(
            f"{claim} is claimed twice, by {first} and by {second}: one of them has to go.",
            claim=claim,
            first=first,
            second=second,
        )


class Stopping(FairleadError):
    """The request was not decided: the client may send it again when the gateway is back."""

    code = "stopping"
    status = 503


class ProjectionClash(CannotServe):
    code = "view_clash"

    def __init__(self, view: str, first: str, second: str) -> None:
        super().__init__(
            f"The view {view} is declared twice, by {first} and by {second}: their rows would mix.",
            view=view,
            first=first,
            second=second,
        )


def error_body(error: FairleadError) -> bytes:
    fields: dict[str, object] = {"code": error.code, "message": error.message}
    if error.data:
        fields["data"] = error.data
    return msgspec.json.encode({"error": fields})


def error_response(error: FairleadError, worded: Refused | None = None) -> Response:
    """Build the response to an error. `worded` formats it for a protocol."""
    body = worded(error.status, error.code, error.message).body if worded else error_body(error)
    return Response(status=error.status, body=body)


def unexpected(error: BaseException, fresh: str, what: str) -> FairleadError:
    """Log an error that has no code in full, and return an error with an id under which the client can ask about it."""
    log.error("unexpected error", extra={"error_id": fresh, "what": what}, exc_info=error)
    return FairleadError(f"Something went wrong here; the log has more under {fresh}.", id=fresh)
