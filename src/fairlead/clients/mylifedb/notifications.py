"""The notification stream: server-sent events that report which session changed, and how. Pure."""

from typing import Final

import msgspec

from fairlead.model.web.requests import do
from fairlead.model.web.routes import ChangeStream, Request, Routes, Steps
from fairlead.model.web.session_changes import ListenToChanges, SessionChangeNotice

routes = Routes("mylifedb.")
BEAT: Final = b":\n\n"
"""A comment line that keeps the connection alive through a proxy."""


def event(notice: SessionChangeNotice) -> bytes:
    change = {"sessionId": notice.session, "operation": notice.what}
    message = {"type": "claude-session-updated", "timestamp": notice.at, "data": change}
    return b"data: %s\n\n" % msgspec.json.encode(message)


@routes.get("/api/notifications/stream", "view", "notifications", token_query="access_token")
def stream(request: Request) -> Steps:
    listener = yield from do(ListenToChanges())
    return ChangeStream(listener=listener, encode=event, beat=BEAT, content_type="text/event-stream")
