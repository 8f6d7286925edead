"""One client on a direct socket, as if it were the CLI's only client. Pure.

When it joins it receives the current state (`view.DirectCatchUp`), then all output of the agent. Its control requests
are answered under its own ids, to this client only. If anything else is rejected, this client alone receives a `system`
record of the subtype `gateway_error`, which clients of the CLI ignore if they do not know it.
"""

from collections.abc import Sequence
from typing import Any, Final, assert_never

import msgspec

from fairlead.clients.direct.messages import ClientMessage, ControlQuestion, SentCommand, read
from fairlead.clients.direct.view import NAME, DirectCatchUp, DirectEncoder, decode_catch_up, line
from fairlead.model.commands import AnswerPermission, Reply, SetMode
from fairlead.model.errors import Busy, FairleadError, NotFound, Stale
from fairlead.model.gateway import Cursor
from fairlead.model.ids import session_id
from fairlead.model.queries import GetSession, ReadProjection
from fairlead.model.web.sockets import Check, CloseSocket, Do, Handshake, Perform, Subscribe, Subscribed, Write

ENCODER: Final = DirectEncoder()
GONE: Final = 4004
"""The close code for an unknown session."""
_JOIN: Final = "join"


def check_session(opening: Handshake) -> Check:
    """Reject an unknown session before the upgrade."""
    yield GetSession(session_id(opening.params["session"]))
    return None


class DirectConversation:
    """One client's connection. A step's tag is the client's message; for the first step it is `join`."""

    __slots__ = ("_init", "_session")

    def __init__(self, opening: Handshake) -> None:
        self._session = session_id(opening.params["session"])
        self._init = b""

    def opened(self) -> Sequence[Do]:
        return (Perform(_JOIN, ReadProjection(self._session, NAME), _JOIN),)

    def received(self, data: bytes, text: bool) -> Sequence[Do]:
        done: list[Do] = []
        for message in read(self._session, data):
            if isinstance(message, ControlQuestion) and message.command is None:
                done.append(Write(self._own_answer(message)))
            else:
                assert message.command is not None
                done.append(Perform(message, message.command, self._session))
        return done

    def answered(self, tag: Any, answer: Any) -> Sequence[Do]:
        match tag:
            case DirectCatchUp():
                assert isinstance(answer, Subscribed)
                self._init = tag.init
                return (Write(tag.frames()),) if tag.init or tag.pending else ()
            case ControlQuestion():
                assert isinstance(answer, Reply)
                return (Write(line(success(tag.request, answered_with(tag, answer)))),)
            case SentCommand():
                return ()
            case _:
                joined = decode_catch_up(answer)
                return (Subscribe(joined, self._session, Cursor(joined.seq), ENCODER),)

    def failed(self, tag: Any, error: FairleadError) -> Sequence[Do]:
        match tag:
            case ControlQuestion():
                return (Write(line(refusal(tag.request, error.message))),)
            case SentCommand(other=other) if other is not None and isinstance(error, Busy):
                return (Perform(SentCommand(other, about=tag.about), other, self._session),)
            case SentCommand():
                return () if is_already_settled(tag, error) else (Write(line(error_record(tag, error))),)
            case _:
                return (CloseSocket(GONE, error.message[:120]),)

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Do]:
        return tuple(
            do for message in read(self._session, data) for do in self.failed(_without_fallback(message), error)
        )

    def _own_answer(self, asked: ControlQuestion) -> bytes:
        if asked.error:
            return line(refusal(asked.request, asked.error))
        return line(success(asked.request, initialize_response(self._init)))


def _without_fallback(message: ClientMessage) -> ClientMessage:
    match message:
        case SentCommand():
            return SentCommand(message.command, about=message.about)
        case ControlQuestion():
            return message
        case _:
            assert_never(message)


def is_already_settled(sent: SentCommand, error: FairleadError) -> bool:
    """Return whether the command answered a request that was already settled. Such answers are ignored, as the CLI
    does."""
    return isinstance(sent.command, AnswerPermission) and isinstance(error, Stale | NotFound)


def error_record(sent: SentCommand, error: FairleadError) -> dict[str, Any]:
    return {
        "type": "system",
        "subtype": "gateway_error",
        "code": error.code,
        "message": error.message,
        "about": sent.about,
    }


def success(request: str, response: Any) -> dict[str, Any]:
    inner = {"subtype": "success", "request_id": request, "response": response}
    return {"type": "control_response", "response": inner}


def refusal(request: str, error: str) -> dict[str, Any]:
    return {"type": "control_response", "response": {"subtype": "error", "request_id": request, "error": error}}


def answered_with(asked: ControlQuestion, reply: Reply) -> Any:
    if isinstance(asked.command, SetMode):
        return {"mode": asked.command.mode}
    return reply.data if isinstance(reply.data, dict) else {}


class _Init(msgspec.Struct):
    slash_commands: list[str] = []
    output_style: str = "default"


def initialize_response(init: bytes) -> dict[str, Any]:
    """Build the gateway's answer to `initialize`. The request is never forwarded, since it would replace what the
    gateway itself registered."""
    known = _Init()
    if init:
        try:
            known = msgspec.json.decode(init, type=_Init)
        except msgspec.DecodeError:
            known = _Init()
    commands = [{"name": name, "description": "", "argumentHint": ""} for name in known.slash_commands]
    styles = sorted({"default", known.output_style})
    return {
        "commands": commands,
        "output_style": known.output_style,
        "available_output_styles": styles,
        "models": [],
        "account": {},
    }
