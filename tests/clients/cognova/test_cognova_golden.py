"""Properties of the golden cases of the chat (`golden/cases.py`)."""

import pytest

from clients.cognova.chat_offline import SESSION, ChatRecorder, Frame, shown
from fairlead.model.ids import is_uuid
from golden.cases import case_names, read_history, read_lines, read_log

NAMES = case_names("cognova")
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


def live(case: str) -> list[Frame]:
    return read_lines("cognova", case, "live.jsonl")


def messages(case: str) -> list[Frame]:
    stored: list[Frame] = read_history("cognova", case)["messages"]
    return stored


def recorded(case: str) -> ChatRecorder:
    return ChatRecorder().replay(read_log("cognova", case))


@pytest.mark.rules("S002-002", "S002-026", "S002-030", "S002-034", "S002-037", "S002-045", "S002-049")
@pytest.mark.rules("S002-052")
@pytest.mark.parametrize("case", NAMES)
def test_frames_have_the_fields_of_their_type(case: str) -> None:
    for frame in live(case):
        fields = FIELDS.get(frame["type"])
        if fields is not None:
            assert tuple(frame) == ("type", "conversationId", *fields, "seq")
            assert {name: type(frame[name]) for name in fields if name in TYPES} == {
                name: TYPES[name] for name in fields if name in TYPES
            }
        assert frame["conversationId"] == SESSION and is_uuid(frame["conversationId"])


def kinds(case: str) -> list[str]:
    return [frame["type"].removeprefix("chat:") for frame in live(case)]


@pytest.mark.rules("S002-027", "S002-029", "S002-031", "S002-033", "S002-036", "S002-046")
def test_a_streamed_answer_with_a_tool_between_its_texts() -> None:
    assert kinds("streamed-with-tool") == [
        *["stream_start", "text_delta", "text_delta", "tool_start", "tool_end", "text_delta", "text_delta"],
        "stream_end",
    ]
    (answer,) = shown(live("streamed-with-tool")).answers
    assert answer.parts == ["text:Here's how we can ", "tool:toolu_1", "text:All done."]
    assert answer.tools["toolu_1"].name == "Bash"


@pytest.mark.rules("S002-032")
def test_text_that_was_not_streamed_is_one_delta() -> None:
    assert kinds("not-streamed") == ["stream_start", "text_delta", "tool_start", "tool_end", "text_delta", "stream_end"]


@pytest.mark.rules("S002-051")
def test_an_interrupted_answer_has_no_stream_end_and_its_calls_end_before_it() -> None:
    assert kinds("interrupted-tool") == ["stream_start", "text_delta", "tool_start", "tool_end", "interrupted"]
    (end,) = [frame for frame in live("interrupted-tool") if frame["type"] == "chat:tool_end"]
    assert end["isError"] is True


def test_the_text_of_an_interrupted_answer_is_kept() -> None:
    (_, answer) = messages("interrupted-text")
    assert answer["content"] == [{"type": "text", "text": "Once upon a"}]
    assert recorded("interrupted-text").counted().status == "interrupted"


def test_an_incomplete_call_ends_with_the_interrupt() -> None:
    assert kinds("interrupted-input") == ["stream_start", "tool_start", "tool_end", "interrupted"]
    assert recorded("interrupted-input").counted().messages == 1


@pytest.mark.rules("S002-047", "S002-048")
def test_each_answer_has_its_own_cost_and_duration() -> None:
    """The agent's total is cumulative over the turns of a process."""
    ends = [frame for frame in live("two-turns") if frame["type"] == "chat:stream_end"]
    assert [(end["costUsd"], end["durationMs"]) for end in ends] == [(0.035, 8200), (0.01, 1500)]
    stored = [message for message in messages("two-turns") if message["role"] == "assistant"]
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
    errors = [frame["message"] for frame in live("failed") if frame["type"] == "chat:error"]
    assert errors == ["API Error: 529 overloaded", "the agent exited with code 1"]


def test_a_subagents_calls_are_sent_but_not_its_text() -> None:
    frames = live("subagent")
    text = "".join(frame["delta"] for frame in frames if frame["type"] == "chat:text_delta")
    assert text == "Asking. It is done."
    assert [frame["toolName"] for frame in frames if frame["type"] == "chat:tool_start"] == ["Task", "Grep"]


def test_a_permission_is_requested_and_settled() -> None:
    frames = live("permission")
    asked = next(frame for frame in frames if frame["type"] == "chat:permission_request")
    assert (asked["requestId"], asked["toolName"], asked["input"]) == ("req-1", "Bash", {"command": "make"})
    settled = [frame for frame in frames if frame["type"] == "chat:permission_resolved"]
    assert [(frame["requestId"], frame["allow"], frame["by"]) for frame in settled] == [
        ("req-1", True, "ann"),
        ("req-2", False, ""),
    ]


@pytest.mark.rules("S002-040", "S002-043")
def test_results_of_every_type_become_text() -> None:
    ends = [frame for frame in live("results") if frame["type"] == "chat:tool_end"]
    assert [(end["result"], end["isError"]) for end in ends] == [
        ("plain", False),
        ("one, two", False),
        ('[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]', False),
        ("", False),
        ("no such file", True),
    ]


@pytest.mark.parametrize("case", NAMES)
def test_a_stored_result_is_the_text_that_was_sent_live(case: str) -> None:
    frames = live(case)
    ends = {frame["toolUseId"]: frame["result"] for frame in frames if frame["type"] == "chat:tool_end"}
    stored = {
        block["tool_use_id"]: block["content"]
        for message in messages(case)
        for block in message["content"]
        if block["type"] == "tool_result"
    }
    assert all(isinstance(content, str) for content in stored.values())
    assert {call: ends[call] for call in stored} == {call: text[:5000] for call, text in stored.items()}
