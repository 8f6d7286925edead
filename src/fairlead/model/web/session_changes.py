"""Change notices for clients that show session lists: that a session changed, not how. A port; nothing is stored."""

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from fairlead.model.ids import SessionId
from fairlead.model.web.requests import ServiceCall

What = Literal["created", "updated", "activated", "deactivated", "deleted", "read"]


class SessionChangeNotice(msgspec.Struct, frozen=True):
    session: SessionId
    what: What
    at: int


class ChangeListenerHandle(Protocol):
    """One listener. Bounded: equal waiting notices of the same session count as one."""

    async def next_notices(self) -> Sequence[SessionChangeNotice]:
        """Wait for notices and return those since the last call; empty after `close`."""

    def close(self) -> None: ...


class ListenToChanges(ServiceCall["ChangeListenerHandle"], frozen=True):
    """-> `ChangeListenerHandle`; the caller closes it"""
