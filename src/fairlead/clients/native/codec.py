"""The native protocol's two encodings, JSON text and MessagePack: encode frames and events, decode client frames.

An event's JSON is encoded once, when it is stored; the JSON codec only adds its seq and session in front. Nothing here
knows about commands or subscriptions.
"""

from typing import Any, Final

import msgspec

from fairlead.model.errors import BadRequest
from fairlead.model.formats.frames import json_frame, packed_frame, text_frame
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry, event_line

JSON: Final = "fairlead.v1.json"
MSGPACK: Final = "fairlead.v1.msgpack"
SUBPROTOCOLS: Final = (JSON, MSGPACK)


class BadFrame(BadRequest, code="bad_frame"):
    """The frame is not in this connection's encoding; it has no id that the answer could carry."""


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


class Codec(msgspec.Struct, frozen=True):
    """Implements `model.gateway.FrameEncoder`, and frames and reads the conversation's own messages the same way."""

    packed: bool = False

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        if not self.packed:
            return text_frame(event_line(session, entry))
        place = {"seq": entry.seq, "prev": entry.prev, "session": session}
        return packed_frame({**place, **msgspec.json.decode(entry.event)})

    def signal(self, session: SessionId, kind: str, name: str, data: Any) -> bytes:
        message = {"type": kind, "session": session, "name": name}
        return self.frame(message if data is None else {**message, "data": data})

    def frame(self, message: dict[str, Any]) -> bytes:
        return packed_frame(message) if self.packed else json_frame(message)

    def read(self, data: bytes, text: bool) -> Any:
        if not self.packed:
            if not text:
                raise BadFrame(f"This connection speaks JSON in text frames; for binary ones ask for {MSGPACK}.")
            return read_json(data)
        if text:
            raise BadFrame("This connection speaks MessagePack in binary frames.")
        try:
            return msgspec.msgpack.decode(data)
        except (msgspec.DecodeError, RecursionError, ValueError):
            raise BadFrame("The frame is not MessagePack.") from None


CODECS: Final = {JSON: Codec(), MSGPACK: Codec(packed=True)}
