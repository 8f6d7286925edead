"""Events as records in the form of the CLI, for agents that write others."""

from typing import Any

from fairlead.agents.claude.wire.decode import decode
from fairlead.agents.claude.wire.records import InvalidRecord, UnknownRecord
from fairlead.model import events as ev
from fairlead.model.content import TextBlock
from fairlead.model.formats.cli_records import cli_records, encode_record
from fairlead.model.ids import CallId, EventId, MessageId, RequestId, SessionId

SESSION = SessionId("5f0c1e8e-4d58-4a3a-9a3c-0d5f3a1f0001")


def of(event: type[Any], **fields: Any) -> Any:
    return event(id=EventId("r/0/x"), **fields)


EVENTS: list[Any] = [
    of(ev.AgentReady, agent_session="s", model="m", cwd="/srv", commands=("init",)),
    of(ev.UserMessage, message=MessageId("m1"), content=(TextBlock("hello"),)),
    of(ev.TextDelta, message=MessageId("a1"), block=0, offset=0, text="Hel"),
    of(ev.TextDelta, message=MessageId("a1"), block=0, offset=3, text="lo"),
    of(ev.ThinkingDelta, message=MessageId("a1"), block=1, offset=0, text="So"),
    of(ev.Text, message=MessageId("a1"), block=0, text="Hello", marks=((3, 3), (4, 5))),
    of(ev.Thinking, message=MessageId("a1"), block=1, text="So"),
    of(ev.ToolCalled, call=CallId("c1"), name="Bash", input={"command": "ls"}, message=MessageId("a1")),
    of(ev.ToolEnded, call=CallId("c1"), content="a.txt", is_error=True, status="failed"),
    of(ev.PermissionRequested, request=RequestId("p:0"), call=CallId("c1"), tool="Bash", input={"command": "ls"}),
    of(ev.TurnEnded, status="completed", text="Hello"),
]


def test_they_are_records_that_the_wire_knows() -> None:
    for event in EVENTS:
        lines = cli_records(event, SESSION)
        assert lines, event
        for line in lines:
            assert not isinstance(decode(encode_record(line)), InvalidRecord | UnknownRecord), line


def test_the_stream_of_a_block_begins_and_ends() -> None:
    steps = [
        line["event"]["type"]
        for event in EVENTS[2:6]
        if not isinstance(event, ev.ThinkingDelta)
        for line in cli_records(event, SESSION)
        if line["type"] == "stream_event"
    ]
    assert steps == [
        *("message_start", "content_block_start", "content_block_delta", "content_block_delta"),
        *("content_block_stop", "message_stop"),
    ]


def test_records_have_different_ids_which_do_not_change() -> None:
    events = [type(event)(**{**_fields(event), "id": EventId(f"r{n}/0/x")}) for n, event in enumerate(EVENTS)]
    ids = [line["uuid"] for event in events for line in cli_records(event, SESSION) if "uuid" in line]
    assert len(ids) == len(set(ids))
    assert ids == [line["uuid"] for event in events for line in cli_records(event, SESSION) if "uuid" in line]


def test_events_outside_the_conversation_have_no_record() -> None:
    assert cli_records(of(ev.Notice, kind="title", text="x"), SESSION) == ()


def _fields(event: Any) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__struct_fields__}
