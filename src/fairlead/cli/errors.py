"""Exit codes that scripts may rely on (docs/reference/cli.md has their meanings), and the errors that carry them.

Every message explains what to do next.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, ClassVar

from fairlead.model.errors import Damaged, FairleadError, FolderInUse


class ExitCode(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    DENIED = 4
    MISSING = 5
    INTERRUPTED = 130


class CliError(Exception):
    """An error that ends a command. `code` is the gateway's stable error code, if it sent one."""

    exit_code: ClassVar[ExitCode] = ExitCode.FAILED

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class CommandFailed(CliError):
    pass


class UsageError(CliError):
    exit_code = ExitCode.USAGE


class Unreachable(CliError):
    exit_code = ExitCode.UNREACHABLE


class Denied(CliError):
    exit_code = ExitCode.DENIED


class Missing(CliError):
    exit_code = ExitCode.MISSING


class Interrupted(CliError):
    exit_code = ExitCode.INTERRUPTED


_BY_STATUS: dict[int, type[CliError]] = {
    **dict.fromkeys((400, 405, 413, 415, 422), UsageError),
    **dict.fromkeys((401, 403), Denied),
    404: Missing,
}


def _codes(kind: type[FairleadError] = FairleadError) -> Iterator[tuple[str, int]]:
    yield kind.code, kind.status
    for child in kind.__subclasses__():
        yield from _codes(child)


def from_status(status: int, message: str, code: str = "") -> CliError:
    return _BY_STATUS.get(status, CommandFailed)(message, code)


def from_code(code: str, message: str) -> CliError:
    """Return the error for an `error` frame, which has a code but no status; an unknown code is a failure."""
    return from_status(dict(_codes()).get(code, 500), message, code)


def from_error(error: FairleadError) -> CliError:
    exit_code: Any = getattr(error, "exit_code", None)
    # A data folder that is in use, damaged or too new: the user must name another one, or repair this one.
    if exit_code == ExitCode.USAGE or isinstance(error, Damaged | FolderInUse):
        return UsageError(error.message, error.code)
    return from_status(error.status, error.message, error.code)
