"""The pure parts of AHP: URIs, prompts, answers, configuration, the session list, the limits of a turn."""

import json
from typing import Any

import pytest

from fairlead.clients.ahp.channels import chat_of, file_uri, path_of, session_of
from fairlead.clients.ahp.context import (
    LAST_CHARACTERS,
    OPEN_TEXTS,
    PART_CHARACTERS,
    TEXT_CHARACTERS,
    TURN_CHARACTERS,
    Context,
)
from fairlead.clients.ahp.prompts import answers_of, message_content, message_id
from fairlead.clients.ahp.session_config import new_session_schema, values_of
from fairlead.clients.ahp.session_list import CODEC
from fairlead.clients.ahp.snapshots import AhpReducer, server_seq
from fairlead.clients.ahp.translate import translate
from fairlead.model import events as ev
from fairlead.model.content import ImageBlock, TextBlock
from fairlead.model.errors import BadRequest
from fairlead.model.ids import CallId, EventId, MessageId, RequestId, SessionId, TurnId, is_uuid
from fairlead.model.queries import AgentView
from fairlead.model.store import Summary
from fairlead_testing.replay import log_of, unframed

SESSION = SessionId("11111111-1111-4111-8111-111111111111")
TURN = TurnId("t1")
NAME = EventId("e")


def test_the_uris_of_sessions_and_chats() -> None:
    assert session_of(f"fairlead:/{SESSION.upper()}") == SESSION and chat_of(f"ahp-chat:/{SESSION}") == SESSION
    for uri in ("fairlead:/x", f"fairlead:/{SESSION}/annotations", f"ahp-session:/{SESSION}", SESSION, ""):
        assert session_of(uri) is None and chat_of(uri) is None


@pytest.mark.parametrize("path", ["/", "/srv/a b", "/srv/ü#?%41"])
def test_a_path_and_its_uri(path: str) -> None:
    assert path_of(file_uri(path)) == path
    assert path_of(f"file://localhost{file_uri(path).removeprefix('file://')}") == path


@pytest.mark.parametrize("uri", ["", "/srv", "http://a/b", "file:srv", "file://other/srv", "file:///%00", "file://[/x"])
def test_other_uris_are_no_files(uri: str) -> None:
    with pytest.raises(BadRequest):
        path_of(uri)


def test_the_id_of_a_message_comes_from_the_clients_own() -> None:
    own = "22222222-2222-4222-8222-222222222222"
    assert message_id(SESSION, own) == own
    made = message_id(SESSION, "request_1")
    assert is_uuid(made) and made == message_id(SESSION, "request_1") != message_id(SESSION, "request_2")


def test_a_message_with_attachments() -> None:
    attachments = [
        {"type": "embeddedResource", "contentType": "image/png", "data": "AAAA"},
        {"type": "embeddedResource", "contentType": "application/pdf", "data": "AAAA"},
        {"type": "resource", "uri": "file:///srv/a%20b"},
        {"type": "resource", "uri": "vscode:/x"},
        {"type": "simple", "modelRepresentation": "as text"},
        5,
    ]
    content = message_content({"message": {"text": "Look", "attachments": attachments}})
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    text = "Look\n\nAttached: /srv/a b\n\nAttached: vscode:/x\n\nas text"
    assert content == (TextBlock(text), ImageBlock(source))


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ({"kind": "text", "value": "so"}, "so"),
        ({"kind": "selected", "value": "A"}, "A"),
        ({"kind": "selected", "value": "", "freeformValues": ["mine"]}, "mine"),
        ({"kind": "selected-many", "value": ["A", "B"], "freeformValues": ["C"]}, "A, B, C"),
        ({"kind": "boolean", "value": True}, "yes"),
        ({"kind": "number", "value": 3}, "3"),
    ],
)
def test_answers_as_the_agent_gets_them(value: dict[str, Any], answer: str) -> None:
    given = {"Which?": {"state": "submitted", "value": value}, "Skipped?": {"state": "skipped"}, "odd": 5}
    assert answers_of(given) == {"Which?": answer}
    assert answers_of(None) == {}


def test_the_configuration_offers_agents_only_if_there_is_a_choice() -> None:
    one, two = AgentView(name="claude", default=True), AgentView(name="demo")
    broken = AgentView(name="codex", problem="not installed")
    schema = new_session_schema(["default", "plan"], [one, broken])
    assert list(schema["properties"]) == ["permissionMode", "model", "thinking"]
    schema = new_session_schema(["default", "plan"], [two, one, broken])
    assert schema["properties"]["agent"]["enum"] == ["demo", "claude"]
    values = values_of(schema, {"permissionMode": "plan", "agent": "codex", "model": 5, "isolation": "folder"})
    assert values == {"permissionMode": "plan", "model": "", "thinking": 0, "agent": "claude"}


@pytest.mark.parametrize(
    ("fields", "method"),
    [
        ({"turns": 0}, "root/sessionAdded"),
        ({"turns": 1, "state": "working"}, "root/sessionAdded"),
        ({"turns": 2}, "root/sessionSummaryChanged"),
        ({"archived": True}, "root/sessionRemoved"),
        ({"deleted": True}, "root/sessionRemoved"),
    ],
)
def test_the_notices_of_the_session_list(fields: dict[str, Any], method: str) -> None:
    summary = Summary(session=SESSION, title="A", cwd="/srv", **fields)
    (payload,) = unframed(CODEC.session(summary, 0))
    frame = json.loads(payload)
    assert frame["method"] == method and frame["params"]["channel"] == "ahp-root://"


def test_the_numbers_of_actions_grow_with_the_entries() -> None:
    assert server_seq(5, 0) < server_seq(5, 3) < server_seq(5) == server_seq(5, 1000) < server_seq(6, 0)
    assert server_seq(4_000_000_000_000) < 2**53


def test_a_large_turn_is_cut_and_a_person_can_still_confirm() -> None:
    """A turn is kept in memory while it runs: its size has a bound."""
    events: list[ev.Event] = [
        ev.TurnStarted(id=NAME, turn=TURN, trigger="agent"),
        ev.TextDelta(id=NAME, turn=TURN, message=MessageId("m"), block=0, offset=0, text="x" * 300_000),
        ev.Text(id=NAME, turn=TURN, message=MessageId("m"), block=0, text="x" * 300_000),
    ]
    for number in range(300):
        call = CallId(f"c{number}")
        given = {"command": "y" * 50_000}
        events.append(
            ev.ToolCalled(id=NAME, turn=TURN, call=call, name="Bash", input=given, message=MessageId("m"), block=1)
        )
        events.append(ev.ToolEnded(id=NAME, turn=TURN, call=call, content="z" * 50_000))
    fold = AhpReducer(SESSION)
    for entry in log_of(events).entries:
        fold.step(entry)
    assert len(fold.snapshot()) < TURN_CHARACTERS + TEXT_CHARACTERS + 300 * 2_000
    turn = fold._memory.context.turn
    assert turn is not None and turn.calls == {} and turn.texts == {}
    asked = ev.PermissionRequested(
        id=NAME, turn=TURN, request=RequestId("r"), call=CallId("c"), tool="Bash", input={"command": "w" * 50_000}
    )
    _, sent = translate(fold._memory.context, SESSION, asked, 5)
    ready = [one.action for one in sent if one.action["type"] == "chat/toolCallReady"][-1]
    assert ready["options"] and ready["editable"] is False


def test_a_turn_without_end_stops_growing_and_says_so() -> None:
    context, _ = translate(Context(), SESSION, ev.TurnStarted(id=NAME, turn=TURN, trigger="agent"), 1)
    added = 0
    for number in range(25_000):
        whole = ev.Text(id=NAME, turn=TURN, message=MessageId(f"m{number}"), block=0, text="x")
        context, sent = translate(context, SESSION, whole, 2)
        added += len(sent)
    assert added < LAST_CHARACTERS / PART_CHARACTERS + 2
    assert context.turn is not None and context.turn.full and context.turn.texts == {}
    for number in range(2 * OPEN_TEXTS):
        piece = ev.TextDelta(id=NAME, turn=TURN, message=MessageId(f"d{number}"), block=0, offset=0, text="x")
        context, sent = translate(context, SESSION, piece, 3)
        assert sent == []
    fresh, _ = translate(Context(), SESSION, ev.TurnStarted(id=NAME, turn=TURN, trigger="agent"), 1)
    for number in range(2 * OPEN_TEXTS):
        piece = ev.TextDelta(id=NAME, turn=TURN, message=MessageId(f"d{number}"), block=0, offset=0, text="x")
        fresh, _ = translate(fresh, SESSION, piece, 3)
    assert fresh.turn is not None and len(fresh.turn.texts) == OPEN_TEXTS


def test_numbers_that_the_stored_state_cannot_hold_are_bounded() -> None:
    """One number of an agent or a client must not make a session unreadable."""
    reference = f'{{"of":"ahp","client":"vs","number":{2**70},"name":"t"}}'
    usage = {"large": ev.ModelUsage(input=2**70, output=-5)}
    fold = AhpReducer(SESSION)
    for entry in log_of(
        [
            ev.MessageQueued(id=NAME, message=MessageId("m"), content=(TextBlock("hi"),), reference=reference),
            ev.UserMessage(id=NAME, turn=TURN, message=MessageId("m"), content=(TextBlock("hi"),)),
            ev.InterruptRequested(id=NAME, turn=TURN, reference=reference),
            ev.TurnEnded(id=NAME, turn=TURN, status="completed", usage=usage),
            ev.MessageQueued(id=NAME, message=MessageId("n"), content=(TextBlock("hi"),), reference=reference),
        ]
    ).entries:
        fold.step(entry)
        assert fold.snapshot()


def test_a_reference_of_another_protocol_is_no_origin() -> None:
    queued = ev.MessageQueued(
        id=NAME, message=MessageId("m"), content=(TextBlock("hi"),), reference='{"of":"other","client":1}'
    )
    _, sent = translate(Context(), SESSION, queued, 5)
    assert sent[0].action["turnId"] == "m" and sent[0].origin is None
