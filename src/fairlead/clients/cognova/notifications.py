"""The socket /notifications: what changed, as it happens, to everybody; notices of sessions to those who ask. Pure.

A peer that says nothing gets exactly the frames of the first form. One that has sent `subscribe` gets a `cursor` with
each frame, with which it is told later what it missed.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from fairlead.clients.cognova.rest import TOKEN_HEADER
from fairlead.model.errors import BadRequest, FairleadError
from fairlead.model.frames import text_frame
from fairlead.model.sockets import AttachOwner, CloseSocket, Do, Handshake, Perform, SocketOwner, SocketRoute
from fairlead.model.timestamps import moment
from fairlead.notifications.api import TOPICS, Change, FeedEntry, FeedPing, FeedRequest, JoinFeed, read_cursor

CONNECTED: Final = "Notification bus connected"
FAILED: Final = (1011, "the feed cannot be read: connect again")
MESSAGE_LIMIT: Final = 64 << 10
"""Bytes of a client's frame: the longest that means something has a few hundred."""
EARLY: Final = 16


def frame(value: dict[str, Any]) -> bytes:
    return text_frame(msgspec.json.encode(value))


def change_frame(change: Change, at: int) -> dict[str, Any]:
    """What there is not is left out, as JavaScript leaves it out."""
    told: dict[str, Any] = {"type": "resource_change", "resource": change.resource, "action": change.action}
    if change.id:
        told["resourceId"] = change.id
    if change.name:
        told["resourceName"] = change.name
    told |= {"title": change.title, "message": change.message, "color": change.color}
    if change.meta is not None:
        told["meta"] = change.meta
    return told | {"timestamp": moment(at)}


class NotificationCodec:
    """Implements `model.notices.FeedCodec`; one for all sockets."""

    key = "cognova"

    def read(self, data: bytes) -> FeedPing | FeedRequest | None:
        try:
            said = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if not isinstance(said, dict):
            return None
        if said.get("type") == "ping":
            return FeedPing()
        return _asked(said) if said.get("type") == "subscribe" else None

    def opened(self, now: int) -> bytes:
        return frame({"type": "connected", "message": CONNECTED, "timestamp": moment(now)})

    def pong(self, now: int) -> bytes:
        return frame({"type": "pong", "timestamp": moment(now)})

    def subscribed(self, ask: FeedRequest, verdict: Literal["ok", "gap"], cursor: str, now: int) -> bytes:
        topics = [topic for topic in TOPICS if topic in ask.topics]
        told = {"type": "subscribed", "topics": topics, "verdict": verdict, "cursor": cursor}
        return frame(told | {"timestamp": moment(now)})

    def failed(self, error: FairleadError, now: int) -> bytes:
        return frame({"type": "error", "message": error.message, "timestamp": moment(now)})

    def entry(self, entry: FeedEntry, cursor: str | None) -> bytes:
        told = entry.told
        if isinstance(told, Change):
            value = change_frame(told, entry.at)
        else:
            value = {
                "type": "notice",
                "topic": told.topic,
                "kind": told.kind,
                "sessionId": told.session,
                "sessionName": told.name,
                "title": told.title,
                "message": told.message,
                "color": told.color,
                "meta": told.meta or {},
                "timestamp": moment(entry.at),
            }
        return frame(value if cursor is None else value | {"cursor": cursor})


def _asked(said: dict[str, Any]) -> FeedRequest:
    topics, cursor = said.get("topics", []), said.get("cursor")
    if not isinstance(topics, list) or not all(topic in TOPICS for topic in topics):
        raise BadRequest(f"topics must be a list of: {', '.join(TOPICS)}", topics=list(TOPICS))
    if cursor is not None and (not isinstance(cursor, str) or read_cursor(cursor) is None):
        raise BadRequest("cursor must be one that a frame had")
    return FeedRequest(frozenset(topics), cursor)


CODEC: Final = NotificationCodec()


class Notifications:
    """Gives the feed the socket."""

    def __init__(self, opening: Handshake) -> None:
        self._early: list[bytes] = []

    def opened(self) -> Sequence[Do]:
        return (Perform(None, JoinFeed(CODEC), "feed"),)

    def received(self, data: bytes, text: bool) -> Sequence[Do]:
        """Before the feed has the socket; afterwards it hears everything itself."""
        if len(self._early) < EARLY:
            self._early.append(data)
        return ()

    def answered(self, tag: Any, answer: Any) -> Sequence[Do]:
        holder: SocketOwner = answer
        for data in self._early:
            holder.received(data)
        return (AttachOwner(holder),)

    def failed(self, tag: Any, error: FairleadError) -> Sequence[Do]:
        return (CloseSocket(*FAILED),)

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Do]:
        return ()


SOCKET: Final = SocketRoute(
    path="/notifications",
    access="view",
    name="cognova.notifications",
    open=Notifications,
    about="Every change of a resource, as it happens; notices of sessions to those who subscribe.",
    token_query="token",
    token_header=TOKEN_HEADER,
    message_limit=MESSAGE_LIMIT,
)
