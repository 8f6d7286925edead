"""The terminal port: a program on a PTY that many may watch and those with the scope may type into.

The room `terminals` implements it; agents that live on a screen, and the terminal sockets of client protocols, use it.
A name says whose it is: `session/<id>` for an agent's own, others as their protocol wants.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Protocol

import msgspec

from fairlead.model.agents import Exit
from fairlead.model.errors import FairleadError
from fairlead.model.ids import SessionId
from fairlead.model.requests import ServiceCall


class Size(msgspec.Struct, frozen=True):
    columns: int = 120
    rows: int = 40


class Screen(msgspec.Struct, frozen=True):
    """What a person would see now. `lines` are as wide as they are written, blank ends cut off; the cursor counts
    from 0. `version` grows with every change."""

    lines: tuple[str, ...]
    row: int
    column: int
    size: Size
    version: int
    pasting: bool
    """The program asked for bracketed paste."""


class FoundUrl(msgspec.Struct, frozen=True):
    """A URL that the program printed. `open`: it asks that it be opened; that may come later, with the URL once
    more."""

    url: str
    open: bool = False


class TerminalOutput(msgspec.Struct, frozen=True):
    """What a watcher is given: whole characters and sequences. `redraw`: it lagged (or has just come, or the size has
    changed), and this draws everything from a clean screen, for a terminal of `size`; what it had before is void.
    The first of a raw watch is no redraw and tells the `size` as well; its data may be empty.

    `urls`: what was found among all that was printed by then; the first tells those that were found before. One that
    was asked to be opened is so for whoever is told first."""

    data: bytes
    redraw: bool = False
    size: Size | None = None
    urls: tuple[FoundUrl, ...] = ()


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """What is started. Nothing of it comes from a wire, but a `cwd` inside the roots.

    `shell`: it is a person's own. It keeps the size that they left it with, the last of what it printed for raw
    watchers, and waits a while for those who watch when all of them lag: an agent never does. `recording`: the file
    that what it prints is recorded to; empty, none."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    size: Size = Size()
    shell: bool = False
    recording: str = ""


class Terminal(Protocol):
    """One program on a PTY. It goes on when nobody watches."""

    @property
    def name(self) -> str: ...
    @property
    def pid(self) -> int: ...
    @property
    def started(self) -> str:
        """The process's start time, which with its pid names it for good."""
        ...

    @property
    def group(self) -> int: ...
    @property
    def running(self) -> bool: ...
    @property
    def watched(self) -> bool:
        """Somebody sees what it prints, now."""
        ...

    @property
    def touched(self) -> float:
        """When it was last typed into, printed, was resized or joined, on the clock's `monotonic`."""
        ...

    @property
    def screen(self) -> Screen: ...

    async def changed(self, version: int) -> Screen:
        """The screen when its version is above `version`, or when the program has ended."""
        ...

    async def write(self, data: bytes) -> None:
        """Keys. Waits while the program does not read; AgentGone when it has ended."""
        ...

    def resize(self, size: Size, who: str = "") -> None:
        """What the watcher `who` has room for; the terminal is as large as the smallest of those that write. Its word
        counts until its `watch` ends; without any, the size is the one that the program was started with."""
        ...

    def watch(self, who: str = "", raw: bool = False) -> AsyncGenerator[TerminalOutput, None]:
        """First a redraw, then what is printed, until the program has ended. `raw`, of a shell: first the last of
        what it printed, as it was. A watcher that lags is given a redraw. Whoever leaves before the end closes it."""
        ...

    def say(self, text: str) -> None:
        """Shown to all as if the program had printed it; the program is not asked."""
        ...

    async def wait(self) -> Exit: ...
    @property
    def exit(self) -> Exit | None:
        """How the program has ended."""
        ...

    async def stop(self) -> Exit:
        """Hang up, terminate, kill: bounded; the program and its children are reaped."""
        ...


class Terminals(Protocol):
    """All that are open. Bounded in number."""

    async def open(self, name: str, program: Program) -> Terminal:
        """TooMany; Busy where one of that name runs; AgentMissing, BadRequest where it cannot be started."""
        ...

    def find(self, name: str) -> Terminal | None:
        """The last of that name; one that has ended is kept for a while."""
        ...

    def names(self) -> tuple[str, ...]:
        """Of those that run."""
        ...


# --- a terminal on a socket


class TypedKeys(msgspec.Struct, frozen=True):
    """What is typed."""

    data: bytes


class TerminalReply(msgspec.Struct, frozen=True):
    """What is written back at once."""

    frames: bytes


class TerminalInput(Protocol):
    """How a client protocol tells what happens on a terminal; one object a socket, pure. Frames are ready ones, from
    `model.frames`."""

    def output(self, output: TerminalOutput) -> bytes: ...
    def ended(self, exit: Exit) -> bytes: ...
    def failed(self, error: FairleadError) -> bytes: ...


class TerminalCodec(TerminalInput, Protocol):
    """The same, and how it spells what its client says."""

    def read(self, data: bytes) -> TypedKeys | Size | TerminalReply:
        """A client's frame. A FairleadError is told by `failed`, and the socket goes on."""
        ...


class ProgramRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The program that a client wants to sit before: that which it had under the same folder, session, provider and
    command, else a new one. `provider` is the name of a configured program, empty for the shell, into which `command`
    is typed. `resume`: a new one goes on with the conversation `session`. `restart`: one that runs is ended first."""

    folder: str = ""
    session: str = ""
    provider: str = ""
    command: str = ""
    resume: bool = False
    restart: bool = False
    size: Size = Size(80, 24)


class ProgramAttached(msgspec.Struct, frozen=True, kw_only=True):
    """What it got. `again`: it ran already. `resumed`: the agent's id of the conversation that goes on; `lost`: why
    one does not."""

    folder: str
    provider: str = ""
    again: bool = False
    resumed: str = ""
    lost: str = ""


class LauncherCodec(TerminalInput, Protocol):
    """Of a socket whose client names the program that it wants, and may want another later."""

    def read(self, data: bytes) -> ProgramRequest | TypedKeys | Size | TerminalReply: ...
    def seated(self, seated: ProgramAttached) -> bytes:
        """Comes before the first output of each program."""
        ...

    def refused(self, error: FairleadError) -> bytes:
        """There is no program: the client may want another."""
        ...


class TerminalView(msgspec.Struct, frozen=True, kw_only=True):
    """A terminal for those that do not watch it. The cursor (`row`, `column`) counts from 0; `exit` when its program
    has ended."""

    running: bool
    size: Size
    lines: tuple[str, ...]
    row: int
    column: int
    exit: Exit | None = None


class ShowTerminal(ServiceCall, frozen=True):
    """-> `TerminalView`; NotFound"""

    name: str

    @property
    def session(self) -> str:
        return session_of_terminal(self.name)


class JoinTerminal(ServiceCall, frozen=True):
    """-> a `model.sockets.Holder` that a conversation attaches; NotFound"""

    name: str
    codec: TerminalCodec

    @property
    def session(self) -> str:
        return session_of_terminal(self.name)


class JoinShell(ServiceCall, frozen=True, kw_only=True):
    """-> a `Holder` as of JoinTerminal, for the asker's own shell of that name. It is started if it does not run, in
    `folder` (empty: the first root); what it has printed until then is part of the first output. BadRequest,
    OutsideRoots, NotFound, TooMany, AgentMissing where it cannot be; AgentMissing has the system's word (`errno`).

    `raw`: begin with the last bytes as they were, not with a redraw. `read_only`: whatever is typed or resized there
    does nothing, and nothing is started. `owner`: the shell of another user, who shares it; it is only watched."""

    name: str
    codec: TerminalCodec
    folder: str = ""
    raw: bool = False
    read_only: bool = False
    owner: str = ""


class ListShells(ServiceCall, frozen=True):
    """-> tuple of `ShellView`: the asker's own that run, and those that others share"""


class ShareShell(ServiceCall, frozen=True):
    """-> `ShellView`. Other users with the scope may watch it, until it ends or is shared no more. NotFound"""

    name: str
    shared: bool


class EndShell(ServiceCall, frozen=True):
    """-> `Exit`; NotFound"""

    name: str


class ShellView(msgspec.Struct, frozen=True, kw_only=True):
    """A person's shell that runs. `idle_s`: since anything last happened there."""

    name: str
    owner: str
    size: Size
    shared: bool
    watched: bool
    idle_s: float


class OpenLauncher(ServiceCall, frozen=True, kw_only=True):
    """-> a `Holder` that gives its client the programs it wants, one after the other. They are the asker's own; what
    cannot be given is told by the codec."""

    codec: LauncherCodec


def session_terminal(session: SessionId) -> str:
    """The name of the terminal that a session's agent lives on."""
    return f"session/{session}"


def session_of_terminal(name: str) -> str:
    """The session whose agent lives there; empty where it is a person's."""
    kind, _, session = name.partition("/")
    return session if kind == "session" else ""
