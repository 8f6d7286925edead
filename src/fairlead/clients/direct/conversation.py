"""One client on a direct socket, as if it were the CLI's only client. Pure.

When it joins it receives the current state (`view.DirectCatchUp`), then all output of the agent. Its control requests
are answered under its own ids, to this client only. If anything else is rejected, this client alone receives a `system`
record of the subtype `gateway_error`, which clients of the CLI ignore if they do not know it.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fairlead.clients.direct.messages import ClientMessage, ControlQuestion, SentCommand, read
from fairlead.clients.direct.view import NAME, DirectEncoder, decode_catch_up, line
from fairlead.model.commands import AnswerPermission, Reply, SetMode
from fairlead.model.errors import Busy, FairleadError, NotFound, Stale
from fairlead.model.gateway import Cursor
from fairlead.model.ids import session_id
from fairlead.model.queries import GetSession, ReadProjection
from fairlead.model.web.sockets import Check, CloseSocket, Effect, Flow, Handshake, RunFlow, Subscribe, Write

ENCODER: Final = DirectEncoder()
GONE: Final = 4004
"""The close code for an unknown session."""


def check_session(opening: Handshake) -> Check:
    """Reject an unknown session before the upgrade."""
    yield GetSession(session_id(opening.params["session"]))
    return None


class DirectConversation:
    __slots__ = ("_init", "_session")

    def __init__(self, opening: Handshake) -> None:
        self._session = session_id(opening.params["session"])
        self._init = b""

    def opened(self) -> Sequence[Effect]:
        return (RunFlow(self._join()),)

    def received(self, data: bytes, text: bool) -> Sequence[Effect]:
        return [
            Write(self._own_answer(message))
            if isinstance(message, ControlQuestion) and message.command is None
            else RunFlow(self._perform(message), self._session, ahead=True)
            for message in read(self._session, data)
        ]

    def failed(self, error: FairleadError) -> Sequence[Effect]:
        return (CloseSocket(GONE, error.message[:120]),)

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Effect]:
        return [effect for message in read(self._session, data) for effect in self._rejected(message, error)]

    def _join(self) -> Flow:
        joined = decode_catch_up((yield ReadProjection(self._session, NAME)))
        yield Subscribe(self._session, Cursor(joined.seq), ENCODER, lost=self.failed)
        self._init = joined.init
        if joined.init or joined.pending:
            yield Write(joined.frames())

    def _perform(self, message: ClientMessage) -> Flow:
        assert message.command is not None
        try:
            try:
                reply: Reply = yield message.command
            except Busy:
                if not isinstance(message, SentCommand) or message.other is None:
                    raise
                reply = yield message.other
        except FairleadError as error:
            yield from self._rejected(message, error)
        else:
            if isinstance(message, ControlQuestion):
                yield Write(line(success(message.request, answered_with(message, reply))))

    def _rejected(self, message: ClientMessage, error: FairleadError) -> Sequence[Effect]:
        if isinstance(message, ControlQuestion):
            return (Write(line(refusal(message.request, error.message))),)
        return () if is_already_settled(message, error) else (Write(line(error_record(message, error))),)

    def _own_answer(self, asked: ControlQuestion) -> bytes:
        if asked.error:
            return line(refusal(asked.request, asked.error))
        return line(success(asked.request, initialize_response(self._init)))


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
