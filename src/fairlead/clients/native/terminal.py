"""The terminal that a session's agent runs on: its screen for scripts, and a socket for watching and typing. Pure.

On the socket the terminal's bytes are binary frames and everything else is JSON: see
docs/reference/native-protocol.md.
"""

from collections.abc import Generator, Sequence
from typing import Annotated, Any, Final

import msgspec

from fairlead.clients.native.decode import convert, reject_unknown
from fairlead.clients.native.errors import BadFrame, UnknownType
from fairlead.clients.native.sessions import PATH, session_of
from fairlead.model.agents import Exit
from fairlead.model.errors import FairleadError, NotFound
from fairlead.model.formats.frames import binary_frame, text_frame
from fairlead.model.ids import SessionId, session_id
from fairlead.model.web.handing import Handing
from fairlead.model.web.requests import Step
from fairlead.model.web.routes import Request, Routes, Steps, json_response
from fairlead.model.web.sockets import Check, CloseSocket, Effect, Handshake, SocketRoute, Write
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


_FIELDS: Final = {"input": frozenset({"data"}), "resize": frozenset({"cols", "rows"}), "ping": frozenset[str]()}


class NativeTerminalCodec:
    """Implements `terminals.api.TerminalCodec`."""

    def __init__(self) -> None:
        self._size: Size | None = None

    def read(self, data: bytes) -> TypedKeys | Size | TerminalReply:
        fields = _object(data)
        kind = fields.pop("type", None)
        if not isinstance(kind, str):
            raise BadFrame("A frame needs a type.")
        known = _FIELDS.get(kind)
        if known is None:
            raise UnknownType(
                f"There is no frame {kind[:40]!r} here: input, resize and ping are taken.", type=kind[:40]
            )
        reject_unknown(fields, known)
        if kind == "input":
            return TypedKeys(convert(fields, _InputFrame).data.encode())
        if kind == "resize":
            wanted = convert(fields, _ResizeFrame)
            return Size(wanted.cols, wanted.rows)
        return TerminalReply(_frame({"type": "pong"}))

    def output(self, output: TerminalOutput) -> bytes:
        before = b""
        if output.redraw and self._size is not None:
            before = _frame({"type": "redraw"})
        if output.size is not None and output.size != self._size:
            self._size = output.size
            before = _frame({"type": "size", "cols": output.size.columns, "rows": output.size.rows}) + before
        return before + binary_frame(output.data) if output.data else before

    def ended(self, exit: Exit) -> bytes:
        return _frame({"type": "exit", "code": exit.code, "signal": exit.signal})

    def failed(self, error: FairleadError) -> bytes:
        fields = {"type": "error", "code": error.code, "message": error.message}
        return _frame({**fields, "data": error.data} if error.data else fields)


class TerminalJoining(Handing):
    """Hands the socket to a terminal."""

    def __init__(self, join: JoinTerminal | JoinShell, codec: NativeTerminalCodec) -> None:
        super().__init__(join, MESSAGE_LIMIT)
        self._codec = codec

    def failed(self, error: FairleadError) -> Sequence[Effect]:
        return (Write(self._codec.failed(error)), CloseSocket(NO_TERMINAL, "there is no terminal"))

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Effect]:
        return (Write(self._codec.failed(error)),)


class TerminalConversation(TerminalJoining):
    """Hands the socket to the terminal that a session's agent runs on."""

    def __init__(self, opening: Handshake) -> None:
        codec = NativeTerminalCodec()
        super().__init__(JoinTerminal(session_terminal(session_id(opening.params["session"])), codec), codec)


def _show_terminal(session: SessionId) -> Generator[Step, Any, TerminalView]:
    try:
        view: TerminalView = yield ShowTerminal(session_terminal(session))
    except NotFound:
        raise NotFound("terminal of session", session) from None
    return view


def _check(opening: Handshake) -> Check:
    """Check before the upgrade, so that the client gets an HTTP status. The terminal may still end before the join."""
    yield from _show_terminal(session_id(opening.params["session"]))
    return None


@routes.get(TERMINAL, access="terminal", name="terminal.show", answer=TerminalView)
def show(request: Request) -> Steps:
    """The screen of a session's terminal, if its agent runs on one."""
    return json_response((yield from _show_terminal(session_of(request))))


def _object(data: bytes) -> dict[str, Any]:
    try:
        fields = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadFrame("The frame is not JSON.") from None
    if not isinstance(fields, dict):
        raise BadFrame("A frame is an object.")
    return fields


def _frame(fields: dict[str, Any]) -> bytes:
    return text_frame(msgspec.json.encode(fields))


SOCKETS: Final = (
    SocketRoute(
        path=TERMINAL,
        access="terminal",
        name="native.terminal",
        open=TerminalConversation,
        about="The terminal itself: its bytes out, keys and sizes in.",
        message_limit=MESSAGE_LIMIT,
        check=_check,
    ),
)
