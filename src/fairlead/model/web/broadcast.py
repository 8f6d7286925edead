"""Broadcast channels: messages to every open socket of a protocol, whichever session it watches. A port; nothing is
stored.

A socket protocol requests its channel (`JoinChannel`) and enters it (`model.web.sockets.EnterChannel`). From then on
its socket receives every changed session, and all frames that are sent to that channel with `Broadcast`. The route by
which a socket connected does not matter.
"""

from collections.abc import Callable
from typing import Protocol

from fairlead.model.gateway import Sink
from fairlead.model.store import Summary
from fairlead.model.web.requests import ServiceCall


class SessionListCodec(Protocol):
    """Encodes session changes for a protocol. `key` names the channel; all members share the frames of the first
    member's codec."""

    @property
    def key(self) -> str: ...
    def session(self, summary: Summary, at: int) -> bytes:
        """Encode a new, changed or deleted session as ready frames; empty where the protocol does not send it. Of a
        deleted session only the tombstone is left."""


class ChannelSubscription(Protocol):
    """A socket's membership in a channel, until `leave`."""

    def drained(self) -> None: ...
    def leave(self) -> None: ...


BroadcastChannel = Callable[[Sink], ChannelSubscription]
"""Makes a socket a member of the channel."""


class JoinChannel(ServiceCall["BroadcastChannel"], frozen=True):
    codec: SessionListCodec


class Broadcast(ServiceCall[int], frozen=True):
    """-> the number of member sockets. Sends ready frames to the current members only; they are dropped for a slow
    socket."""

    key: str
    frames: bytes
