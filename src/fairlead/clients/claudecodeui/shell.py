"""The socket /shell: the terminals of this protocol's app. Pure.

A client requests a program with `init`, and may do so again at any time. The app shows only `output`, so errors are
sent there as well.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec

from fairlead.model.agents import Exit
from fairlead.model.errors import AgentNotRunning, BadId, FairleadError, NotFound, OutsideRoots
from fairlead.model.formats.frames import decode_message, json_frame
from fairlead.model.web.sockets import Effect, Handing, Handshake, SocketRoute, Write
from fairlead.terminals.api import (
    FoundUrl,
    OpenLauncher,
    ProgramAttached,
    ProgramRequest,
    Size,
    TerminalOutput,
    TerminalReply,
    TypedKeys,
)

MESSAGE_LIMIT: Final = 1 << 20
EARLY_BYTES: Final = 1 << 20
"""Maximum bytes that a client may send before its socket has an owner."""
PLAIN: Final = "plain-shell"
DEFAULT_PROVIDER: Final = "claude"
SIZE: Final = Size(80, 24)
SIGNALLED: Final = 128
"""Added to the number of the signal that ended a program, as shells do: 0 would mean success."""
LOGIN: Final = ("setup-token", "cursor-agent login", "auth login")
"""Login commands always start a new program: a page that waits for an old code is useless."""
MAX_ANNOUNCED_URLS: Final = 1024
"""Maximum number of one program's URLs that are remembered as announced to one client."""
NAMES: Final = {"claude": "Claude", "cursor": "Cursor", "codex": "Codex", "opencode": "OpenCode"}

INVALID_PAYLOAD: Final = "Invalid websocket payload"
INVALID_PATH: Final = "Invalid project path"
INVALID_SESSION: Final = "Invalid session ID"
_SESSION = re.compile(r"[a-zA-Z0-9_.\-:]{1,128}")
_NOTHING: Final = TerminalReply(b"")

_Cells = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]


class _Init(msgspec.Struct, frozen=True):
    """Every field may be missing or null."""

    projectPath: str | None = None
    sessionId: str | None = None
    hasSession: bool | None = None
    provider: str | None = None
    cols: _Cells | None = None
    rows: _Cells | None = None
    initialCommand: str | None = None
    isPlainShell: bool | None = None
    forceRestart: bool | None = None


class ShellCodec:
    """Implements `terminals.api.LauncherCodec`."""

    def __init__(self) -> None:
        self._announced_urls: set[FoundUrl] = set()

    # --- messages from the client

    def read(self, data: bytes) -> ProgramRequest | TypedKeys | Size | TerminalReply:
        match decode_message(data):
            case {"type": "init"} as message:
                return _wanted(message)
            case {"type": "input", "data": str(keys)}:
                return TypedKeys(keys.encode())
            case {"type": "resize"} as message:
                return Size(_cells(message.get("cols"), SIZE.columns), _cells(message.get("rows"), SIZE.rows))
            case {"type": str()}:
                return _NOTHING
            case _:
                return TerminalReply(_output(_red(INVALID_PAYLOAD)))

    # --- frames to the client

    def attached(self, program: ProgramAttached) -> bytes:
        # URLs announced before a switch to another program, or before leaving this one, are announced again.
        self._announced_urls.clear()
        frames = b""
        if program.lost:
            frames = _output(_line(33, f"[The session could not be resumed: {program.lost}]"))
        return frames + _output(_line(36, _welcome(program)))

    def output(self, output: TerminalOutput) -> bytes:
        frames = [_output(output.data.decode())] if output.data else []
        frames += [self._announce(found) for found in output.urls]
        return b"".join(frames)

    def _announce(self, found: FoundUrl) -> bytes:
        """Announce a URL once, and once more when it should be opened."""
        if found in self._announced_urls or FoundUrl(found.url, open=True) in self._announced_urls:
            return b""
        if len(self._announced_urls) >= MAX_ANNOUNCED_URLS:
            self._announced_urls.clear()
        self._announced_urls.add(found)
        return json_frame({"type": "auth_url", "url": found.url, "autoOpen": found.open})

    def ended(self, exit: Exit) -> bytes:
        signal = exit.signal or 0
        # An end without a known exit code does not count as success.
        code = SIGNALLED + signal if signal else 1 if exit.code is None else exit.code
        return _output(f"\r\n\x1b[33mProcess exited with code {code} ({signal})\x1b[0m\r\n")

    def failed(self, error: FairleadError) -> bytes:
        """Drop keys that come too late silently: the program's end has its own frame."""
        return b"" if isinstance(error, AgentNotRunning) else _error(error.message)

    def refused(self, error: FairleadError) -> bytes:
        if isinstance(error, OutsideRoots) or (isinstance(error, NotFound) and error.data.get("what") == "folder"):
            return _error(INVALID_PATH)
        return _error(INVALID_SESSION if isinstance(error, BadId) else error.message)


class ShellConversation(Handing):
    """Hands the socket to a program launcher, which receives all later messages."""

    def __init__(self, opening: Handshake) -> None:
        self._codec = ShellCodec()
        super().__init__(OpenLauncher(codec=self._codec, agents=frozenset({DEFAULT_PROVIDER})), EARLY_BYTES)

    def failed(self, error: FairleadError) -> Sequence[Effect]:
        return (Write(self._codec.refused(error)),)

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Effect]:
        """Accept the message: keys are not commands; early input is limited only in bytes."""
        return self.received(data, text)


def _wanted(message: dict[str, Any]) -> ProgramRequest | TerminalReply:
    try:
        init = msgspec.convert(message, _Init)
    except msgspec.ValidationError as error:
        return TerminalReply(_error(f"Invalid init: {error}"))
    folder, session = init.projectPath or "", init.sessionId or ""
    if folder and (not folder.startswith("/") or "\0" in folder):
        return TerminalReply(_error(INVALID_PATH))
    if session and _SESSION.fullmatch(session) is None:
        return TerminalReply(_error(INVALID_SESSION))
    command = init.initialCommand or ""
    resume = bool(init.hasSession and session)
    provider = init.provider or DEFAULT_PROVIDER
    plain = bool(init.isPlainShell) or provider == PLAIN or bool(command and not resume)
    return ProgramRequest(
        folder=folder,
        session=session,
        provider="" if plain else provider,
        command=command if plain else "",
        resume=resume and not plain,
        restart=bool(init.forceRestart) or any(word in command for word in LOGIN),
        size=Size(SIZE.columns if init.cols is None else init.cols, SIZE.rows if init.rows is None else init.rows),
    )


def _cells(given: Any, usual: int) -> int:
    """The given number; the default for anything else, as in the original."""
    return given if isinstance(given, int) and not isinstance(given, bool) else usual


def _welcome(program: ProgramAttached) -> str:
    if program.again:
        return "[Reconnected to existing session]"
    if not program.provider:
        return f"Starting terminal in: {program.folder}"
    name = NAMES.get(program.provider, program.provider)
    if program.resumed:
        return f"Resuming {name} session {program.resumed} in: {program.folder}"
    return f"Starting new {name} session in: {program.folder}"


def _line(colour: int, text: str) -> str:
    return f"\x1b[{colour}m{_visible(text)}\x1b[0m\r\n"


def _red(text: str) -> str:
    return f"\r\n\x1b[31mError: {_visible(text)}\x1b[0m\r\n"


def _visible(text: str) -> str:
    """Replace control characters: a path or a client's text must not set colours or move the cursor."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def _error(message: str) -> bytes:
    return json_frame({"type": "error", "message": message}) + _output(_red(message))


def _output(text: str) -> bytes:
    return json_frame({"type": "output", "data": text})


SOCKET: Final = SocketRoute(
    path="/shell", access="terminal", name="claudecodeui.shell", open=ShellConversation, message_limit=MESSAGE_LIMIT
)
