"""The notification stream: server-sent events that say which session changed, and how. Pure."""

from typing import Final

import msgspec

from fairlead.model.routes import ChangeStream, Request, Route, Steps
from fairlead.model.session_changes import ChangeListenerHandle, ListenToChanges, SessionChangeNotice

BEAT: Final = b":\n\n"
"""A comment: what keeps the connection alive through a proxy."""


def event(news: SessionChangeNotice) -> bytes:
    told = {
        "type": "claude-session-updated",
        "timestamp": news.at,
        "data": {"sessionId": news.session, "operation": news.what},
    }
    return b"data: %s\n\n" % msgspec.json.encode(told)


def stream(request: Request) -> Steps:
    listener: ChangeListenerHandle = yield ListenToChanges()
    return ChangeStream(listener=listener, encode=event, beat=BEAT, content_type="text/event-stream")


ROUTE: Final = Route(
    method="GET",
    path="/api/notifications/stream",
    access="view",
    name="mylifedb.notifications",
    handle=stream,
    about="Which session changed, as it happens.",
    token_query="access_token",
)
