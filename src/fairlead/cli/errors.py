"""Exit codes that scripts may rely on (docs/reference/cli.md has their meanings), and the errors that lead to them."""

from enum import IntEnum
from typing import Any

from fairlead.client.errors import ClientError, Denied, Missing, Unreachable, UsageError, from_status
from fairlead.model.errors import Damaged, FairleadError, FolderInUse


class ExitCode(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    DENIED = 4
    MISSING = 5
    INTERRUPTED = 130


class Interrupted(ClientError):
    """The person ended the command."""


_EXIT_CODES: dict[type[ClientError], ExitCode] = {
    UsageError: ExitCode.USAGE,
    Unreachable: ExitCode.UNREACHABLE,
    Denied: ExitCode.DENIED,
    Missing: ExitCode.MISSING,
    Interrupted: ExitCode.INTERRUPTED,
}


def exit_code(error: ClientError) -> ExitCode:
    return _EXIT_CODES.get(type(error), ExitCode.FAILED)


def from_error(error: FairleadError) -> ClientError:
    wanted: Any = getattr(error, "exit_code", None)
    # A data folder that is in use, damaged or too new: the user must name another one, or repair this one.
    if wanted == ExitCode.USAGE or isinstance(error, Damaged | FolderInUse):
        return UsageError(error.message, error.code)
    return from_status(error.status, error.message, error.code)
