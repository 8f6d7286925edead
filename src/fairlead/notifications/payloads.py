"""Payloads for targets: a signed webhook, an ntfy message. The caller passes the time."""

import base64
import hashlib
import hmac
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import structs

from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.notifications.api.feed import Change, FeedEntry, FeedItem, FeedNotice, cursor_text

PRIORITIES: Final = {"success": 3, "info": 2, "warning": 4, "error": 4}


class Payload(msgspec.Struct, frozen=True):
    url: str
    body: bytes
    headers: dict[str, str]


def redacted(item: FeedItem) -> FeedItem:
    """The version for external receivers: without a session's title and without an agent's failure message."""
    if isinstance(item, FeedNotice):
        return structs.replace(item, name="", message=item.outside or item.title)
    return structs.replace(item, sentence="", name="" if item.resource == "conversation" else item.name)


def entry_json(entry: FeedEntry, feed: str) -> dict[str, Any]:
    item = redacted(entry.item)
    shown: dict[str, Any] = {
        "type": "change" if isinstance(item, Change) else "notice",
        "title": item.title,
        "message": item.message,
        "color": item.color,
        "timestamp": iso_timestamp(entry.at),
        "cursor": cursor_text(feed, entry.seq),
    }
    if isinstance(item, Change):
        shown |= {"resource": item.resource, "action": item.action, "resourceId": item.id, "resourceName": item.name}
    else:
        shown |= {"topic": item.topic, "kind": item.kind, "sessionId": item.session, "sessionName": item.name}
    return shown | {"meta": item.meta or {}}


def webhook(url: str, secret: str, entry: FeedEntry, feed: str, now: int) -> Payload:
    """A webhook signed according to the Standard Webhooks specification: HMAC-SHA256 of id, time and body."""
    body = msgspec.json.encode(entry_json(entry, feed))
    id, at = cursor_text(feed, entry.seq), str(now // 1000)
    signed = hmac.new(secret.encode(), b".".join((id.encode(), at.encode(), body)), hashlib.sha256).digest()
    signature = f"v1,{base64.b64encode(signed).decode()}"
    return Payload(url, body, {"webhook-id": id, "webhook-timestamp": at, "webhook-signature": signature})


def ntfy(url: str, token: str, entry: FeedEntry, feed: str, link: str) -> Payload:
    """An ntfy message, as JSON to the server's root: ntfy's headers allow only ASCII characters."""
    parts = urlsplit(url)
    base, _, topic = parts.path.rstrip("/").rpartition("/")
    item = redacted(entry.item)
    message = {
        "topic": topic,
        "title": item.title,
        "message": item.message,
        "priority": PRIORITIES[item.color],
        "tags": [item.resource if isinstance(item, Change) else item.topic],
    }
    if link:
        message["click"] = link
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return Payload(parts._replace(path=f"{base}/").geturl(), msgspec.json.encode(message), headers)
