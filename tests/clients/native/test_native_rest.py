"""The REST handlers, driven by hand: which commands and queries a request becomes."""

from typing import Any

import msgspec
import pytest

from fairlead.clients.native import ROUTES
from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.auth import Identity
from fairlead.model.commands import Reply, Settings
from fairlead.model.content import TextBlock
from fairlead.model.errors import BadId, BadRequest, FairleadError, NotFound
from fairlead.model.ids import MessageId, RequestId, SessionId
from fairlead.model.store import SessionFilter, SessionPage, Summary
from fairlead.model.web.requests import Head, Response
from fairlead.model.web.routes import LogStream, Request, Route
from fairlead.sessions.api.operation import DrainGateway, GatewayState, ReadGatewayState, StopGateway

S = SessionId("11111111-1111-4111-8111-111111111111")
FRESH = SessionId("99999999-9999-4999-8999-999999999999")
UUID = "44444444-4444-4444-8444-444444444444"
CONTROL = cmd.Control(session=S, subtype="x", fields={"a": 1})
BY_NAME = {route.name: route for route in ROUTES}


def ask(
    name: str,
    *answers: Any,
    body: Any = None,
    params: dict[str, str] | None = None,
    query: dict[str, str] | None = None,
    headers: tuple[tuple[str, str], ...] = (),
) -> tuple[list[Any], Any]:
    """Run a call with these answers to its steps; return the steps that it took and its return value."""
    route: Route = BY_NAME[name]
    request = Request(
        head=Head(method=route.method, path=route.path, headers=headers),
        who=Identity("c", "owner", "Ann", frozenset({"view", "admin"})),
        fresh=FRESH,
        base="http://localhost:1",
        params={"session": S} if params is None and "{session}" in route.path else params or {},
        query=query or {},
        body=b"" if body is None else msgspec.json.encode(body),
    )
    steps = route.handle(request)
    taken: list[Any] = []
    waiting = list(answers)
    try:
        step = next(steps)
        while True:
            taken.append(step)
            step = steps.send(waiting.pop(0) if waiting else Reply(session=S, seq=7))
    except StopIteration as end:
        return taken, end.value


def steps(name: str, *answers: Any, **given: Any) -> list[Any]:
    return ask(name, *answers, **given)[0]


def test_a_session_is_created_with_a_generated_or_a_given_id() -> None:
    taken, answer = ask("sessions.create", body={"cwd": "/p", "title": "T", "settings": {"model": "opus"}})
    assert taken == [cmd.Create(session=FRESH, cwd="/p", title="T", settings=Settings(model="opus"))]
    assert isinstance(answer, Response) and answer.status == 201
    assert steps("sessions.create", body={"session": S.upper()}) == [cmd.Create(session=S)]
    assert steps("sessions.create") == [cmd.Create(session=FRESH)]


def test_a_first_message_follows_its_session_even_when_the_key_found_another() -> None:
    other = SessionId("22222222-2222-4222-8222-222222222222")
    key = (("idempotency-key", "k"),)
    taken = steps("sessions.create", Reply(session=other, repeated=True), body={"text": "hi"}, headers=key)
    assert taken == [
        cmd.Create(session=FRESH, key="k"),
        cmd.Send(session=other, key="k/first", content=(TextBlock("hi"),)),
    ]


def test_a_bad_first_message_creates_nothing() -> None:
    with pytest.raises(BadRequest):
        steps("sessions.create", body={"text": ""})
    with pytest.raises(BadRequest):
        steps("sessions.create", body={"text": "a", "content": []})


def test_sessions_are_listed_by_filter() -> None:
    page = SessionPage(())
    assert steps("sessions.list", page) == [q.ListSessions(SessionFilter())]
    query = {"q": "x", "archived": "any", "cwd": "/p", "state": "idle", "before": "b", "limit": "7"}
    expected = SessionFilter(words="x", archived=None, cwd="/p", state="idle", before="b", limit=7)
    assert steps("sessions.list", page, query=query) == [q.ListSessions(expected)]
    for odd in ({"archived": "maybe"}, {"limit": "0"}, {"limit": "1001"}, {"limit": "-1"}, {"limit": "1e3"}):
        with pytest.raises(BadRequest):
            steps("sessions.list", page, query=odd)


@pytest.mark.parametrize("number", ["", " 1", "+1", "1_0", "٣", "0x1", "9" * 19, "9" * 5000, "1.0"])
def test_numbers_in_the_query_are_plain_digits(number: str) -> None:
    with pytest.raises(BadRequest):
        steps("events.list", query={"after": number})


@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        ("sessions.get", None, [q.GetSession(S)]),
        ("sessions.patch", {"title": "n"}, [cmd.Rename(session=S, title="n")]),
        (
            "sessions.patch",
            {"title": "n", "archived": True},
            [cmd.Rename(session=S, title="n"), cmd.ArchiveSession(session=S, archived=True)],
        ),
        ("sessions.delete", None, [cmd.Delete(session=S)]),
        ("sessions.fork", None, [cmd.Fork(session=S, child=FRESH)]),
        (
            "sessions.fork",
            {"child": UUID, "at": "m", "title": "t"},
            [cmd.Fork(session=S, child=SessionId(UUID), at=MessageId("m"), title="t")],
        ),
        ("sessions.interrupt", None, [cmd.Interrupt(session=S)]),
        ("sessions.hand-over", {"link": "terminal"}, [cmd.StartHandover(session=S, link="terminal")]),
        (
            "sessions.hand-over",
            {"link": "stdio", "when": "now", "wait": False},
            [cmd.StartHandover(session=S, link="stdio", when="now", wait=False)],
        ),
        ("sessions.hand-over.withdraw", None, [cmd.WithdrawHandover(session=S)]),
        ("sessions.close", None, [cmd.Close(session=S)]),
        ("sessions.rewind", {"message": "m"}, [cmd.Rewind(session=S, message=MessageId("m"))]),
        (
            "sessions.control",
            {"subtype": "x", "fields": {"a": 1}},
            [cmd.Control(session=S, subtype="x", fields={"a": 1})],
        ),
        ("messages.post", {"text": "hi"}, [cmd.Send(session=S, content=(TextBlock("hi"),))]),
        (
            "messages.post",
            {"text": "hi", "id": UUID, "steer": True},
            [cmd.Steer(session=S, content=(TextBlock("hi"),), message=MessageId(UUID))],
        ),
        ("usage.of_session", None, [q.ReadUsage(S)]),
        ("permissions.of_session", None, [q.ListPermissions(S)]),
        ("queue.list", None, [q.ReadQueue(S)]),
    ],
)
def test_a_call_becomes_its_steps(name: str, body: Any, expected: list[Any]) -> None:
    answers = [()] if name in ("permissions.of_session", "queue.list") else []
    assert steps(name, *answers, body=body) == expected


def test_calls_over_all_sessions() -> None:
    assert steps("usage.all") == [q.ReadUsage(None)]
    assert steps("permissions.list", ()) == [q.ListPermissions(None)]
    assert steps("agents.list", ()) == [q.ListAgents()]
    found = steps("search", q.SearchResult(), query={"q": " two words ", "limit": "5", "session": S})
    assert found == [q.SearchText("two words", 5, S)]
    for odd in ({}, {"q": " "}, {"q": "x", "session": "nope"}, {"q": "x", "limit": "201"}):
        with pytest.raises(BadRequest):
            steps("search", (), query=odd)


def test_pages_of_messages_and_events() -> None:
    page = q.EventPage(session=S, log_id="l", head=9, events=(msgspec.Raw(b'{"seq":1}'),), next=4)
    assert steps("messages.list", page) == [q.ReadMessages(S, None, 100)]
    assert steps("messages.list", page, query={"before": "5", "limit": "2"}) == [q.ReadMessages(S, 5, 2)]
    taken, answer = ask("events.list", page, query={"after": "3", "limit": "2", "format": "jsonl"})
    assert taken == [q.ReadEvents(S, 3, 2)]
    assert answer.body == b'{"seq":1}\n'
    assert dict(answer.headers) == {"fairlead-log-id": "l", "fairlead-head": "9", "fairlead-next": "4"}
    with pytest.raises(BadRequest):
        steps("events.list", page, query={"format": "xml"})


def test_settings_become_agent_commands_and_one_command_for_the_rest() -> None:
    view = q.SessionView(summary=Summary(session=S), log_id="l", head=1, settings={"model": "m", "effort": "low"})
    reply = Reply(session=S)
    body = {"mode": "plan", "model": "", "thinking": None, "effort": "high", "max_turns": 3}
    assert steps("sessions.settings", reply, reply, reply, view, body=body) == [
        cmd.SetMode(session=S, mode="plan"),
        cmd.SetModel(session=S, model=""),
        cmd.SetThinking(session=S, budget=None),
        q.GetSession(S),
        cmd.Configure(session=S, settings=Settings(model="m", effort="high", max_turns=3)),
    ]
    for odd in ({}, {"cliPath": "/bin/sh"}, {"mode": 5}, {"mode": None}):
        with pytest.raises(BadRequest):
            steps("sessions.settings", body=odd)


def test_a_permission_is_answered_by_the_id_of_its_request() -> None:
    body = {"behavior": "allow", "remember": ["Read"], "updated_input": {"a": 1}, "answers": {"q": "a"}}
    taken = steps("permissions.answer", body=body, params={"request": "r1"})
    assert taken == [
        cmd.AnswerPermission(
            request=RequestId("r1"),
            behavior="allow",
            remember=("Read",),
            updated_input={"a": 1},
            answers={"q": "a"},
        ),
    ]
    with pytest.raises(BadRequest):
        steps("permissions.answer", body={"behavior": "maybe"}, params={"request": "r1"})


def test_queued_messages_are_moved_and_withdrawn() -> None:
    where = {"session": S, "message": "m"}
    assert steps("queue.move", body={"position": 0}, params=where) == [
        cmd.MoveMessage(session=S, message=MessageId("m"), position=0)
    ]
    assert steps("queue.cancel", params=where) == [cmd.CancelMessage(session=S, message=MessageId("m"))]
    with pytest.raises(BadRequest):
        steps("queue.move", body={"position": -1}, params=where)


def test_an_export_is_a_stream_of_the_log() -> None:
    view = q.SessionView(summary=Summary(session=S), log_id="l", head=1)
    for form, kind in (("jsonl", "application/x-ndjson"), ("html", "text/html; charset=utf-8")):
        taken, answer = ask("sessions.export", view, query={"format": form})
        assert taken == [q.GetSession(S)]
        assert isinstance(answer, LogStream) and (answer.session, answer.content_type) == (S, kind)
    with pytest.raises(BadRequest):
        ask("sessions.export", view, query={"format": "pdf"})


def test_deleting_files_must_be_requested_explicitly() -> None:
    assert steps("sessions.delete", query={"files": "true"}) == [cmd.Delete(session=S, files=True)]
    with pytest.raises(BadRequest):
        steps("sessions.delete", query={"files": "yes"})


@pytest.mark.parametrize("name", sorted(route.name for route in ROUTES if "{session}" in route.path))
def test_every_call_on_a_session_checks_its_id(name: str) -> None:
    params = {"session": "../../etc/passwd", "message": "m"}
    body = {"position": 0, "text": "x", "message": "m", "subtype": "x", "title": "t", "mode": "m", "variables": {}}
    body |= {"link": "stdio", "version": "2.1.325", "agent_session": "s"}
    known = BY_NAME[name].body
    fields = {} if known is None else {key: body[key] for key in known.__struct_fields__ if key in body}
    with pytest.raises(BadId):
        steps(name, body=fields, params=params)


def test_a_key_that_is_too_long_is_refused() -> None:
    with pytest.raises(BadRequest):
        steps("sessions.interrupt", headers=(("idempotency-key", "k" * 201),))


def test_errors_of_the_core_pass_through_a_handler() -> None:
    request = Request(
        head=Head(method="GET", path="/"), who=Identity("", "", "", frozenset()), fresh=FRESH, params={"session": S}
    )
    handler = BY_NAME["sessions.get"].handle(request)
    next(handler)
    with pytest.raises(NotFound):
        handler.throw(NotFound("session", S))


def test_an_empty_change_is_an_error() -> None:
    with pytest.raises(FairleadError):
        steps("sessions.patch", body={})


def test_the_gateway_is_read_drained_and_stopped() -> None:
    state = GatewayState(state="draining", working=(), agents=1, kept=1, terminals=0, queued=2, on_stop="detach")
    taken, answer = ask("gateway.drain", state)
    assert taken == [DrainGateway()]
    assert (answer.status, msgspec.json.decode(answer.body)["queued"]) == (202, 2)
    assert steps("gateway.show", state) == [ReadGatewayState()]
    assert steps("gateway.cancel_drain", state) == [DrainGateway(cancel=True)]
    assert steps("gateway.stop", state, body={"agents": True}) == [StopGateway(agents=True)]
    assert steps("gateway.stop", state, body={}) == steps("gateway.stop", state) == [StopGateway(agents=False)]
    with pytest.raises(BadRequest):
        steps("gateway.stop", state, body={"agent": True})
