"""The terminal that a session's agent runs on: its screen for scripts, and a socket for watching and typing. Pure.

On the socket the terminal's bytes are binary frames and everything else is JSON: see
docs/reference/native-protocol.md.
"""

from collections.abc import Generator, Sequence
from typing import Annotated, Any, Final

import msgspec

from fairlead.clients.native.codec import frame_fields, pop_type, read_json
from fairlead.clients.native.decode import PingFrame, UnknownType, convert
from fairlead.clients.native.sessions import PATH
from fairlead.model.agents import Exit
from fairlead.model.errors import FairleadError, NotFound
from fairlead.model.formats.frames import binary_frame, json_frame
from fairlead.model.ids import SessionId, session_id
from fairlead.model.web.requests import Step, do
from fairlead.model.web.routes import Request, Routes, Steps, json_response
from fairlead.model.web.sockets import Check, CloseSocket, Effect, Handing, Handshake, SocketRoute, Write
from fairlead.terminals.api import (
    JoinShell,
    JoinTerminal,
    ShowTerminal,
    Size,
    TerminalOutput,
    TerminalReply,
    TerminalView,
    TypedKeys,
    session_terminal,
)

routes = Routes()
TERMINAL: Final = f"{PATH}/terminal"
MESSAGE_LIMIT: Final = 1 << 20
NO_TERMINAL: Final = 4404
"""The close code if the terminal ended between the check and the opening: 404, in the range for applications."""

_Cells = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class _InputFrame(msgspec.Struct, frozen=True):
    data: str


class _ResizeFrame(msgspec.Struct, frozen=True):
    cols: _Cells
    rows: _Cells


class NativeTerminalCodec:
    """Implements `terminals.api.TerminalCodec`."""

    def __init__(self) -> None:
        self._size: Size | None = None

    def read(self, data: bytes) -> TypedKeys | Size | TerminalReply:
        fields = frame_fields(read_json(data))
        match pop_type(fields):
            case "input":
                return TypedKeys(convert(fields, _InputFrame).data.encode())
            case "resize":
                wanted = convert(fields, _ResizeFrame)
                return Size(wanted.cols, wanted.rows)
            case "ping":
                convert(fields, PingFrame)
                return TerminalReply(json_frame({"type": "pong"}))
            case kind:
                raise UnknownType(f"Unknown frame {kind[:40]!r}: send input, resize or ping.", type=kind[:40])

    def output(self, output: TerminalOutput) -> bytes:
        before = b""
        if output.redraw and self._size is not None:
            before = json_frame({"type": "redraw"})
        if output.size is not None and output.size != self._size:
            self._size = output.size
            before = json_frame({"type": "size", "cols": output.size.columns, "rows": output.size.rows}) + before
        return before + binary_frame(output.data) if output.data else before

    def ended(self, exit: Exit) -> bytes:
        return json_frame({"type": "exit", "code": exit.code, "signal": exit.signal})

    def failed(self, error: FairleadError) -> bytes:
        fields = {"type": "error", "code": error.code, "message": error.message}
        return json_frame({**fields, "data": error.data} if error.data else fields)


class TerminalJoining(Handing):
    def __init__(self, join: JoinTerminal | JoinShell, codec: NativeTerminalCodec) -> None:
        super().__init__(join, MESSAGE_LIMIT)
        self._codec = codec

    def failed(self, error: FairleadError) -> Sequence[Effect]:
        return (Write(self._codec.failed(error)), CloseSocket(NO_TERMINAL, "the session has no terminal"))

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Effect]:
        return (Write(self._codec.failed(error)),)


class TerminalConversation(TerminalJoining):
    def __init__(self, opening: Handshake) -> None:
        codec = NativeTerminalCodec()
        super().__init__(JoinTerminal(session_terminal(session_id(opening.params["session"])), codec), codec)


def _show_terminal(session: SessionId) -> Generator[Step, Any, TerminalView]:
    try:
        view = yield from do(ShowTerminal(session_terminal(session)))
    except NotFound:
        raise NotFound("terminal of session", session) from None
    return view


def _check(opening: Handshake) -> Check:
    """Check before the upgrade, so that the client gets an HTTP status. The terminal may still end before the join."""
    yield from _show_terminal(session_id(opening.params["session"]))
    return None


@routes.get(TERMINAL, "terminal", "terminal.show", answer=TerminalView)
def show(request: Request) -> Steps:
    """The screen of a session's terminal, if its agent runs on one."""
    return json_response((yield from _show_terminal(request.session)))


SOCKET: Final = SocketRoute(
    path=TERMINAL,
    access="terminal",
    name="native.terminal",
    open=TerminalConversation,
    message_limit=MESSAGE_LIMIT,
    check=_check,
    place="session",
)
