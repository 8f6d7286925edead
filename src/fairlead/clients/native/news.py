"""News of sessions for those who show lists: one long answer, a line of JSON for each thing that changed."""

from typing import Final

import msgspec

from fairlead.model.news import Listener, ListenToNews, SessionNews
from fairlead.model.routes import NewsStream, Request, Route, Steps

_encode = msgspec.json.Encoder().encode


def news(request: Request) -> Steps:
    listener: Listener = yield ListenToNews()
    return NewsStream(listener=listener, encode=_line, beat=b"\n", content_type="application/x-ndjson")


def _line(told: SessionNews) -> bytes:
    return _encode(told) + b"\n"


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/news",
        access="view",
        name="news",
        handle=news,
        about="Which sessions change, as it happens: a line each, an empty one when nothing does.",
        answer=SessionNews,
    ),
)
