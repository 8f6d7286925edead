"""A call that the model began to write and never finished: once its first deltas were emitted, it ends exactly once."""

from typing import Any

import pytest

from agents.claude.golden_claude import SESSION, Input, Log
from fairlead.model import events as ev

COUNT = iter(range(10**6))


def stream(parent: str | None = None, **event: Any) -> Input:
    record = {"type": "stream_event", "uuid": f"s{next(COUNT)}", "session_id": SESSION, "parent_tool_use_id": parent}
    return {"agent": record | {"event": event}}


def begun(message: str, call: str, *pieces: str) -> list[Input]:
    start = {"type": "tool_use", "id": call, "name": "Write", "input": {}}
    deltas = [
        stream(type="content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": piece})
        for piece in pieces
    ]
    return [
        stream(type="message_start", message={"id": message}),
        stream(type="content_block_start", index=0, content_block=start),
        *deltas,
    ]


def whole(message: str, call: str) -> Input:
    block = {"type": "tool_use", "id": call, "name": "Write", "input": {"a": 1}}
    body = {"id": message, "role": "assistant", "content": [block]}
    return {"agent": {"type": "assistant", "uuid": f"a-{call}", "parent_tool_use_id": None, "message": body}}


PROMPT: Input = {"gateway": {"type": "user", "message": {"role": "user", "content": "go"}, "uuid": "p1"}}
RESULT: Input = {"agent": {"type": "result", "subtype": "success", "uuid": "r1", "is_error": False}}


def ends(*inputs: Input) -> list[tuple[str, str, bool]]:
    events = Log().run([PROMPT, *inputs]).events
    return [(event.call, event.status, event.is_error) for event in events if isinstance(event, ev.ToolEnded)]


@pytest.mark.parametrize(
    "over",
    [[RESULT], [{"exit": "it died"}], [*begun("m2", "call-2"), RESULT], [RESULT, {"exit": "later"}]],
    ids=["its turn ends", "the agent dies", "it is written anew", "only once"],
)
def test_an_unfinished_call_ends_with_its_turn_or_process(over: list[Input]) -> None:
    assert ends(*begun("m1", "call-1", "", '{"a'), *over) == [("call-1", "interrupted", True)]


def test_a_call_without_streamed_input_has_no_end() -> None:
    assert ends(*begun("m1", "call-1"), RESULT) == []
    assert ends(*begun("m1", "call-1", ""), RESULT) == []


def test_a_complete_call_ends_as_usual() -> None:
    assert ends(*begun("m1", "call-1", '{"a":1}'), whole("m1", "call-1"), RESULT) == [("call-1", "interrupted", True)]
