"""Rows and what passes as frames: JSON text or MessagePack, whole or stripped, with or without the session's state.

A row is a JSON record already: the plain variant only frames it. With equal options the bytes are made once for
everybody.
"""

from typing import Any, Final

import msgspec

from fairlead.clients.mylifedb import kinds
from fairlead.clients.mylifedb.fold import STATE
from fairlead.clients.mylifedb.records import value_of
from fairlead.clients.mylifedb.strip_payloads import stripped
from fairlead.model.frames import packed_frame, text_frame
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry
from fairlead.model.views import PASSING

MSGPACK: Final = "msgpack"
"""The subprotocol."""


class MyLifeDbEncoder(msgspec.Struct, frozen=True):
    """Implements `model.gateway.Variant`, and frames the conversation's own messages alike."""

    packed: bool = False
    strip: bool = False
    state: bool = False
    records: kinds.Version = ()
    """The version whose kinds of records are shown; all of them without one."""

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        if entry.kind == PASSING:
            if entry.event.startswith(STATE) and not self.state:
                return b""
            return self._framed(entry.event[1:])
        if not kinds.had(self.records, entry.event):
            return b""
        return self._framed(stripped(entry.event) if self.strip else entry.event)

    def signal(self, session: SessionId, kind: str, name: str, data: Any) -> bytes:
        """Who types; who is here is nothing that this protocol tells."""
        if kind != "typing":
            return b""
        typing = isinstance(data, dict) and data.get("active") is True
        return self.frame({"type": "typing", "isTyping": typing, "name": name})

    def frame(self, message: dict[str, Any]) -> bytes:
        return packed_frame(message) if self.packed else text_frame(msgspec.json.encode(message))

    def read(self, data: bytes, text: bool) -> dict[str, Any] | None:
        """A client's frame; None for one that is not in this connection's spelling, or no object."""
        if text == self.packed:
            return None
        try:
            message = msgspec.msgpack.decode(data) if self.packed else msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return None
        return message if isinstance(message, dict) else None

    def _framed(self, data: bytes) -> bytes:
        if not self.packed:
            return text_frame(data)
        value = value_of(data)
        return b"" if value is None else packed_frame(value)
