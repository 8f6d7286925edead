"""One client on the native socket: frames in, effects out. Never waits, and keeps no state except its encoding.

Every client frame is answered, with its `id` if it had one: a command by `reply`, `subscribe` by
`subscribed`, `unsubscribe` by `unsubscribed`, `ping` by `pong`, anything invalid by `error`. Only a valid `typing`
has no answer: it is transient.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fairlead.clients.native.codec import CODECS, JSON, Codec
from fairlead.clients.native.decode import KINDS, command, convert, reject_unknown
from fairlead.clients.native.errors import BadFrame, UnknownType
from fairlead.model.commands import Reply
from fairlead.model.errors import BadRequest, FairleadError, NotAllowed
from fairlead.model.gateway import Cursor
from fairlead.model.ids import SessionId, session_id
from fairlead.model.web.sockets import Do, Handshake, Perform, Signal, Subscribe, Subscribed, Unsubscribe, Write

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


_SUBSCRIBE_FIELDS: Final = frozenset(_SubscribeFrame.__struct_fields__)
_SESSION_FIELDS: Final = frozenset(_SessionFrame.__struct_fields__)
_TYPING_FIELDS: Final = frozenset(_TypingFrame.__struct_fields__)


class NativeConversation:
    """One client's connection. A step's `tag` has the first fields of its answer: the client's `id`, if it gave one."""

    # The handshake itself is not kept: a request's head takes more memory than the rest of an idle socket.
    __slots__ = ("_codec", "_fresh", "_version", "_who")

    def __init__(self, opening: Handshake) -> None:
        self._who = opening.who
        self._version = opening.version
        self._fresh = opening.fresh
        self._codec: Codec = CODECS[opening.subprotocol or JSON]

    def opened(self) -> Sequence[Do]:
        who = self._who
        you = {"credential": who.credential, "user": who.user, "name": who.name, "scopes": sorted(who.scopes)}
        hello = {"type": "hello", "protocol": PROTOCOL_NAME, "version": self._version, "you": you}
        return (Write(self._codec.frame(hello)),)

    def received(self, data: bytes, text: bool) -> Sequence[Do]:
        tag: dict[str, Any] = {}
        try:
            fields = self._fields(data, text)
            tag = _tag(fields)
            return self._act(fields, tag)
        except FairleadError as error:
            return self.failed(tag, error)

    def answered(self, tag: Any, answer: Any) -> Sequence[Do]:
        match answer:
            case Subscribed():
                frame: dict[str, Any] = {"type": "subscribed", **tag, **msgspec.structs.asdict(answer)}
            case Reply():
                frame = {"type": "reply", **tag, **msgspec.to_builtins(answer)}
            case _:
                frame = {"type": "unsubscribed", **tag}
        return (Write(self._codec.frame(frame)),)

    def failed(self, tag: Any, error: FairleadError) -> Sequence[Do]:
        frame = {"type": "error", **tag, "code": error.code, "message": error.message}
        if error.data:
            frame["data"] = error.data
        return (Write(self._codec.frame(frame)),)

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Do]:
        try:
            tag = _tag(self._fields(data, text))
        except BadFrame:
            tag = {}
        return self.failed(tag, error)

    def _fields(self, data: bytes, text: bool) -> dict[str, Any]:
        fields = self._codec.read(data, text)
        if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
            raise BadFrame("A frame is an object.")
        return fields

    def _act(self, fields: dict[str, Any], tag: dict[str, Any]) -> Sequence[Do]:
        fields.pop("id", None)
        kind = fields.pop("type", None)
        if not isinstance(kind, str):
            raise BadFrame("A frame needs a type.")
        match kind:
            case "ping":
                reject_unknown(fields, frozenset())
                return (Write(self._codec.frame({"type": "pong", **tag})),)
            case "subscribe":
                reject_unknown(fields, _SUBSCRIBE_FIELDS)
                wanted = convert(fields, _SubscribeFrame)
                return (Subscribe(tag, session_id(wanted.session), _cursor(wanted), self._codec),)
            case "unsubscribe":
                reject_unknown(fields, _SESSION_FIELDS)
                return (Unsubscribe({**tag, "session": (session := _session(fields))}, session),)
            case "typing":
                return self._typing(fields, tag)
            case _ if kind in KINDS:
                made = command(kind, fields, self._fresh)
                return (Perform(tag, made, made.session or ""),)
            case _:
                raise UnknownType(f"There is no frame of the type {kind[:40]!r}.", type=kind[:40])

    def _typing(self, fields: dict[str, Any], tag: dict[str, Any]) -> Sequence[Do]:
        reject_unknown(fields, _TYPING_FIELDS)
        frame = convert(fields, _TypingFrame)
        if not self._who.may("chat"):
            raise NotAllowed("Typing needs the scope chat.", scope="chat")
        return (Signal(tag, session_id(frame.session), "typing", {"active": frame.active}),)


def _tag(fields: dict[str, Any]) -> dict[str, Any]:
    return {"id": fields["id"]} if "id" in fields else {}


def _session(fields: dict[str, Any]) -> SessionId:
    return session_id(convert(fields, _SessionFrame).session)


def _cursor(wanted: _SubscribeFrame) -> Cursor | None:
    if wanted.after is None:
        return None
    if wanted.after < 0:
        raise BadRequest("after must be a seq, 0 for the whole log.", field="after")
    return Cursor(seq=wanted.after, log_id=wanted.log_id)
