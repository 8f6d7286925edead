"""Read state of sessions: stored for each user, so that lists can show what is new to them."""

from typing import Final

import msgspec

from fairlead.model.ids import SessionId
from fairlead.model.web.requests import ServiceCall

SPACE: Final = "shown"
"""Document space of the read states; the key is the session."""


class MarkRead(ServiceCall[None], frozen=True):
    """Record that `turns` turns of the session were shown to the caller; the number never decreases. -> None"""

    session: SessionId
    turns: int


class GetReadState(ServiceCall["TurnsRead"], frozen=True):
    """-> `TurnsRead` of the caller"""

    sessions: tuple[SessionId, ...]


class TurnsRead(msgspec.Struct, frozen=True):
    """Turns that were shown, by session; a session that is missing here was never opened. `watched`: sessions with a
    live subscription of this user, who has been shown all of their content."""

    turns: dict[str, int]
    watched: frozenset[str] = frozenset()
