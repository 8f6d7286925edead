"""One client on the envelope socket: the URL gives the start position, the client only receives. Pure.

The first frame reports how the start position was interpreted; then the envelopes follow, each with its `seq`.
Messages from the client are ignored, because the original protocol has no client frames here: clients send by POST.
"""

from collections.abc import Sequence
from typing import Final

from fairlead.auth.api.session_keys import ReadKey
from fairlead.clients.happy.mapper import VIEW
from fairlead.clients.happy.messages import HappyEncoder
from fairlead.model.errors import BadRequest, FairleadError
from fairlead.model.formats.frames import json_frame
from fairlead.model.gateway import Cursor
from fairlead.model.ids import session_id
from fairlead.model.queries import GetSession
from fairlead.model.web.requests import do
from fairlead.model.web.sockets import (
    Check,
    CloseSocket,
    Effect,
    Flow,
    Handshake,
    RunFlow,
    SilentProtocol,
    Subscribe,
    Subscribed,
    Write,
)

GONE: Final = 4004


def parse_after_seq(opening: Handshake) -> int:
    """Return the ordinal of the query's `after_seq`; raise BadRequest if it is not one.

    The length limit exceeds any real ordinal: Python's int() rejects a very long text."""
    text = opening.query.get("after_seq", "0")
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise BadRequest("after_seq must be a whole number.", field="after_seq")
    return int(text)


def check_session(opening: Handshake) -> Check:
    """Reject an unknown session or an invalid position before the upgrade."""
    parse_after_seq(opening)
    yield GetSession(session_id(opening.params["session"]))
    return None


class HappyConversation(SilentProtocol):
    __slots__ = ("_after", "_log_id", "_session")

    def __init__(self, opening: Handshake) -> None:
        self._session = session_id(opening.params["session"])
        self._after = parse_after_seq(opening)
        self._log_id = opening.query.get("log_id", "")

    def opened(self) -> Sequence[Effect]:
        return (RunFlow(self._follow()),)

    def failed(self, error: FairleadError) -> Sequence[Effect]:
        return (CloseSocket(GONE, error.message[:120]),)

    def _follow(self) -> Flow:
        key = yield from do(ReadKey(self._session))
        cursor = Cursor(self._after, self._log_id)
        subscribed: Subscribed = yield Subscribe(self._session, cursor, HappyEncoder(key), VIEW, lost=self.failed)
        after = self._after if subscribed.verdict == "ok" else 0
        place = {"after_seq": after, "head": subscribed.head, "log_id": subscribed.log_id}
        yield Write(json_frame({"type": "resumed", "verdict": subscribed.verdict, **place}))
