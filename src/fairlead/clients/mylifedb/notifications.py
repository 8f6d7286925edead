"""The notification stream: server-sent events that report which session changed, and how. Pure."""

from typing import Final

import msgspec

from fairlead.model.web.routes import ChangeStream, Request, Route, Steps
from fairlead.model.web.session_changes import ChangeListenerHandle, ListenToChanges, SessionChangeNotice

BEAT: Final = b":\n\n"
"""A comment line that keeps the connection alive through a proxy."""


def event(notice: SessionChangeNotice) -> bytes:
    message = {
        "type": "claude-session-updated",
        "timestamp": notice.at,
        "data": {"sessionId": notice.session, "operation": notice.what},
    }
    return b"data: %s\n\n" % msgspec.json.encode(message)


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
