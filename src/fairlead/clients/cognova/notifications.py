"""The socket /notifications: live changes for every client; notices of sessions for clients that subscribe. Pure.

A client that sends nothing gets exactly the protocol's original frames. A client that has sent `subscribe` gets a
`cursor` with each frame, with which it can later fetch the entries that it missed.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

from fairlead.model.errors import BadRequest, FairleadError
from fairlead.model.formats.frames import decode_message, json_frame
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.web.sockets import CloseSocket, Effect, Handing, Handshake, SocketRoute
from fairlead.notifications.api.feed import TOPICS, Change, FeedEntry, FeedPing, FeedRequest, JoinFeed, read_cursor

CONNECTED: Final = "Notification bus connected"
FAILED: Final = (1011, "the feed cannot be read: connect again")
MESSAGE_LIMIT: Final = 64 << 10
"""Maximum bytes of a client's frame: the longest valid one has a few hundred."""


def change_frame(change: Change, at: int) -> dict[str, Any]:
    """A change as a frame. Absent values are left out, as in JavaScript."""
    fields: dict[str, Any] = {"type": "resource_change", "resource": change.resource, "action": change.action}
    if change.id:
        fields["resourceId"] = change.id
    if change.name:
        fields["resourceName"] = change.name
    fields |= {"title": change.title, "message": change.message, "color": change.color}
    if change.meta is not None:
        fields["meta"] = change.meta
    return fields | {"timestamp": iso_timestamp(at)}


class NotificationCodec:
    """Implements `notifications.api.FeedCodec`; one instance for all sockets."""

    key = "cognova"

    def read(self, data: bytes) -> FeedPing | FeedRequest | None:
        match decode_message(data):
            case {"type": "ping"}:
                return FeedPing()
            case {"type": "subscribe"} as message:
                return _asked(message)
            case _:
                return None

    def opened(self, now: int) -> bytes:
        return json_frame({"type": "connected", "message": CONNECTED, "timestamp": iso_timestamp(now)})

    def pong(self, now: int) -> bytes:
        return json_frame({"type": "pong", "timestamp": iso_timestamp(now)})

    def subscribed(self, ask: FeedRequest, verdict: Literal["ok", "gap"], cursor: str, now: int) -> bytes:
        topics = [topic for topic in TOPICS if topic in ask.topics]
        fields = {"type": "subscribed", "topics": topics, "verdict": verdict, "cursor": cursor}
        return json_frame(fields | {"timestamp": iso_timestamp(now)})

    def failed(self, error: FairleadError, now: int) -> bytes:
        return json_frame({"type": "error", "message": error.message, "timestamp": iso_timestamp(now)})

    def entry(self, entry: FeedEntry, cursor: str | None) -> bytes:
        item = entry.item
        if isinstance(item, Change):
            value = change_frame(item, entry.at)
        else:
            session = {"sessionId": item.session, "sessionName": item.name}
            text = {"title": item.title, "message": item.message, "color": item.color, "meta": item.meta or {}}
            value = {"type": "notice", "topic": item.topic, "kind": item.kind, **session, **text}
            value["timestamp"] = iso_timestamp(entry.at)
        return json_frame(value if cursor is None else value | {"cursor": cursor})


def _asked(message: dict[str, Any]) -> FeedRequest:
    topics, cursor = message.get("topics", []), message.get("cursor")
    if not isinstance(topics, list) or not all(topic in TOPICS for topic in topics):
        raise BadRequest(f"topics must be a list of: {', '.join(TOPICS)}", topics=list(TOPICS))
    if cursor is not None and (not isinstance(cursor, str) or read_cursor(cursor) is None):
        raise BadRequest("cursor must be one that a frame had")
    return FeedRequest(frozenset(topics), cursor)


CODEC: Final = NotificationCodec()


class Notifications(Handing):
    def __init__(self, opening: Handshake) -> None:
        super().__init__(JoinFeed(CODEC), MESSAGE_LIMIT)

    def failed(self, error: FairleadError) -> Sequence[Effect]:
        return (CloseSocket(*FAILED),)


SOCKET: Final = SocketRoute(
    path="/notifications", access="view", name="cognova.notifications", open=Notifications, message_limit=MESSAGE_LIMIT
)
