"""Halls: what is told to every open socket of a protocol, whichever session it watches. A port; nothing here is kept.

A protocol's conversation asks for its hall (`EnterHall`) and enters it (`model.sockets.Enter`); from then on its socket
is told of every session that changed, and whatever somebody else tells that hall (`TellHall`). Which route a socket
came in by is nobody's business here.
"""

from typing import Protocol

from fairlead.model.gateway import Sink
from fairlead.model.requests import ServiceCall
from fairlead.model.store import Summary


class SessionListCodec(Protocol):
    """How a protocol tells it. `key` names the hall; all who name it share the frames that the first one's makes."""

    @property
    def key(self) -> str: ...
    def session(self, summary: Summary, at: int) -> bytes:
        """A session is new or has changed; ready frames, or nothing where the protocol does not tell it."""
        ...


class ChannelSubscription(Protocol):
    """A socket's place in a hall, until `leave`."""

    def drained(self) -> None: ...
    def leave(self) -> None: ...


class BroadcastChannel(Protocol):
    def enter(self, sink: Sink) -> ChannelSubscription: ...


class JoinChannel(ServiceCall, frozen=True):
    """-> `Hall`"""

    codec: SessionListCodec


class Broadcast(ServiceCall, frozen=True):
    """-> the number of sockets there. Ready frames for all who are there now, and only for them: a slow one goes
    without."""

    key: str
    frames: bytes
