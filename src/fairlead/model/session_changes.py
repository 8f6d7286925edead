"""News of sessions for those who show lists: that something changed, not what. A port; nothing here is kept."""

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from fairlead.model.ids import SessionId
from fairlead.model.requests import ServiceCall

What = Literal["created", "updated", "activated", "deactivated", "deleted", "read"]


class SessionChangeNotice(msgspec.Struct, frozen=True):
    session: SessionId
    what: What
    at: int


class ChangeListenerHandle(Protocol):
    """One who listens. Bounded: the same news of the same session, while it waits to be heard, is one."""

    async def hear(self) -> Sequence[SessionChangeNotice]:
        """What has come since the last time, when there is something; nothing when it is over."""
        ...

    def close(self) -> None: ...


class ListenToChanges(ServiceCall, frozen=True):
    """-> `Listener`; whoever has it closes it"""
