"""The sockets /terminal and /_ws/terminal: a person's shell, shared by all of that person's browsers. Pure.

Without query options a client gets the frames `output`, `pong`, `error` and, when the shell has ended, `exit`.
Malformed or unknown messages are ignored.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec

from fairlead.model.agents import Exit
from fairlead.model.errors import AgentNotRunning, FairleadError
from fairlead.model.formats.frames import decode_message, json_frame
from fairlead.model.web.sockets import Effect, Handing, Handshake, SocketRoute, Write
from fairlead.terminals.api import JoinShell, Size, TerminalOutput, TerminalReply, TypedKeys

DEFAULT_NAME: Final = "default"
MESSAGE_LIMIT: Final = 1 << 20
EARLY_BYTES: Final = 1 << 20
"""Maximum bytes that a client may send while its shell is being started."""
SIGNALLED: Final = 128
"""Added to the number of the signal that ended a shell, as shells do."""
_NOTHING: Final = TerminalReply(b"")

_Cells = Annotated[int, msgspec.Meta(gt=0)]


class _Resize(msgspec.Struct, frozen=True):
    cols: _Cells
    rows: _Cells


class ShellCodec:
    """Implements `terminals.api.TerminalCodec`. `sized`: the client wants to receive the terminal's size."""

    def __init__(self, sized: bool = False) -> None:
        self._sized = sized
        self._size: Size | None = None

    def read(self, data: bytes) -> TypedKeys | Size | TerminalReply:
        match decode_message(data):
            case {"type": "input", "data": str(keys)}:
                return TypedKeys(keys.encode())
            case {"type": "resize"} as message:
                return _size(message)
            case {"type": "ping"}:
                return TerminalReply(json_frame({"type": "pong"}))
            case _:
                return _NOTHING

    def output(self, output: TerminalOutput) -> bytes:
        frames = b""
        if self._sized and output.size is not None and output.size != self._size:
            self._size = output.size
            frames = json_frame({"type": "size", "cols": output.size.columns, "rows": output.size.rows})
        return frames + json_frame({"type": "output", "data": output.data.decode()}) if output.data else frames

    def ended(self, exit: Exit) -> bytes:
        code = exit.code if exit.signal is None else SIGNALLED + exit.signal
        return json_frame({"type": "exit", "code": code})

    def failed(self, error: FairleadError) -> bytes:
        """Drop keys that come too late silently: the shell's end has its own frame."""
        return b"" if isinstance(error, AgentNotRunning) else _error(error.message)

    def not_started(self, error: FairleadError) -> bytes:
        path, errno = error.data.get("path"), error.data.get("errno")
        reason = f"spawn {path} {errno}" if errno else error.message
        return _error(f"Failed to start terminal: {reason}")


class ShellConversation(Handing):
    """Hands the socket to the shell. If the shell cannot be started, the socket stays open and pings are answered."""

    def __init__(self, opening: Handshake) -> None:
        query = opening.query
        self._codec = ShellCodec(query.get("size") == "1")
        join = JoinShell(
            name=query.get("name") or DEFAULT_NAME,
            codec=self._codec,
            folder=query.get("cwd", ""),
            raw=query.get("replay") == "raw",
            read_only=query.get("readonly") == "1",
        )
        super().__init__(join, EARLY_BYTES)
        self._failed = False

    def received(self, data: bytes, text: bool) -> Sequence[Effect]:
        if not self._failed:
            return super().received(data, text)
        reply = self._codec.read(data)
        return (Write(reply.frames),) if isinstance(reply, TerminalReply) and reply.frames else ()

    def failed(self, error: FairleadError) -> Sequence[Effect]:
        self._failed = True
        waited = [effect for data, text in self._kept for effect in self.received(data, text)]
        return (Write(self._codec.not_started(error)), *waited)

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Effect]:
        """Accept the message: keys are not commands; input before the shell runs is limited only in bytes."""
        return () if self._failed else self.received(data, text)


def _error(text: str) -> bytes:
    return json_frame({"type": "error", "data": f"{text}\r\n"})


def _size(message: dict[str, Any]) -> Size | TerminalReply:
    try:
        wanted = msgspec.convert(message, _Resize)
    except msgspec.ValidationError:
        return _NOTHING
    return Size(wanted.cols, wanted.rows)


SOCKETS: Final = tuple(
    SocketRoute(path=path, access="terminal", name=name, open=ShellConversation, message_limit=MESSAGE_LIMIT)
    for path, name in (("/terminal", "cognova.terminal"), ("/_ws/terminal", "cognova.ws-terminal"))
)
