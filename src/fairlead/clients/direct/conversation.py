"""One client on a direct socket, as if it were the CLI's only client. Pure.

When it joins it receives the current state (`view.DirectCatchUp`), then all output of the agent. Its control requests
are answered under its own ids, to this client only. If anything else is rejected, this client alone receives a `system`
record of the subtype `gateway_error`, which clients of the CLI ignore if they do not know it.
"""

from collections.abc import Generator, Sequence
from typing import Any, Final

import msgspec

from fairlead.clients.direct.messages import ClientMessage, ControlQuestion, SentCommand, read
from fairlead.clients.direct.view import NAME, DirectEncoder, decode_catch_up, line
from fairlead.model.commands import AnswerPermission, Reply, SetMode
from fairlead.model.errors import AgentRefused, Busy, FairleadError, NotFound, Stale
from fairlead.model.formats.frames import decode_or_none
from fairlead.model.gateway import Cursor
from fairlead.model.ids import session_id
from fairlead.model.queries import GetSession, ReadProjection
from fairlead.model.web.requests import Step
from fairlead.model.web.sockets import Check, CloseSocket, Effect, Flow, Handshake, RunFlow, Subscribe, Write

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
            Write(line(own_answer(message, self._init)))
            if isinstance(message, ControlQuestion) and message.command is None
            else RunFlow(self._perform(message), self._session, ahead=True)
            for message in read(self._session, data)
        ]

    def failed(self, error: FairleadError) -> Sequence[Effect]:
        return (CloseSocket(GONE, error.message[:120]),)

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Effect]:
        return [Write(line(record)) for message in read(self._session, data) for record in rejected(message, error)]

    def _join(self) -> Flow:
        joined = decode_catch_up((yield ReadProjection(self._session, NAME)))
        yield Subscribe(self._session, Cursor(joined.seq), DirectEncoder(joined.foreign), lost=self.failed)
        self._init = joined.init
        if joined.init or joined.pending:
            yield Write(joined.frames())

    def _perform(self, message: ClientMessage) -> Flow:
        for record in (yield from perform(message)):
            yield Write(line(record))


def perform(message: ClientMessage) -> Generator[Step, Any, list[dict[str, Any]]]:
    """Execute a message's command; return the records that answer it."""
    assert message.command is not None
    try:
        try:
            reply: Reply = yield message.command
        except (Busy, AgentRefused):
            # No turn runs, or this agent accepts no messages in one: the message begins a turn, now or after this one.
            if not isinstance(message, SentCommand) or message.other is None:
                raise
            reply = yield message.other
    except FairleadError as error:
        return rejected(message, error)
    return [success(message.request, answered_with(message, reply))] if isinstance(message, ControlQuestion) else []


def own_answer(asked: ControlQuestion, init: bytes) -> dict[str, Any]:
    """Answer a request without a command."""
    return refusal(asked.request, asked.error) if asked.error else success(asked.request, initialize_response(init))


def rejected(message: ClientMessage, error: FairleadError) -> list[dict[str, Any]]:
    if isinstance(message, ControlQuestion):
        return [refusal(message.request, error.message)]
    if isinstance(message.command, AnswerPermission) and isinstance(error, Stale | NotFound):
        return []  # the request was already settled: such an answer is ignored, as the CLI does
    record = {"type": "system", "subtype": "gateway_error", "code": error.code, "message": error.message}
    return [{**record, "about": message.about}]


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
    claude_code_version: str | None = None


def initialize_response(init: bytes) -> dict[str, Any]:
    """Build the gateway's answer to `initialize`. The request is never forwarded, since it would replace what the
    gateway itself registered."""
    known = decode_or_none(msgspec.json.Decoder(_Init).decode, init) or _Init()
    commands = [{"name": name, "description": "", "argumentHint": ""} for name in known.slash_commands]
    styles = {"output_style": known.output_style, "available_output_styles": sorted({"default", known.output_style})}
    # The hooks, plugins and subagents of the request are not registered: a client must not rely on them.
    unused = {"hooks_applied": False, "hook_on_failure_supported": False, "plugins_applied": [], "agents": []}
    version = {"claude_code_version": known.claude_code_version} if known.claude_code_version else {}
    return {"commands": commands, **styles, **unused, **version, "models": [], "account": {}}
