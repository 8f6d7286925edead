"""One client on the native socket: frames in, effects out. Never waits, and keeps no state except its encoding.

Every client frame is answered, with its `id` if it had one: a command by `reply`, `subscribe` by
`subscribed`, `unsubscribe` by `unsubscribed`, `ping` by `pong`, anything invalid by `error`. Only a valid `typing`
has no answer: it is transient.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fairlead.clients.native.codec import CODECS, JSON, BadFrame, Codec, frame_fields, pop_type
from fairlead.clients.native.decode import PingFrame, command, convert
from fairlead.model.commands import Command, Reply
from fairlead.model.errors import BadRequest, FairleadError, NotAllowed
from fairlead.model.gateway import Cursor
from fairlead.model.ids import SessionId, session_id
from fairlead.model.web.sockets import (
    Effect,
    Flow,
    Handshake,
    RunFlow,
    Signal,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Write,
)

PROTOCOL_NAME: Final = "fairlead.v1"


class _SubscribeFrame(msgspec.Struct, frozen=True):
    session: str
    after: int | None = None
    log_id: str = ""


class _SessionFrame(msgspec.Struct, frozen=True):
    session: str


class _TypingFrame(msgspec.Struct, frozen=True):
    session: str
    active: bool = True


class NativeConversation:
    """One client's connection. `tag` has the first fields of an answer: the client's `id`, if it gave one."""

    # The handshake itself is not kept: a request's head takes more memory than the rest of an idle socket.
    __slots__ = ("_codec", "_fresh", "_version", "_who")

    def __init__(self, opening: Handshake) -> None:
        self._who = opening.who
        self._version = opening.version
        self._fresh = opening.fresh
        self._codec: Codec = CODECS[opening.subprotocol or JSON]

    def opened(self) -> Sequence[Effect]:
        who = self._who
        you = {"credential": who.credential, "user": who.user, "name": who.name, "scopes": sorted(who.scopes)}
        hello = {"type": "hello", "protocol": PROTOCOL_NAME, "version": self._version, "you": you}
        return (self._write(hello),)

    def received(self, data: bytes, text: bool) -> Sequence[Effect]:
        tag: dict[str, Any] = {}
        try:
            fields = self._fields(data, text)
            tag = _tag(fields)
            return self._act(fields, tag)
        except FairleadError as error:
            return (self._error(tag, error),)

    def failed(self, error: FairleadError) -> Sequence[Effect]:
        return (self._error({}, error),)

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Effect]:
        try:
            tag = _tag(self._fields(data, text))
        except BadFrame:
            tag = {}
        return (self._error(tag, error),)

    def _fields(self, data: bytes, text: bool) -> dict[str, Any]:
        return frame_fields(self._codec.read(data, text))

    def _act(self, fields: dict[str, Any], tag: dict[str, Any]) -> Sequence[Effect]:
        fields.pop("id", None)
        match kind := pop_type(fields):
            case "ping":
                convert(fields, PingFrame)
                return (self._write({"type": "pong", **tag}),)
            case "subscribe":
                wanted = convert(fields, _SubscribeFrame)
                flow = self._subscribe(session_id(wanted.session), _cursor(wanted), tag)
                return (RunFlow(self._answering(flow, tag)),)
            case "unsubscribe":
                session = session_id(convert(fields, _SessionFrame).session)
                return (RunFlow(self._unsubscribe(session, tag)),)
            case "typing":
                return (RunFlow(self._answering(self._typing(fields), tag)),)
            case _:
                made = command(kind, fields, self._fresh)
                return (RunFlow(self._answering(self._command(made, tag), tag), made.session or "", ahead=True),)

    def _answering(self, flow: Flow, tag: dict[str, Any]) -> Flow:
        """Run a flow; if it fails, its error answers the client's frame."""
        try:
            yield from flow
        except FairleadError as error:
            yield self._error(tag, error)

    def _typing(self, fields: dict[str, Any]) -> Flow:
        frame = convert(fields, _TypingFrame)
        if not self._who.may("chat"):
            raise NotAllowed("Typing needs the scope chat.", scope="chat")
        yield Signal(session_id(frame.session), "typing", {"active": frame.active})

    def _command(self, made: Command, tag: dict[str, Any]) -> Flow:
        reply: Reply = yield made
        yield self._write({"type": "reply", **tag, **msgspec.to_builtins(reply)})

    def _subscribe(self, session: SessionId, cursor: Cursor | None, tag: dict[str, Any]) -> Flow:
        subscribed: Subscribed = yield Subscribe(
            session, cursor, self._codec, lost=lambda error: (self._error(tag, error),)
        )
        yield self._write({"type": "subscribed", **tag, **msgspec.structs.asdict(subscribed)})

    def _unsubscribe(self, session: SessionId, tag: dict[str, Any]) -> Flow:
        yield Unsubscribe(session)
        yield self._write({"type": "unsubscribed", **tag, "session": session})

    def _error(self, tag: dict[str, Any], error: FairleadError) -> Write:
        frame = {"type": "error", **tag, "code": error.code, "message": error.message}
        return self._write({**frame, "data": error.data} if error.data else frame)

    def _write(self, frame: dict[str, Any]) -> Write:
        return Write(self._codec.frame(frame))


def _tag(fields: dict[str, Any]) -> dict[str, Any]:
    return {"id": fields["id"]} if "id" in fields else {}


def _cursor(wanted: _SubscribeFrame) -> Cursor | None:
    if wanted.after is None:
        return None
    if wanted.after < 0:
        raise BadRequest("after must be a seq, 0 for the whole log.", field="after")
    return Cursor(seq=wanted.after, log_id=wanted.log_id)
