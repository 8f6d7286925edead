"""The terminal port: a program on a PTY that many clients may watch; clients with the scope may type into it.

`terminals.registry` and `terminals.pty_session` implement it; agents that run on a screen, and the terminal sockets of
client protocols, use it. A terminal's name identifies its owner: `session/<id>` for a session's agent, others as their
protocol defines.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from fairlead.model.agents import Exit
from fairlead.model.errors import FairleadError
from fairlead.model.ids import SessionId
from fairlead.model.web.requests import ServiceCall
from fairlead.model.web.sockets import SocketOwner


class Size(msgspec.Struct, frozen=True):
    columns: int = 120
    rows: int = 40


class Screen(msgspec.Struct, frozen=True):
    """The screen as a person would see it now. `lines` have no trailing blanks; the cursor (`row`, `column`) counts
    from 0. `version` grows with every change."""

    lines: tuple[str, ...]
    row: int
    column: int
    size: Size
    version: int


class FoundUrl(msgspec.Struct, frozen=True):
    """A URL that the program printed. `open`: the program asks to open it; the request may come later, with the same
    URL again."""

    url: str
    open: bool = False


class TerminalOutput(msgspec.Struct, frozen=True):
    """Output for a watcher: whole characters and sequences. `redraw`: the watcher lagged (or has just joined, or the
    size has changed), and this draws everything from a clean screen, for a terminal of `size`; earlier output is void.
    The first output of a raw watch is not a redraw and has the `size` as well; its data may be empty.

    `urls`: the URLs found in all output so far that were not sent yet; the first output has those found before the
    watcher joined. A URL has `open` only for the watchers that receive it first."""

    data: bytes
    redraw: bool = False
    size: Size | None = None
    urls: tuple[FoundUrl, ...] = ()


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program to start. Nothing of it comes from a wire, except a `cwd` inside the roots.

    `shell`: the program belongs to a person. It keeps the size that its last watcher left, keeps its latest output for
    raw watchers, and waits a while when all its watchers lag; an agent never waits. `recording`: the file to which its
    output is recorded; empty for none. `tag`: what its owner needs to find and continue it after a restart of the
    gateway, as JSON."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    size: Size = Size()
    shell: bool = False
    recording: str = ""
    tag: Mapping[str, Any] = {}


class Terminal(Protocol):
    """One program on a PTY. It continues to run without watchers."""

    @property
    def name(self) -> str: ...
    @property
    def pid(self) -> int: ...
    @property
    def started(self) -> str:
        """The process's start time, which together with its pid identifies it uniquely."""

    @property
    def group(self) -> int: ...
    @property
    def tag(self) -> Mapping[str, Any]:
        """The tag of its `Program`, also after a restart of the gateway."""

    @property
    def running(self) -> bool: ...
    @property
    def watched(self) -> bool:
        """Whether it has any watchers now."""

    @property
    def survives(self) -> bool:
        """Whether the program continues when the gateway ends."""

    @property
    def screen(self) -> Screen: ...

    async def changed(self, version: int) -> Screen:
        """The screen when its version is above `version`, or when the program has ended."""

    async def write(self, data: bytes) -> None:
        """Type keys. Waits while the program does not read. Raises AgentNotRunning when it has ended."""

    def resize(self, size: Size, who: str = "") -> None:
        """Set the size of the watcher `who`; the terminal is as large as the smallest of the watchers that write. The
        size counts until the watcher's `watch` ends; without any, an agent's terminal has its original size."""

    def watch(self, who: str = "", raw: bool = False) -> AsyncGenerator[TerminalOutput, None]:
        """Yield first a redraw, then the output, until the program has ended. `raw`, for a shell: first its latest
        output as it was printed. A watcher that lags gets a redraw. A caller that leaves early closes the generator."""

    async def wait(self) -> Exit: ...
    @property
    def exit(self) -> Exit | None:
        """How the program has ended; None while it runs."""

    async def stop(self) -> Exit:
        """Hang up, terminate, kill, in bounded time; the program and its children are reaped."""


class Terminals(Protocol):
    """All open terminals, bounded in number."""

    async def open(self, name: str, program: Program) -> Terminal:
        """Start a program on a terminal. Raises TooMany; Busy if one of that name runs; AgentMissing or BadRequest if
        it cannot be started."""

    def find(self, name: str) -> Terminal | None:
        """The last terminal of that name; one that has ended is kept for a while."""

    def adopted(self, name: str) -> Terminal | None:
        """A terminal of an earlier gateway whose program runs at the keeper. Its owner calls this when the gateway
        starts; a terminal whose owner does not is ended."""


# --- a terminal on a socket


class TypedKeys(msgspec.Struct, frozen=True):
    data: bytes


class TerminalReply(msgspec.Struct, frozen=True):
    """Frames that are sent back to the client at once."""

    frames: bytes


class TerminalEncoder(Protocol):
    """Encodes terminal output as frames of a client protocol (`model.formats.frames`); one object per socket, pure."""

    def output(self, output: TerminalOutput) -> bytes: ...
    def ended(self, exit: Exit) -> bytes: ...
    def failed(self, error: FairleadError) -> bytes: ...


class TerminalCodec(TerminalEncoder, Protocol):
    """The same encoder, and the decoder of the client's frames."""

    def read(self, data: bytes) -> TypedKeys | Size | TerminalReply:
        """Decode a client's frame. A FairleadError is sent to the client by `failed`, and the socket stays open."""


class ProgramRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A client's request to attach to a program: the running one with the same folder, session, provider and command,
    else a new one. `provider` is the name of a configured program, empty for the shell, into which `command` is typed.
    `resume`: a new program continues the conversation `session`. `restart`: a running program is stopped first."""

    folder: str = ""
    session: str = ""
    provider: str = ""
    command: str = ""
    resume: bool = False
    restart: bool = False
    size: Size = Size(80, 24)


class ProgramAttached(msgspec.Struct, frozen=True, kw_only=True):
    """The program that the client was attached to. `again`: it ran already. `resumed`: the agent's id of the continued
    conversation; `lost`: the reason why the conversation is not continued."""

    folder: str
    provider: str = ""
    again: bool = False
    resumed: str = ""
    lost: str = ""


class LauncherCodec(TerminalEncoder, Protocol):
    """The codec of a socket whose client requests programs, one after the other."""

    def read(self, data: bytes) -> ProgramRequest | TypedKeys | Size | TerminalReply: ...
    def attached(self, program: ProgramAttached) -> bytes:
        """Encode the attachment; sent before the first output of each program."""

    def refused(self, error: FairleadError) -> bytes:
        """Encode a failed request; the client may request another program."""


class TerminalView(msgspec.Struct, frozen=True, kw_only=True):
    """A terminal for those that do not watch it. The cursor (`row`, `column`) counts from 0; `exit` when its program
    has ended."""

    running: bool
    size: Size
    lines: tuple[str, ...]
    row: int
    column: int
    exit: Exit | None = None


class ShowTerminal(ServiceCall["TerminalView"], frozen=True):
    """-> `TerminalView`; NotFound"""

    name: str

    @property
    def session(self) -> str:
        return session_of_terminal(self.name)


class JoinTerminal(ServiceCall[SocketOwner], frozen=True):
    """-> a `model.web.sockets.SocketOwner` that the socket's protocol attaches; NotFound"""

    name: str
    codec: TerminalCodec

    @property
    def session(self) -> str:
        return session_of_terminal(self.name)


class JoinShell(ServiceCall[SocketOwner], frozen=True, kw_only=True):
    """-> a `SocketOwner` as from JoinTerminal, for the caller's own shell of that name. It is started in `folder`
    (empty: the first root) if it does not run; its output until then is part of the first output. Raises BadRequest,
    OutsideRoots, NotFound, TooMany, AgentMissing; AgentMissing has the system's error name (`errno`).

    `raw`: begin with the latest bytes as they were printed, not with a redraw. `read_only`: keys and sizes are ignored,
    and nothing is started. `owner`: join the shell of another user, who shares it; it can only be watched."""

    name: str
    codec: TerminalCodec
    folder: str = ""
    raw: bool = False
    read_only: bool = False
    owner: str = ""


class ListShells(ServiceCall["tuple[ShellView, ...]"], frozen=True):
    """-> tuple of `ShellView`: the caller's own running shells, and those that other users share"""


class ShareShell(ServiceCall["ShellView"], frozen=True):
    """-> `ShellView`. Other users with the scope may watch the shell until it ends or is no longer shared. NotFound"""

    name: str
    shared: bool


class EndShell(ServiceCall["Exit"], frozen=True):
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


class OpenLauncher(ServiceCall[SocketOwner], frozen=True, kw_only=True):
    """-> a `SocketOwner` that attaches its client to the programs that it requests, one after the other. They belong to
    the caller; the codec encodes failures. `agents`: the providers that are kinds of agent, whose programs are sessions
    of the gateway."""

    codec: LauncherCodec
    agents: frozenset[str] = frozenset()


def session_terminal(session: SessionId) -> str:
    """The name of the terminal that a session's agent runs on."""
    return f"session/{session}"


def session_of_terminal(name: str) -> str:
    """The session whose agent runs on this terminal; empty for a person's terminal."""
    kind, _, session = name.partition("/")
    return session if kind == "session" else ""
