"""Golden cases of the chat: tests/golden/cognova/<case>/in.jsonl gives live.jsonl (the frames to a peer) and
messages.json (the stored conversation). FAIRLEAD_WRITE=1 rewrites them: then review the diff.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from clients.cognova.chat_offline import SESSION, ChatRecorder, shown
from fairlead.model.ids import is_uuid

CASES = Path(__file__).parents[2] / "golden" / "cognova"
NAMES = sorted(path.name for path in CASES.iterdir())
FIELDS = {
    "chat:stream_start": (),
    "chat:text_delta": ("delta",),
    "chat:tool_start": ("toolUseId", "toolName"),
    "chat:tool_end": ("toolUseId", "result", "isError"),
    "chat:stream_end": ("costUsd", "durationMs"),
    "chat:interrupted": (),
    "chat:error": ("message",),
    "chat:permission_request": ("requestId", "toolName", "input"),
}


TYPES: dict[str, type] = {
    **dict.fromkeys(("delta", "toolUseId", "toolName", "result", "message", "requestId"), str),
    "isError": bool,
    "durationMs": int,
}


def lines(case: str, name: str) -> list[Any]:
    return [json.loads(line) for line in (CASES / case / name).read_text().splitlines()]


def record_case(case: str) -> ChatRecorder:
    return ChatRecorder().run(lines(case, "in.jsonl"))


def write(case: str, recorder: ChatRecorder) -> None:
    frames = [json.dumps(frame, ensure_ascii=False, separators=(",", ":")) + "\n" for frame in recorder.live()]
    (CASES / case / "live.jsonl").write_text("".join(frames))
    text = json.dumps(recorder.messages(), ensure_ascii=False, indent=1)
    (CASES / case / "messages.json").write_text(text + "\n")


@pytest.mark.rules("S002-002", "S002-026", "S002-030", "S002-034", "S002-037", "S002-045", "S002-049")
@pytest.mark.rules("S002-052")
@pytest.mark.parametrize("case", NAMES)
def test_a_case_comes_out_as_written(case: str) -> None:
    recorder = record_case(case)
    if os.environ.get("FAIRLEAD_WRITE"):
        write(case, recorder)
    frames = recorder.live()
    assert frames == lines(case, "live.jsonl")
    assert recorder.messages() == json.loads((CASES / case / "messages.json").read_text())
    for frame in frames:
        fields = FIELDS.get(frame["type"])
        if fields is not None:
            assert tuple(frame) == ("type", "conversationId", *fields, "seq")
            assert {name: type(frame[name]) for name in fields if name in TYPES} == {
                name: TYPES[name] for name in fields if name in TYPES
            }
        assert frame["conversationId"] == SESSION and is_uuid(frame["conversationId"])


def kinds(case: str) -> list[str]:
    return [frame["type"].removeprefix("chat:") for frame in lines(case, "live.jsonl")]


@pytest.mark.rules("S002-027", "S002-029", "S002-031", "S002-033", "S002-036", "S002-046")
def test_a_streamed_answer_with_a_tool_between_its_texts() -> None:
    assert kinds("streamed-with-tool") == [
        *["stream_start", "text_delta", "text_delta", "tool_start", "tool_end", "text_delta", "text_delta"],
        "stream_end",
    ]
    (answer,) = shown(lines("streamed-with-tool", "live.jsonl")).answers
    assert answer.parts == ["text:Here's how we can ", "tool:toolu_1", "text:All done."]
    assert answer.tools["toolu_1"].name == "Bash"


@pytest.mark.rules("S002-032")
def test_text_that_was_not_streamed_is_one_delta() -> None:
    assert kinds("not-streamed") == ["stream_start", "text_delta", "tool_start", "tool_end", "text_delta", "stream_end"]


@pytest.mark.rules("S002-051")
def test_an_interrupted_answer_has_no_stream_end_and_its_calls_end_before_it() -> None:
    assert kinds("interrupted-tool") == ["stream_start", "text_delta", "tool_start", "tool_end", "interrupted"]
    (end,) = [frame for frame in lines("interrupted-tool", "live.jsonl") if frame["type"] == "chat:tool_end"]
    assert end["isError"] is True


def test_the_text_of_an_interrupted_answer_is_kept() -> None:
    (_, answer) = record_case("interrupted-text").messages()["messages"]
    assert answer["content"] == [{"type": "text", "text": "Once upon a"}]
    assert record_case("interrupted-text").counted().status == "interrupted"


def test_an_incomplete_call_ends_with_the_interrupt() -> None:
    assert kinds("interrupted-input") == ["stream_start", "tool_start", "tool_end", "interrupted"]
    assert record_case("interrupted-input").counted().messages == 1


@pytest.mark.rules("S002-047", "S002-048")
def test_each_answer_has_its_own_cost_and_duration() -> None:
    """The agent's total is cumulative over the turns of a process."""
    ends = [frame for frame in lines("two-turns", "live.jsonl") if frame["type"] == "chat:stream_end"]
    assert [(end["costUsd"], end["durationMs"]) for end in ends] == [(0.035, 8200), (0.01, 1500)]
    stored = [message for message in record_case("two-turns").messages()["messages"] if message["role"] == "assistant"]
    assert [message["costUsd"] for message in stored] == [0.035, 0.01]


@pytest.mark.rules("S002-053")
def test_an_error_of_the_api_and_an_agent_that_died() -> None:
    assert kinds("failed") == [
        "stream_start",
        "text_delta",
        "error",
        "stream_end",
        "stream_start",
        "error",
        "stream_end",
    ]
    errors = [frame["message"] for frame in lines("failed", "live.jsonl") if frame["type"] == "chat:error"]
    assert errors == ["API Error: 529 overloaded", "the agent exited with code 1"]


def test_a_subagents_calls_are_sent_but_not_its_text() -> None:
    frames = lines("subagent", "live.jsonl")
    text = "".join(frame["delta"] for frame in frames if frame["type"] == "chat:text_delta")
    assert text == "Asking. It is done."
    assert [frame["toolName"] for frame in frames if frame["type"] == "chat:tool_start"] == ["Task", "Grep"]


def test_a_permission_is_requested_and_settled() -> None:
    frames = lines("permission", "live.jsonl")
    asked = next(frame for frame in frames if frame["type"] == "chat:permission_request")
    assert (asked["requestId"], asked["toolName"], asked["input"]) == ("req-1", "Bash", {"command": "make"})
    settled = [frame for frame in frames if frame["type"] == "chat:permission_resolved"]
    assert [(frame["requestId"], frame["allow"], frame["by"]) for frame in settled] == [
        ("req-1", True, "ann"),
        ("req-2", False, ""),
    ]


@pytest.mark.rules("S002-040", "S002-043")
def test_results_of_every_type_become_text() -> None:
    ends = [frame for frame in lines("results", "live.jsonl") if frame["type"] == "chat:tool_end"]
    assert [(end["result"], end["isError"]) for end in ends] == [
        ("plain", False),
        ("one, two", False),
        ('[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]', False),
        ("", False),
        ("no such file", True),
    ]


@pytest.mark.parametrize("case", NAMES)
def test_a_stored_result_is_the_text_that_was_sent_live(case: str) -> None:
    frames = lines(case, "live.jsonl")
    ends = {frame["toolUseId"]: frame["result"] for frame in frames if frame["type"] == "chat:tool_end"}
    stored = {
        block["tool_use_id"]: block["content"]
        for message in record_case(case).messages()["messages"]
        for block in message["content"]
        if block["type"] == "tool_result"
    }
    assert all(isinstance(content, str) for content in stored.values())
    assert {call: ends[call] for call in stored} == {call: text[:5000] for call, text in stored.items()}
