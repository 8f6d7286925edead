"""Properties of the golden cases of the chat (`golden/cases.py`)."""

import json

import pytest

from agents.claude.golden_claude import inputs
from clients.claudecodeui.chat_harness import frame_kinds
from clients.claudecodeui.chat_offline import ChatRecorder, Frame, shown
from clients.cognova.chat_offline import SESSION
from fairlead.model.formats.numbered_frames import FRAMES
from golden.cases import case_names, read_history, read_lines

NAMES = case_names("claudecodeui")
ELSEWHERE = "transcript"
"""Another program works on this session: the interpreter cannot determine when its turn has ended."""
ENVELOPE = ("id", "sessionId", "timestamp", "provider", "kind")
FIELDS: dict[str, tuple[str, ...]] = {
    "stream_delta": ("content",),
    "thinking": ("content",),
    "tool_use": ("toolName", "toolInput", "toolId"),
    "status": ("text", "tokenBudget"),
    "error": ("content",),
    "permission_request": ("requestId", "toolName", "input"),
    "complete": ("actualSessionId", "exitCode", "success", "aborted"),
}


def live(case: str) -> list[Frame]:
    return read_lines("claudecodeui", case, "live.jsonl")


def kinds(case: str) -> list[str]:
    return frame_kinds(live(case))


def rows(case: str) -> list[Frame]:
    stored: list[Frame] = read_history("claudecodeui", case)
    return stored


@pytest.mark.rules("S003-051", "S003-053", "S003-055", "S003-059")
@pytest.mark.parametrize("case", NAMES)
def test_frames_have_the_fields_of_their_kind(case: str) -> None:
    frames = live(case)
    for frame in frames:
        fields = FIELDS.get(frame["kind"])
        if fields is not None and "parentToolUseId" not in frame:
            assert tuple(frame) == (*ENVELOPE, *fields, "seq")
        assert tuple(frame)[:5] == ENVELOPE and frame["sessionId"] == SESSION
    assert case == ELSEWHERE or frames[-1]["kind"] == "complete"


def test_a_streamed_answer_with_a_tool_between_its_texts() -> None:
    assert kinds("streamed-with-tool") == [
        *["stream_delta", "stream_delta", "stream_end", "tool_use", "tool_result"],
        *["stream_delta", "stream_delta", "stream_end", "complete"],
    ]
    stored = {row["id"]: row for row in rows("streamed-with-tool")}
    for frame in live("streamed-with-tool"):
        if frame["kind"] == "tool_use" or "role" in frame:
            assert frame["id"] in stored
            assert frame.get("content") == stored[frame["id"]].get("content"), "the end of pieces has the whole text"
    assert sum("role" in frame for frame in live("streamed-with-tool")) == 2


def test_ids_are_derived_from_the_records() -> None:
    (text,) = [frame for frame in live("budget") if frame["kind"] == "text"]
    assert text["id"] == "a0000000-0000-4000-8000-000000000002_0"
    (result,) = [frame for frame in live("question") if frame["kind"] == "tool_result"]
    assert result["id"] == "b0000000-0000-4000-8000-000000000003_tr_toolu_1"


def test_the_context_size_is_reported_after_each_record() -> None:
    (status,) = [frame for frame in live("budget") if frame["kind"] == "status"]
    assert status["text"] == "token_budget"
    assert status["tokenBudget"] == {
        "used": 135,
        "total": 160000,
        "inputTokens": 12,
        "outputTokens": 3,
        "cacheReadTokens": 100,
        "cacheCreationTokens": 20,
        "cacheTokens": 120,
        "breakdown": {"input": 12, "output": 3},
    }


@pytest.mark.rules("S003-044")
@pytest.mark.parametrize("case", ["interrupted-text", "interrupted-tool", "taken-back"])
def test_an_aborted_run(case: str) -> None:
    end = live(case)[-1]
    assert (end["kind"], end["aborted"], end["success"], end["exitCode"]) == ("complete", True, False, 0)
    assert kinds(case).count("complete") == 1


def test_a_message_that_leaves_the_queue_ends_no_run() -> None:
    assert kinds("taken-from-the-queue") == ["text", "complete"]


@pytest.mark.rules("S003-057")
def test_an_error_of_the_api_and_an_agent_that_died() -> None:
    ends = [frame for frame in live("failed") if frame["kind"] == "complete"]
    assert [(end["exitCode"], end["success"], end["aborted"]) for end in ends] == [(1, False, False)] * 2
    (error,) = [frame for frame in live("failed") if frame["kind"] == "error"]
    assert error["content"] == "the agent exited with code 1"


def test_permissions_are_requested_settled_and_cancelled() -> None:
    settled = [frame for frame in live("permission") if frame["kind"] == "permission_cancelled"]
    assert [(frame["requestId"], frame["reason"]) for frame in settled] == [
        ("req-1", "answered"),
        ("req-2", "cancelled"),
    ]
    assert (settled[0]["allow"], settled[0]["by"]) == (True, "ann")
    asked = [frame for case in ("question", "plan") for frame in live(case) if frame["kind"] == "permission_request"]
    assert [frame["toolName"] for frame in asked] == ["AskUserQuestion", "ExitPlanMode"]


def test_a_subagents_rows_name_its_call_and_history_lists_its_calls_there() -> None:
    inner = [frame for frame in live("subagent") if "parentToolUseId" in frame]
    (outer,) = [frame for frame in live("subagent") if frame["kind"] == "tool_use" and frame["toolName"] == "Task"]
    assert inner and {frame["parentToolUseId"] for frame in inner} == {outer["toolId"]}
    (task,) = [row for row in rows("subagent") if row["kind"] == "tool_use"]
    assert [tool["toolName"] for tool in task["subagentTools"]] == ["Grep"]
    assert task["subagentTools"][0]["toolResult"]["isError"] is False


@pytest.mark.rules("S003-060")
def test_sequence_numbers_continue_over_two_runs() -> None:
    numbers = [frame["seq"] for frame in live("two-turns")]
    assert kinds("two-turns").count("complete") == 2
    assert numbers == sorted(set(numbers)) and numbers[0] >= FRAMES


def test_unprompted_output_of_the_agent_is_a_separate_run() -> None:
    assert kinds("own-turn").count("complete") == 2


@pytest.mark.rules("S003-007")
def test_transcript_history_has_only_messages_and_the_first_prompt_once() -> None:
    """Newer CLIs write rows of other types that contain the prompt again; the original shows it twice."""
    assert [(row["role"], row["content"]) for row in rows("transcript")] == [
        ("user", "hello from elsewhere"),
        ("assistant", "Hello."),
        ("user", "/context"),
        ("assistant", "14k tokens"),
    ]
    assert rows("transcript")[2]["isLocalCommand"] is True
    assert rows("transcript")[3]["isLocalCommandStdout"] is True


def test_results_of_every_type_become_text() -> None:
    results = [frame for frame in live("results") if frame["kind"] == "tool_result"]
    assert all(isinstance(frame["content"], str) and isinstance(frame["isError"], bool) for frame in results)
    assert json.loads(results[1]["content"])[0]["type"] == "text"


def test_a_picture_in_a_prompt_is_a_picture_in_history() -> None:
    (row,) = [row for row in rows("images") if row["role"] == "user"]
    assert (row["content"], row["images"]) == ("what is it?", [{"data": "data:image/png;base64,aGk="}])


def test_the_reference_client_shows_each_case_to_its_end() -> None:
    for case in {*NAMES} - {ELSEWHERE}:
        client = shown(live(case))
        assert client.streaming == "" and not client.processing, case
        ids = [row["id"] for row in client.rows if "id" in row]
        assert len(ids) == len(set(ids))


def test_a_background_permission_request_is_repeated_after_complete() -> None:
    """On `complete` the app removes all permission cards."""
    recorder = ChatRecorder().run(inputs("2.1.325-background_and_prompt"))
    frames = recorder.live()
    (asked, *_) = [frame for frame in frames if frame["kind"] == "permission_request"]
    ends = [place for place, frame in enumerate(frames) if frame["kind"] == "complete"]
    again = frames[ends[0] + 1]
    assert (again["kind"], again["requestId"], again["input"]) == (asked["kind"], asked["requestId"], asked["input"])
    assert again["seq"] // FRAMES == frames[ends[0]]["seq"] // FRAMES
    assert asked["requestId"] in shown(frames[: ends[0] + 2]).requests
