"""Events of the log to frames of this protocol. A frozen struct: all clients share the bytes, encoded once."""

from typing import Any

import msgspec

from fairlead.model import events as ev
from fairlead.model.content import TextBlock
from fairlead.model.formats.frames import text_frame
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry


def frame(**fields: Any) -> bytes:
    return text_frame(msgspec.json.encode(fields))


class BookmarksEncoder(msgspec.Struct, frozen=True):
    def encode(self, session: SessionId, entry: Entry) -> bytes:
        # The kind is known without decoding: most entries are not shown.
        if entry.kind not in ("text", "user.message"):
            return b""
        event = ev.decode(entry.event)
        if isinstance(event, ev.Text):
            return frame(type="text", seq=entry.seq, by="agent", text=event.text)
        assert isinstance(event, ev.UserMessage)
        text = "".join(block.text for block in event.content if isinstance(block, TextBlock))
        return frame(type="text", seq=entry.seq, by="user", text=text)

    def signal(self, session: SessionId, kind: str, name: str, data: Any) -> bytes:
        return b""
