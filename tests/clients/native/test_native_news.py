"""News of sessions on the native protocol: a line of JSON each, on one long answer."""

import json

import pytest

from fairlead.clients.native.news import ROUTES
from fairlead.model.auth import Identity
from fairlead.model.ids import SessionId
from fairlead.model.news import ListenToNews, SessionNews
from fairlead.model.requests import Head
from fairlead.model.routes import NewsStream, Request
from fairlead.sessions.news import NewsDesk
from fairlead.testing.clock import ManualClock


def test_news_are_lines_and_silence_is_an_empty_one() -> None:
    [route] = ROUTES
    who = Identity("c", "ann", "ann", frozenset({"view"}))
    steps = route.handle(Request(head=Head(method="GET", path=route.path), who=who, fresh=""))
    assert isinstance(next(steps), ListenToNews)
    listener = NewsDesk(ManualClock()).listen()
    with pytest.raises(StopIteration) as end:
        steps.send(listener)
    answer = end.value.value
    assert isinstance(answer, NewsStream) and answer.listener is listener
    assert (answer.content_type, answer.beat) == ("application/x-ndjson", b"\n")
    session = SessionId("11111111-1111-4111-8111-111111111111")
    line = answer.encode(SessionNews(session, "updated", 5))
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert json.loads(line) == {"session": session, "what": "updated", "at": 5}
