"""One client on the envelopes' socket: it says by its address from where on, and hears. Pure.

The first frame says how its place was taken, then come the envelopes, each with its `seq`. What a client sends is
passed over, as the original has no frames of its own here: it speaks by posting.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fairlead.auth.api.session_keys import ReadKey, SessionKey
from fairlead.clients.happy.mapper import VIEW
from fairlead.clients.happy.messages import EncryptedEncoder, PlainEncoder
from fairlead.model.errors import BadRequest, FairleadError
from fairlead.model.frames import text_frame
from fairlead.model.gateway import Cursor
from fairlead.model.ids import session_id
from fairlead.model.queries import GetSession
from fairlead.model.sockets import Check, CloseSocket, Do, Handshake, Perform, Subscribe, Subscribed, Write

GONE: Final = 4004
_KEY: Final = "key"
_OPEN: Final = PlainEncoder()


def after_of(opening: Handshake) -> int:
    """BadRequest for what is no ordinal. Digits beyond what any needs: int() of a long text is refused."""
    text = opening.query.get("after_seq", "0")
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise BadRequest("after_seq must be a whole number.", field="after_seq")
    return int(text)


def known(opening: Handshake) -> Check:
    """A session that is not there, or a place that is none, is refused before the upgrade."""
    after_of(opening)
    yield GetSession(session_id(opening.params["session"]))
    return None


class HappyConversation:
    __slots__ = ("_after", "_log_id", "_session")

    def __init__(self, opening: Handshake) -> None:
        self._session = session_id(opening.params["session"])
        self._after = after_of(opening)
        self._log_id = opening.query.get("log_id", "")

    def opened(self) -> Sequence[Do]:
        return (Perform(_KEY, ReadKey(self._session), _KEY),)

    def answered(self, tag: Any, answer: Any) -> Sequence[Do]:
        if isinstance(answer, Subscribed):
            told = {
                "type": "resumed",
                "verdict": answer.verdict,
                "after_seq": self._after if answer.verdict == "ok" else 0,
                "head": answer.head,
                "log_id": answer.log_id,
            }
            return (Write(text_frame(msgspec.json.encode(told))),)
        variant = EncryptedEncoder(answer) if isinstance(answer, SessionKey) else _OPEN
        return (Subscribe(_KEY, self._session, Cursor(self._after, self._log_id), variant, VIEW),)

    def received(self, data: bytes, text: bool) -> Sequence[Do]:
        return ()

    def failed(self, tag: Any, error: FairleadError) -> Sequence[Do]:
        return (CloseSocket(GONE, error.message[:120]),)

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Do]:
        return ()
