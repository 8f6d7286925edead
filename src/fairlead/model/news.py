"""News of sessions for those who show lists: that something changed, not what. A port; nothing here is kept."""

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from fairlead.model.ids import SessionId
from fairlead.model.requests import Action

What = Literal["created", "updated", "activated", "deactivated", "deleted", "read"]


class SessionNews(msgspec.Struct, frozen=True):
    session: SessionId
    what: What
    at: int


class Listener(Protocol):
    """One who listens. Bounded: the same news of the same session, while it waits to be heard, is one."""

    async def hear(self) -> Sequence[SessionNews]:
        """What has come since the last time, when there is something; nothing when it is over."""
        ...

    def close(self) -> None: ...


class ListenToNews(Action, frozen=True):
    """-> `Listener`; whoever has it closes it"""
