"""The errors of a client. Every failure is a `ClientError`, and its message explains what to do next."""

from collections.abc import Iterator

from fairlead.model.errors import FairleadError


class ClientError(Exception):
    """A call failed. `code` is the gateway's stable error code, if it sent one."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class CommandFailed(ClientError):
    """The gateway refused the call in the present state, or failed."""


class UsageError(ClientError):
    """The call itself is not valid."""


class Unreachable(ClientError):
    """No gateway answers."""


class Denied(ClientError):
    """The credential is missing or wrong, or lacks the scope."""


class Missing(ClientError):
    """There is no such session, request or other thing."""


_BY_STATUS: dict[int, type[ClientError]] = {
    **dict.fromkeys((400, 405, 413, 415, 422), UsageError),
    **dict.fromkeys((401, 403), Denied),
    404: Missing,
}


def _codes(kind: type[FairleadError] = FairleadError) -> Iterator[tuple[str, int]]:
    yield kind.code, kind.status
    for child in kind.__subclasses__():
        yield from _codes(child)


def from_status(status: int, message: str, code: str = "") -> ClientError:
    return _BY_STATUS.get(status, CommandFailed)(message, code)


def from_code(code: str, message: str) -> ClientError:
    """Return the error for an `error` frame, which has a code but no status; an unknown code is a failure."""
    return from_status(dict(_codes()).get(code, 500), message, code)
