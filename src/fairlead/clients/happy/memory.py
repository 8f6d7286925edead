"""The mapper's state: plain data of bounded size, stored with the rows that it produced."""

from typing import Any, Final

import msgspec

SUBAGENTS_KEPT: Final = 256
CALLS_OPEN: Final = 4096
ASKED_OPEN: Final = 256
WINDOWS_KEPT: Final = 32


class MappedSubagent(msgspec.Struct):
    """`call` started it; the subagent `parent` made that call, or the main thread if None. `prompt` is its task until
    the task is emitted; `root` is the task's hash after that. `begun`: it was shown in some turn."""

    call: str
    parent: str | None = None
    title: str = ""
    prompt: str = ""
    root: str = ""
    hidden: bool = False
    begun: bool = False
    over: bool = False


class MappedRequest(msgspec.Struct):
    """A permission request, question or plan that waits for a person."""

    tool: str
    call: str
    subagent: str | None = None


class HeldEnd(msgspec.Struct):
    """The end of a call, held back because its subagent's end follows at once and `stop` is emitted first."""

    ev: dict[str, Any]
    event: str
    subagent: str | None = None


class MapperMemory(msgspec.Struct):
    """`turn` is the turn that clients see, `base` the session's own; `used`: a turn for `base` was already emitted."""

    time: int = 0
    turn: str = ""
    base: str = ""
    used: bool = False
    emitted_error: bool = msgspec.field(default=False, name="said_error")
    started: list[str] = []
    """Subagents whose `start` was emitted in this turn."""
    active: list[str] = []
    """Subagents of `started` without a `stop` yet."""
    subagents: dict[str, MappedSubagent] = {}
    calls: dict[str, str | None] = {}
    """Emitted calls that are still open, each with the subagent that made it."""
    held: dict[str, HeldEnd] = {}
    asked: dict[str, MappedRequest] = {}
    windows: dict[str, int] = {}
    """The context window of each model, from the latest results."""
