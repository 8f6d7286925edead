"""What a person has been shown of a session: kept for each user, so that lists can tell what is new to them."""

from typing import Final

import msgspec

from fairlead.model.ids import SessionId
from fairlead.model.requests import ServiceCall

SPACE: Final = "shown"
"""The documents that say so, by session."""


class MarkRead(ServiceCall, frozen=True):
    """So many turns of the session were shown to the one who asks; never fewer than before. -> None"""

    session: SessionId
    turns: int


class GetReadState(ServiceCall, frozen=True):
    """-> `Shown` of the one who asks"""

    sessions: tuple[SessionId, ...]


class TurnsRead(msgspec.Struct, frozen=True):
    """Turns that were shown, by session; one that is not here was never looked at. `watched`: the sessions that an open
    socket of this user shows now, all that is in them included."""

    turns: dict[str, int]
    watched: frozenset[str] = frozenset()
