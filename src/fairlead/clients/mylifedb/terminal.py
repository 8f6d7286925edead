"""The raw terminal of a session whose agent runs on one: binary frames both ways, nothing else. Pure.

The first frame draws the screen and the scrollback; a client that lags gets a full redraw.
"""

from collections.abc import Sequence
from typing import Final

from fairlead.clients.mylifedb.conversation import check_session
from fairlead.clients.mylifedb.rest import ONE
from fairlead.model.agents import Exit
from fairlead.model.errors import FairleadError
from fairlead.model.formats.frames import binary_frame
from fairlead.model.ids import SessionId
from fairlead.model.web.sockets import CloseSocket, Effect, Handing, Handshake, SocketRoute
from fairlead.terminals.api import JoinTerminal, Size, TerminalOutput, TerminalReply, TypedKeys, session_terminal

EARLY_BYTES: Final = 1 << 20
"""The maximum number of bytes that a client may send before the terminal owns the socket."""
NOT_ACTIVE: Final = (1011, "Failed to activate session")
MESSAGE_LIMIT: Final = 1 << 20


class RawCodec:
    """Implements `terminals.api.TerminalCodec`: the protocol has no message for an error, a size or an end."""

    def read(self, data: bytes) -> TypedKeys | Size | TerminalReply:
        return TypedKeys(data)

    def output(self, output: TerminalOutput) -> bytes:
        return binary_frame(output.data) if output.data else b""

    def ended(self, exit: Exit) -> bytes:
        return b""

    def failed(self, error: FairleadError) -> bytes:
        return b""


class RawTerminal(Handing):
    def __init__(self, opening: Handshake) -> None:
        session = SessionId(opening.params["session"].lower())
        super().__init__(JoinTerminal(session_terminal(session), RawCodec()), EARLY_BYTES)

    def failed(self, error: FairleadError) -> Sequence[Effect]:
        return (CloseSocket(*NOT_ACTIVE),)


SOCKET: Final = SocketRoute(
    path=f"{ONE}/ws",
    access="terminal",
    name="mylifedb.terminal",
    open=RawTerminal,
    token_query="access_token",
    message_limit=MESSAGE_LIMIT,
    compress_query="compress",
    check=check_session,
    place="session",
)
