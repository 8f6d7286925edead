"""What the keeper's state asks the process around it to do. Pure."""

from typing import Any, NamedTuple


class SendFrame(NamedTuple):
    connection: int
    frame: bytes


class CloseConnection(NamedTuple):
    connection: int


class StartChild(NamedTuple):
    """Answered with `started` or `not_started`."""

    number: int
    command: "Command"


class Command(NamedTuple):
    """A program to start. `launch` stands before `argv`, and may contain placeholders (children.py). `size`: the
    columns and rows of its terminal; None for three pipes. `limits`: its limits of open files."""

    launch: tuple[str, ...]
    argv: tuple[str, ...]
    env: dict[str, Any]
    cwd: str
    size: tuple[int, int] | None
    limits: tuple[int, int]


class WatchOutput(NamedTuple):
    """Read the output whenever there is some, or stop doing so."""

    number: int
    on: bool


class WriteChunk(NamedTuple):
    """Answered with `wrote` or `input_broken`."""

    number: int
    data: bytes


class AwaitInput(NamedTuple):
    """Answered once with `input_ready`."""

    number: int


class CloseChildInput(NamedTuple):
    number: int


class SetSize(NamedTuple):
    number: int
    columns: int
    rows: int


class SignalChild(NamedTuple):
    """One step of a stop: `hangup`, `terminate` or `kill`."""

    number: int
    step: str


class SweepChild(NamedTuple):
    """The stop is over: kill the descendants that were found during its steps and are still there."""

    number: int


class SetTimer(NamedTuple):
    """Call `timer` with this name after so many seconds; None: do not."""

    name: tuple[str, int]
    seconds: float | None


class LogLine(NamedTuple):
    text: str


class QuitKeeper(NamedTuple):
    pass


Effect = (
    SendFrame
    | CloseConnection
    | StartChild
    | WatchOutput
    | WriteChunk
    | AwaitInput
    | CloseChildInput
    | SetSize
    | SignalChild
    | SweepChild
    | SetTimer
    | LogLine
    | QuitKeeper
)
