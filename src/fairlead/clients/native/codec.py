"""The native protocol's two encodings, JSON text and MessagePack: encode frames and events, decode client frames.

An event's JSON is encoded once, when it is stored; the JSON codec only adds its seq and session in front. Nothing here
knows about commands or subscriptions.
"""

from typing import Any, ClassVar, Final, Protocol

import msgspec

from fairlead.clients.native.errors import BadFrame
from fairlead.model.formats.frames import packed_frame, text_frame
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry, event_line

JSON: Final = "fairlead.v1.json"
MSGPACK: Final = "fairlead.v1.msgpack"
SUBPROTOCOLS: Final = (JSON, MSGPACK)

_json = msgspec.json.Encoder()


def json_frame(message: dict[str, Any]) -> bytes:
    return text_frame(_json.encode(message))


def read_json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadFrame("The frame is not JSON.") from None


def frame_fields(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise BadFrame("A frame is an object.")
    return value


def pop_type(fields: dict[str, Any]) -> str:
    kind = fields.pop("type", None)
    if not isinstance(kind, str):
        raise BadFrame("A frame needs a type.")
    return kind


class Codec(Protocol):
    """Encodes and decodes frames; the core uses only the part that is `model.gateway.FrameEncoder`."""

    @property
    def key(self) -> str: ...
    def encode(self, session: SessionId, entry: Entry) -> bytes: ...
    def signal(self, session: SessionId, kind: str, name: str, data: Any) -> bytes: ...
    def frame(self, message: dict[str, Any]) -> bytes: ...
    def read(self, data: bytes, text: bool) -> Any: ...


def _signal(session: SessionId, kind: str, name: str, data: Any) -> dict[str, Any]:
    message = {"type": kind, "session": session, "name": name}
    return message if data is None else {**message, "data": data}


class JsonCodec(msgspec.Struct, frozen=True):
    key: ClassVar[str] = "native/json"

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        return text_frame(event_line(session, entry))

    def signal(self, session: SessionId, kind: str, name: str, data: Any) -> bytes:
        return self.frame(_signal(session, kind, name, data))

    def frame(self, message: dict[str, Any]) -> bytes:
        return json_frame(message)

    def read(self, data: bytes, text: bool) -> Any:
        if not text:
            raise BadFrame(f"This connection speaks JSON in text frames; for binary ones ask for {MSGPACK}.")
        return read_json(data)


class MsgpackCodec(msgspec.Struct, frozen=True):
    key: ClassVar[str] = "native/msgpack"

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        place = {"seq": entry.seq, "prev": entry.prev, "session": session}
        return self.frame({**place, **msgspec.json.decode(entry.event)})

    def signal(self, session: SessionId, kind: str, name: str, data: Any) -> bytes:
        return self.frame(_signal(session, kind, name, data))

    def frame(self, message: dict[str, Any]) -> bytes:
        return packed_frame(message)

    def read(self, data: bytes, text: bool) -> Any:
        if text:
            raise BadFrame("This connection speaks MessagePack in binary frames.")
        try:
            return msgspec.msgpack.decode(data)
        except (msgspec.DecodeError, RecursionError, ValueError):
            raise BadFrame("The frame is not MessagePack.") from None


CODECS: Final[dict[str, Codec]] = {JSON: JsonCodec(), MSGPACK: MsgpackCodec()}
