"""One client on the socket: frames in, effects out. It never waits: anything that takes time is a flow."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from bookmarks.api import AddBookmark, ListBookmarks
from bookmarks.encoder import BookmarksEncoder, frame
from fairlead.model.commands import Send
from fairlead.model.content import TextBlock
from fairlead.model.errors import BadRequest, FairleadError
from fairlead.model.gateway import Cursor
from fairlead.model.ids import session_id
from fairlead.model.web.requests import do
from fairlead.model.web.sockets import Effect, Flow, Handshake, RunFlow, Subscribe, Write


class ClientFrame(msgspec.Struct, frozen=True):
    type: Literal["send", "mark"]
    text: str = ""
    seq: int = 0


class BookmarksConversation:
    def __init__(self, opening: Handshake) -> None:
        self._session = session_id(opening.params["session"])
        after = opening.query.get("after", "0")
        if not after.isdecimal() or len(after) > 15:
            raise BadRequest("after must be a seq, 0 for the whole log.", field="after")
        self._after = int(after)

    def opened(self) -> Sequence[Effect]:
        return (RunFlow(self._follow()),)

    def received(self, data: bytes, text: bool) -> Sequence[Effect]:
        try:
            message = msgspec.json.decode(data, type=ClientFrame)
        except msgspec.DecodeError as error:
            return (Write(frame(type="error", message=f"Invalid frame: {error}.")),)
        # The flows of one lane run one after another, so two messages are never reordered.
        return (RunFlow(self._send(message.text) if message.type == "send" else self._mark(message.seq), "client"),)

    def failed(self, error: FairleadError) -> Sequence[Effect]:
        """A flow did not handle this error."""
        return (Write(frame(type="error", message=error.message)),)

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Effect]:
        return self.failed(error)

    def _follow(self) -> Flow:
        marked = yield from do(ListBookmarks(self._session))
        yield Subscribe(self._session, Cursor(self._after), BookmarksEncoder())
        yield self._bookmarks(marked)

    def _send(self, text: str) -> Flow:
        yield Send(session=self._session, content=(TextBlock(text),))

    def _mark(self, seq: int) -> Flow:
        marked = yield from do(AddBookmark(self._session, seq))
        yield self._bookmarks(marked)

    def _bookmarks(self, marked: list[int]) -> Write:
        return Write(frame(type="bookmarks", seqs=marked))
