"""For any request, claudecodeui's REST calls give an answer of the protocol and never an unexpected exception."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.clients.claudecodeui import PROTOCOL
from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError, NotFound
from fairlead.model.web.requests import Head, Response
from fairlead.model.web.routes import Request, Route

WHO = Identity("abc", "ann", "ann", frozenset({"view", "chat"}))
NAMES = st.sampled_from(
    ["username", "password", "invitation", "provider", "projectPath", "initialMessage", "summary", "path", "model"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=300) | st.just("claude"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)
BODIES = st.binary(max_size=40) | VALUES.map(msgspec.json.encode)


def answer_of(route: Route, request: Request) -> Any:
    """The handler's answer if every step that it requests is rejected."""
    steps = route.handle(request)
    try:
        next(steps)
        while True:
            steps.throw(NotFound("session", "x"))
    except StopIteration as end:
        return end.value
    except FairleadError as error:
        return error


@settings(deadline=None)
@given(
    st.sampled_from(PROTOCOL.routes),
    BODIES,
    st.dictionaries(st.sampled_from(["limit", "offset", "force"]), st.text(max_size=30), max_size=3),
    st.text(min_size=1, max_size=150).filter(lambda text: "/" not in text),
)
def test_no_request_raises_an_unexpected_exception(route: Route, body: bytes, query: dict[str, str], name: str) -> None:
    head = Head(method=route.method, path=route.path, peer="203.0.113.7")
    params = dict.fromkeys(("session", "project", "provider", "name", "path"), name)
    fresh = "77777777-7777-4777-8777-777777777777"
    request = Request(head=head, who=WHO, fresh=fresh, params=params, query=query, body=body)
    answer = answer_of(route, request)
    assert isinstance(answer, Response)
    assert answer.status < 500
    assert "x-auth-error" not in dict(answer.headers), "only the gate says that a token is dead"
    if answer.content_type == "application/json":
        decoded = msgspec.json.decode(answer.body)
        assert answer.status < 400 or decoded.get("error")
