"""REST handlers as pure functions, against recorded cases: the steps that they request, and their responses.

A case is a file of `tests/golden/claudecodeui-rest`: the request, the answer to each step in order, the response.
With FAIRLEAD_WRITE=1 the steps' names and the response are rewritten.
"""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from fairlead.auth.api.credentials import SignedIn, TooManyAttempts, WrongPassword
from fairlead.clients.claudecodeui import PROTOCOL
from fairlead.model import errors
from fairlead.model import events as ev
from fairlead.model.auth import Identity
from fairlead.model.commands import Reply
from fairlead.model.ids import EventId, MessageId, SessionId
from fairlead.model.queries import EventPage, PreviewTranscript, SessionView, TranscriptPreview, WaitLoaded
from fairlead.model.store import SessionPage, Summary
from fairlead.model.web.requests import Head, Response, parse_query
from fairlead.model.web.routes import Request
from fairlead.server.route_table import RouteTable
from fairlead.sessions.api.folders import SessionChoices

FOLDER = Path(__file__).parents[2] / "golden" / "claudecodeui-rest"
CASES = sorted(FOLDER.glob("*.json"))
FRESH = "77777777-7777-4777-8777-777777777777"
KINDS: dict[str, Any] = {
    "ListSessions": SessionPage,
    "GetSession": SessionView,
    "ReadMessages": EventPage,
    "ReadEvents": EventPage,
    "ReadSessionChoices": SessionChoices,
    "ListFolder": str,
    "SignIn": SignedIn,
    "AcceptInvitation": SignedIn,
    "RenewToken": SignedIn | None,
    "Create": Reply,
    "Rename": Reply,
    "ArchiveSession": Reply,
    "Delete": Reply,
    "SetModel": Reply,
    "Configure": Reply,
    "Broadcast": int,
}
ERRORS: dict[str, errors.FairleadError] = {
    "NotFound session": errors.NotFound("session", "x"),
    "NotFound folder": errors.NotFound("folder", "/nosuch"),
    "OutsideRoots": errors.OutsideRoots("/etc", ("/home/ann",)),
    "NotAllowed": errors.NotAllowed("This needs the scope chat, which your credential does not have."),
    "WrongPassword": WrongPassword(),
    "TooManyAttempts": TooManyAttempts(30),
}
TABLE = RouteTable([PROTOCOL])


def request_of(case: dict[str, Any]) -> tuple[Any, Request]:
    method, _, target = case["request"].partition(" ")
    path, _, query = target.partition("?")
    match = TABLE.http(method, path)
    assert match is not None, case["request"]
    expires = int(case.get("expires", 0))
    who = Identity("user:1" if expires else "abc", "ann", "ann", frozenset({"view", "chat"}), expires)
    body = msgspec.json.encode(case["body"]) if "body" in case else b""
    head = Head(method=method, path=path, query=query, peer="203.0.113.7")
    asked = Request(
        head=head, who=who, fresh=FRESH, params=match.params, query=parse_query(query) if query else {}, body=body
    )
    return match.route, asked


def described(step: Any) -> dict[str, Any]:
    """A step as it stands in the case: its name and its fields, without `frames`, `password` and `command`."""
    fields = msgspec.to_builtins(step, enc_hook=str)
    shown = {name: value for name, value in fields.items() if name not in ("frames", "password", "command")}
    return {"step": type(step).__name__, **shown}


def answered(case: dict[str, Any]) -> tuple[list[dict[str, Any]], Response]:
    route, asked = request_of(case)
    steps = route.handle(asked)
    seen: list[dict[str, Any]] = []
    answers = iter(case["answers"])
    try:
        step = next(steps)
        while True:
            seen.append(described(step))
            answer = next(answers)
            if isinstance(answer, str) and answer.startswith("raise "):
                step = steps.throw(ERRORS[answer.removeprefix("raise ")])
            else:
                step = steps.send(msgspec.convert(answer, KINDS[type(step).__name__]))
    except StopIteration as end:
        response = end.value
    assert isinstance(response, Response), "more steps than answers"
    assert next(answers, None) is None, "more answers than steps"
    return seen, response


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_case_is_answered_as_it_was_recorded(path: Path) -> None:
    case = json.loads(path.read_text())
    seen, response = answered(case)
    result = {
        "steps": seen,
        "status": response.status,
        "headers": dict(response.headers),
        "response": json.loads(response.body),
    }
    if os.environ.get("FAIRLEAD_WRITE"):
        case |= result
        path.write_text(json.dumps(case, indent=2, ensure_ascii=False) + "\n")
    assert {name: case.get(name) for name in result} == result


def test_a_long_list_of_projects_is_requested_in_a_few_steps() -> None:
    """The original reads every project again (fault 21). This gateway queries the index by the thousand, and opens no
    session."""
    found = [
        {"session": f"{number:08x}-1111-4111-8111-111111111111", "cwd": f"/home/ann/{number % 101}"}
        for number in range(3001)
    ]
    pages = [
        {"sessions": found[at : at + 1000], "next": "more" if at + 1000 < len(found) else ""}
        for at in range(0, len(found), 1000)
    ]
    case = {"request": "GET /api/projects", "answers": [0, *pages, {"roots": ["/home/ann"]}, 0]}
    seen, response = answered(case)
    assert [step["step"] for step in seen] == ["Broadcast", *["ListSessions"] * 4, "ReadSessionChoices", "Broadcast"]
    listed = json.loads(response.body)
    assert (len(listed), sum(project["sessionMeta"]["total"] for project in listed)) == (102, 3001)
    assert max(len(project["sessions"]) for project in listed) == 20


def preview_with(*tokens: int) -> TranscriptPreview:
    """The end of a file with several texts of the agent, each with the size of its context."""
    events = [
        ev.Text(id=EventId(f"{n}"), message=MessageId("m"), block=0, text="x", tokens=ev.TokenCount(input=n))
        for n in tokens
    ]
    return TranscriptPreview(session=SessionId(FRESH), events=tuple(Raw(ev.encode(event)) for event in events))


def test_the_context_size_of_a_long_file_is_read_from_its_end() -> None:
    """The file is still being read: the request does not wait for it."""
    route, asked = request_of({"request": f"GET /api/providers/sessions/{FRESH}/token-usage"})
    steps = route.handle(asked)
    assert next(steps) == WaitLoaded(SessionId(FRESH), wait=False)
    assert isinstance(steps.send(False), PreviewTranscript)
    with pytest.raises(StopIteration) as end:
        steps.send(preview_with(100, 200, 0))
    assert json.loads(end.value.value.body)["data"]["used"] == 200


def test_a_session_whose_file_is_still_loading_does_not_count_as_running() -> None:
    route, asked = request_of({"request": "GET /api/providers/sessions/running"})
    steps = route.handle(asked)
    next(steps)
    steps.send(SessionPage((Summary(session=SessionId(FRESH), state="working"),)))
    assert steps.send(SessionPage(())) == WaitLoaded(SessionId(FRESH), wait=False)
    with pytest.raises(StopIteration) as end:
        steps.send(False)
    assert json.loads(end.value.value.body)["data"] == {"sessions": []}


def test_there_are_cases() -> None:
    assert len(CASES) >= 20
