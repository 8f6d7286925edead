"""Encode rows and transients as frames: JSON text or MessagePack, whole or stripped, with or without session state.

A row is already a JSON record: the plain encoder only frames it. Clients with equal options share the encoded bytes.
"""

from typing import Any, Final

import msgspec

from fairlead.clients.mylifedb import kinds
from fairlead.clients.mylifedb.fold import STATE
from fairlead.clients.mylifedb.records import value_of
from fairlead.clients.mylifedb.strip_payloads import stripped
from fairlead.model.formats.frames import decode_message, json_frame, packed_frame, text_frame
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry
from fairlead.model.views import PASSING

MSGPACK: Final = "msgpack"
"""The subprotocol."""


class MyLifeDbEncoder(msgspec.Struct, frozen=True):
    """Implements `model.gateway.FrameEncoder`, and frames the conversation's own messages the same way."""

    packed: bool = False
    strip: bool = False
    state: bool = False
    records: kinds.Version = ()
    """Only record kinds of this version are shown; all kinds if it is empty."""

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        if entry.kind == PASSING:
            if entry.event.startswith(STATE) and not self.state:
                return b""
            return self._framed(entry.event[1:])
        if not kinds.has_kind(self.records, entry.event):
            return b""
        return self._framed(stripped(entry.event) if self.strip else entry.event)

    def signal(self, session: SessionId, kind: str, name: str, data: Any) -> bytes:
        """Encode typing notices; this protocol has no presence messages."""
        if kind != "typing":
            return b""
        typing = isinstance(data, dict) and data.get("active") is True
        return self.frame({"type": "typing", "isTyping": typing, "name": name})

    def frame(self, message: dict[str, Any]) -> bytes:
        return packed_frame(message) if self.packed else json_frame(message)

    def read(self, data: bytes, text: bool) -> dict[str, Any] | None:
        """Decode a client's frame; None if it is not in this connection's encoding, or not an object."""
        if text == self.packed:
            return None
        try:
            message = msgspec.msgpack.decode(data) if self.packed else decode_message(data)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return None
        return message if isinstance(message, dict) else None

    def _framed(self, data: bytes) -> bytes:
        if not self.packed:
            return text_frame(data)
        value = value_of(data)
        return b"" if value is None else packed_frame(value)
