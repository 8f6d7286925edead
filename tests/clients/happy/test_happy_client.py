"""The reference client on our envelopes and on old history: what a chat shows, and where each message belongs."""

from typing import Any

import pytest

from clients.happy.envelopes import (
    MappedSession,
    Schema,
    assistant,
    call,
    client_of,
    map_envelopes,
    over,
    result,
    text,
    user,
    wire,
)
from fairlead_testing.happy_client import HappyClient, Shown, Tracer, normalise, strip_notifications

TASK = "cdbc6ff5ad64b06ccfa061c7"


def envelope(ev: dict[str, Any], **more: Any) -> dict[str, Any]:
    base: dict[str, Any] = {"id": "m1", "time": 5, "role": "agent", "turn": "t1"}
    return {**base, **more, "ev": ev}


def shown(ev: dict[str, Any], **more: Any) -> Shown | None:
    return normalise(wire(envelope(ev, **more)))


# --- one message ---------------------------------------------------------------------------------------------


@pytest.mark.rules("S001-068", "S001-101", "S001-102")
def test_example_2_as_an_app_has_it() -> None:
    made = map_envelopes(
        [
            assistant(call("Task", "toolu_task_1")),
            assistant(text("Subagent: found 3 files."), parent_tool_use_id="toolu_task_1"),
            assistant(text("So I hear.")),
        ]
    )
    child, main = (normalise(wire(item)) for item in made if item["ev"]["t"] == "text")
    assert child is not None
    assert (child.role, child.isSidechain) == ("agent", True)
    assert child.content == [{"type": "text", "text": "Subagent: found 3 files.", "parentUUID": TASK}]
    assert main is not None
    assert (main.isSidechain, main.content[0]["parentUUID"]) == (False, None)


def test_every_form_of_a_message_is_read() -> None:
    inner = envelope({"t": "text", "text": "hi"})
    forms = [
        wire(inner),
        {"role": "session", "content": {"type": "session", "data": inner}},
        {"role": "agent", "content": {"type": "session", "data": inner}},
    ]
    assert [normalise(form) for form in forms] == [normalise(forms[0])] * 3
    mine = normalise({"role": "user", "content": {"type": "text", "text": "hi"}, "localKey": "x"})
    assert mine is not None
    assert mine.role == "user"


@pytest.mark.parametrize(
    "message",
    [
        None,
        {},
        {"role": "session", "content": None},
        {"role": "agent", "content": {"type": "text", "text": "x"}},
        {"role": "user", "content": {}},
        wire(envelope({"t": "text"})),
        wire(envelope({"t": "of tomorrow"})),
        wire(envelope({"t": "text", "text": "x"}, turn="")),
        wire(envelope({"t": "text", "text": "x"}, role="session")),
        wire(envelope({"t": "text", "text": "x"}, subagent="toolu_1")),
        wire(envelope({"t": "text", "text": "x"}, time="now")),
        wire(envelope({"t": "turn-end"})),
        wire(envelope({"t": "turn-end", "status": "canceled"})),
        wire(envelope({"t": "service", "text": "x"}, role="user")),
        wire(envelope({"t": "start"}, role="user")),
        wire(envelope({"t": "file", "ref": "r", "name": "n"})),
        wire(envelope({"t": "tool-call-start", "call": "c", "name": "n"})),
        wire(envelope({"t": "turn-start"})),
        wire(envelope({"t": "start"})),
        wire(envelope({"t": "stop"})),
        wire(envelope({"t": "text", "text": "<task-notification>x</task-notification>"})),
    ],
)
def test_messages_that_a_chat_hides(message: Any) -> None:
    assert normalise(message) is None


def test_messages_that_a_chat_shows() -> None:
    thinking = shown({"t": "text", "text": "hm", "thinking": True})
    assert thinking is not None
    assert thinking.content == [{"type": "thinking", "thinking": "hm", "parentUUID": None}]
    ready = shown({"t": "turn-end", "status": "cancelled"})
    assert ready is not None
    assert ready.event == "ready"
    service = shown({"t": "service", "text": "said"})
    assert service is not None
    assert service.content[0]["text"] == "said"
    only_usage = shown({"t": "service", "text": ""}, usage={"input_tokens": 1}, turn="")
    assert only_usage is not None
    assert (only_usage.content, only_usage.usage) == ([], {"input_tokens": 1})
    file = shown({"t": "file", "ref": "r", "name": "n", "size": 3}, role="user", turn="")
    assert file is not None
    assert [part["type"] for part in file.content] == ["tool-call", "tool-result"]
    ended = shown({"t": "tool-call-end", "call": "c", "result": "out", "isError": True})
    assert ended is not None
    assert (ended.content[0]["content"], ended.content[0]["is_error"]) == ("out", True)


@pytest.mark.rules("S001-004", "S001-036")
def test_the_real_schema_takes_three_statuses_and_two_roles(schema: Schema) -> None:
    def taken(*envelopes: dict[str, Any]) -> list[bool]:
        return [problem is None for problem in schema.problems("sessionEnvelopeSchema", envelopes)]

    statuses = ("completed", "failed", "cancelled", "canceled", "", None)
    ends = [envelope({"t": "turn-end", "status": status}) for status in statuses]
    assert taken(*ends, envelope({"t": "turn-end"})) == [True, True, True, False, False, False, False]
    by_role = [envelope({"t": "text", "text": "x"}, role=role) for role in ("agent", "user", "session")]
    assert taken(*by_role) == [True, True, False]


def test_notifications_are_stripped_where_they_are_whole() -> None:
    nested = "<task-notification>a<task-notification>b</task-notification></task-notification>"
    assert strip_notifications(f" {nested}{nested}rest") == "rest"
    assert strip_notifications("<task-notification>open") == "<task-notification>open"
    assert strip_notifications("before <task-notification></task-notification>") != "before "


# --- where a message belongs ---------------------------------------------------------------------------------


@pytest.mark.rules("S001-103", "S001-105", "S001-108")
def test_a_subagents_messages_are_shown_under_the_call_that_started_it() -> None:
    session = MappedSession().run(
        [
            assistant(call("Agent", "toolu_a", description="A", prompt="go")),
            assistant(text("inside"), parent_tool_use_id="toolu_a"),
            user([result("toolu_a")]),
            assistant(text("outside")),
            over(),
        ]
    )
    client = client_of(session.envelopes)
    by_text = {item["ev"].get("text"): item["id"] for item in session.envelopes}
    (call_envelope,) = [item for item in session.envelopes if item["ev"]["t"] == "tool-call-start"]
    started, named = call_envelope["id"], call_envelope["ev"]["args"]["sessionSubagent"]
    assert {item["subagent"] for item in session.envelopes if "subagent" in item} == {named} != {"toolu_a"}
    assert client.tracer.children == {started: [by_text["go"], by_text["inside"]]}
    assert by_text["outside"] in client.tracer.main
    assert client.tracer.orphans == {}
    # The call's own id also leads to its message, so a message of old history that names the call is shown there too.
    client.tracer.trace(old("of old", "toolu_a"))
    assert client.tracer.children[started][-1] == "of old"


def test_the_subagent_of_a_hidden_task_is_shown_in_the_chat_itself() -> None:
    made = map_envelopes(
        [assistant(call("Task", "toolu_a")), assistant(text("inside"), parent_tool_use_id="toolu_a"), over()]
    )
    client = client_of(made)
    assert client.tracer.children == {}
    assert next(item["id"] for item in made if item["ev"].get("text") == "inside") in client.tracer.main


def old(name: str, parent: str | None = None, **calls: Any) -> Shown:
    """Build a message of old history; with a call, its `id` and `input`."""
    content: list[dict[str, Any]] = [{"type": "text", "text": name, "parentUUID": parent}]
    if calls:
        content = [{"type": "tool-call", "name": "Task", "description": "", "parentUUID": parent, **calls}]
    return Shown(id=name, isSidechain=parent is not None, content=content)


UUID1, UUID2 = "10000000-0000-4000-8000-000000000001", "10000000-0000-4000-8000-000000000002"


@pytest.mark.rules("S001-104")
def test_old_history_names_the_call_itself() -> None:
    tracer = Tracer()
    tracer.trace(old("task", id="toolu_1", input={}))
    tracer.trace(old("inside", "toolu_1"))
    assert tracer.children == {"task": ["inside"]}


@pytest.mark.rules("S001-106")
def test_old_history_finds_a_root_by_its_prompt_and_later_messages_by_their_parent() -> None:
    tracer = Tracer()
    tracer.trace(old("task", id="toolu_1", input={"prompt": "count"}))
    tracer.trace(old("root", UUID2), uuid=UUID1, prompt="count")
    tracer.trace(old("child", UUID1))
    assert tracer.children == {"task": ["root", "child"]}


@pytest.mark.rules("S001-107")
def test_orphans_of_old_history_wait_for_their_parent() -> None:
    tracer = Tracer()
    tracer.trace(old("early", UUID1))
    assert list(tracer.orphans) == [UUID1]
    tracer.trace(old("task", id="toolu_1", input={"prompt": "count"}))
    tracer.trace(old("root", UUID2), uuid=UUID1, prompt="count")
    assert tracer.orphans == {}
    assert tracer.children == {"task": ["root", "early"]}


def test_a_parent_that_is_not_a_uuid_is_not_waited_for() -> None:
    tracer = Tracer()
    tracer.trace(old("lone", "c0123456789abcdef0123456"))
    assert tracer.main == ["lone"]


# --- a client ------------------------------------------------------------------------------------------------------


def test_a_client_accepts_each_message_once_and_requests_missing_ones() -> None:
    made = [wire(item) for item in map_envelopes([assistant(text("a")), assistant(text("b")), over()])]
    client = HappyClient()
    assert client.receive(1, made[0])
    assert client.receive(1, made[0])
    assert not client.receive(3, made[2])
    assert client.state.last_seq == 1
    client.page(list(enumerate(made, 1)))
    assert client.state == client_of(map_envelopes([assistant(text("a")), assistant(text("b")), over()])).state


def test_a_client_detects_envelopes_out_of_place() -> None:
    client = HappyClient()
    evs: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"t": "text", "text": "before any turn"}, {}),
        ({"t": "turn-start"}, {}),
        ({"t": "turn-start"}, {}),
        ({"t": "text", "text": "x"}, {"subagent": "c1"}),
        ({"t": "start"}, {"subagent": "c1"}),
        ({"t": "start"}, {"subagent": "c1"}),
        ({"t": "stop"}, {"subagent": "c2"}),
        ({"t": "tool-call-end", "call": "c"}, {}),
        ({"t": "turn-end", "status": "completed"}, {}),
        ({"t": "text", "text": "at the same time"}, {"time": 8}),
    ]
    for number, (ev, more) in enumerate(evs):
        client.receive(number + 1, wire(envelope(ev, **{"time": number, "id": f"m{number}", **more})))
    assert [stray.split(":")[0] for stray in client.state.strays] == [
        "m0",
        "m0",
        "m2",
        "m3",
        "m5",
        "m6",
        "m7",
        "m8",
        "m9",
        "m9",
    ]
