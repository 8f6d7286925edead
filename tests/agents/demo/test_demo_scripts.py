"""The pure script library: how a prompt selects a script, and what each script answers at each step."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agents.scripts import (
    ApiError,
    Block,
    Call,
    Fault,
    ScriptText,
    SlowText,
    ToolResult,
    ToolUse,
    catalogue,
    chunks,
    parse,
    respond,
)
from fairlead_testing.conversations import read_conversation

OK = ToolResult("fine")
BAD = ToolResult("broken", is_error=True)


def blocks(prompt: str, *results: ToolResult, tools: frozenset[str] = frozenset(), attempt: int = 0) -> list[Block]:
    name, argument = parse(prompt) or (None, "")
    return respond(Call(name, argument, results, tools, messages=7, attempt=attempt))


def only_text(answer: list[Block]) -> str:
    (block,) = answer
    assert isinstance(block, ScriptText)
    return block.text


def uses(answer: list[Block]) -> list[ToolUse]:
    return [b for b in answer if isinstance(b, ToolUse)]


def test_the_catalogue_names_every_script_once_with_a_line_of_help() -> None:
    names = [name for name, _, _ in catalogue()]
    assert len(set(names)) == len(names)
    wanted = (
        "text echo long think tool bash write read edit parallel twice subagent background question plan slow slowtool "
        "bgbash loop mcp todo glob error error_once cut crash unknown burst structured"
    )
    assert set(wanted.split()) <= set(names)
    assert all(description and "\n" not in description for _, _, description in catalogue())


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("SCRIPT:text", ("text", "")),
        ("please SCRIPT:write a b.txt ", ("write", "a b.txt")),
        ("SCRIPT:one\nSCRIPT:two x\nmore", ("two", "x")),
        ("SCRIPT:", None),
        ("no marker", None),
        ("script:text", None),
    ],
)
def test_the_last_marker_of_a_text_chooses(text: str, chosen: tuple[str, str] | None) -> None:
    assert parse(text) == chosen


def test_no_marker_gives_the_tour_and_an_unknown_name_gives_the_names() -> None:
    assert "SCRIPT:long" in only_text(blocks("hello"))
    assert "'nonsense'" in only_text(blocks("SCRIPT:nonsense"))


def test_every_script_answers_every_step_with_at_least_one_block() -> None:
    for name, _, _ in catalogue():
        for results in ((), (OK,), (BAD,), (OK, OK), (OK, BAD, OK)):
            answer = respond(Call(name, "", results))
            assert answer, name
            assert "There is no script" not in repr(answer)


def test_a_script_is_a_function_of_its_call() -> None:
    for name, _, _ in catalogue():
        call = Call(name, "3", (OK,), frozenset({"Bash", "Agent"}), 4, 1)
        assert respond(call) == respond(call)


def test_the_closing_sentence_contains_the_tool_output() -> None:
    assert only_text(blocks("SCRIPT:tool", OK)) == "Done. The tool said: fine"
    assert only_text(blocks("SCRIPT:tool", BAD)) == "The tool failed: broken"


def test_echo_counts_the_messages() -> None:
    assert only_text(blocks("SCRIPT:echo")) == "I see 7 messages."


def test_steps_of_the_scripts_that_have_several() -> None:
    assert [u.name for u in uses(blocks("SCRIPT:edit f"))] == ["Read"]
    assert [u.name for u in uses(blocks("SCRIPT:edit f", OK))] == ["Edit"]
    assert uses(blocks("SCRIPT:edit f", BAD)) == []
    assert len(uses(blocks("SCRIPT:parallel"))) == 2
    assert [len(uses(blocks("SCRIPT:twice", *[OK] * n))) for n in range(3)] == [1, 1, 0]
    assert len(uses(blocks("SCRIPT:loop", *[OK] * 50))) == 1


def test_a_subagent_gets_the_inner_script_by_the_name_the_agent_knows() -> None:
    (use,) = uses(blocks("SCRIPT:subagent write x", tools=frozenset({"Task", "Bash"})))
    assert (use.name, use.input["prompt"], use.input["run_in_background"]) == ("Task", "SCRIPT:write x", False)
    (use,) = uses(blocks("SCRIPT:background", tools=frozenset({"Agent"})))
    assert (use.name, use.input["prompt"], use.input["run_in_background"]) == ("Agent", "SCRIPT:tool", True)


def test_scripts_use_the_available_tools() -> None:
    assert uses(blocks("SCRIPT:glob *.py", tools=frozenset({"Glob"})))[0].input == {"pattern": "*.py"}
    assert uses(blocks("SCRIPT:glob", tools=frozenset({"Bash"})))[0].name == "Bash"
    assert "no TodoWrite" in only_text(blocks("SCRIPT:todo", tools=frozenset({"Bash"})))
    assert uses(blocks("SCRIPT:todo"))[0].name == "TodoWrite"
    assert uses(blocks('SCRIPT:structured {"x": 2}', tools=frozenset({"StructuredOutput"})))[0].input == {"x": 2}
    assert json.loads(only_text(blocks('SCRIPT:structured {"x": 2}'))) == {"x": 2}
    assert "must be a JSON" in only_text(blocks("SCRIPT:structured {"))


def test_faults() -> None:
    assert [b.status for b in blocks("SCRIPT:error 529") if isinstance(b, ApiError)] == [529]
    assert [b.status for b in blocks("SCRIPT:error teapot") if isinstance(b, ApiError)] == [400]
    assert isinstance(blocks("SCRIPT:error_once")[0], ApiError)
    assert isinstance(blocks("SCRIPT:error_once", attempt=1)[0], ScriptText)
    assert blocks("SCRIPT:cut")[-1] is Fault.CUT
    assert isinstance(blocks("SCRIPT:cut", attempt=1)[-1], ScriptText)
    assert blocks("SCRIPT:crash")[-1] is Fault.CRASH
    assert blocks("SCRIPT:unknown")[0] is Fault.UNKNOWN_RECORDS
    thought = blocks("SCRIPT:think")[0]
    assert isinstance(thought, ScriptText)
    assert thought.kind == "thinking"


def test_counts_are_bounded_and_nonsense_is_a_default() -> None:
    assert blocks("SCRIPT:burst 5") == [SlowText("word ", 5, 0.0)]
    assert blocks("SCRIPT:burst ten") == [SlowText("word ", 1000, 0.0)]
    (slow,) = blocks("SCRIPT:slow 99999999")
    assert isinstance(slow, SlowText)
    assert slow.count == 10_000


@given(st.text(), st.integers(min_value=-3, max_value=50))
def test_chunks_join_to_the_text_and_are_no_more_than_asked_for(text: str, count: int) -> None:
    parts = chunks(text, count)
    assert "".join(parts) == text
    assert 1 <= len(parts) <= max(count, 1)


@given(st.text(alphabet=st.characters(exclude_characters="\n\r\x85\u2028\u2029\x0b\x0c\x1c\x1d\x1e")))
def test_a_bash_command_survives_the_prompt(command: str) -> None:
    chosen = parse(f"SCRIPT:bash {command}")
    assert chosen is not None
    if "SCRIPT:" not in command:
        assert chosen == ("bash", command.strip())


# ---- conversations


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": c} if isinstance(c, str) else c for c in content]}


def tool_result(text: Any, *, is_error: bool = False) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "t", "content": text, "is_error": is_error}


ANSWER = {"role": "assistant", "content": [{"type": "text", "text": "SCRIPT:never mine"}]}


def test_results_after_the_prompt_are_the_step() -> None:
    call = read_conversation(
        [user("SCRIPT:twice"), ANSWER, user(tool_result("a")), ANSWER, user(tool_result("b", is_error=True))]
    )
    assert (call.name, call.step, call.messages) == ("twice", 2, 5)
    assert call.results == (ToolResult("a"), ToolResult("b", is_error=True))


def test_a_new_prompt_starts_again() -> None:
    call = read_conversation([user("SCRIPT:tool"), ANSWER, user(tool_result("a")), ANSWER, user("SCRIPT:text x")])
    assert (call.name, call.argument, call.step) == ("text", "x", 0)
    assert read_conversation([user("SCRIPT:tool"), ANSWER, user("and now?")]).name is None


def test_reminders_inside_a_result_are_not_tool_output() -> None:
    call = read_conversation(
        [user("SCRIPT:tool"), ANSWER, user(tool_result("hi\n\n<system-reminder>x</system-reminder>"))]
    )
    assert call.results == (ToolResult("hi"),)


def test_string_content_and_lists_of_texts_are_read() -> None:
    assert read_conversation([{"role": "user", "content": "SCRIPT:echo"}]).name == "echo"
    call = read_conversation([user("SCRIPT:tool"), ANSWER, user(tool_result([{"type": "text", "text": "deep"}]))])
    assert call.results == (ToolResult("deep"),)


@pytest.mark.parametrize(
    "added",
    [
        "<system-reminder>\nSCRIPT:not this one\n</system-reminder>",
        "<system-reminder>be kind</system-reminder>",
        "[Request interrupted by user]",
        "<command-name>/context</command-name>",
        "",
    ],
)
def test_text_added_by_an_agent_is_not_a_prompt(added: str) -> None:
    assert read_conversation([user("SCRIPT:tool", added), ANSWER, user(tool_result("a"), added)]).name == "tool"


def test_a_prompt_behind_a_reminder_in_one_block_counts() -> None:
    text = "<system-reminder>SCRIPT:no</system-reminder>\nSCRIPT:text yes"
    assert read_conversation([user(text)]).argument == "yes"


def test_a_message_sent_into_the_turn_takes_precedence() -> None:
    steered = "The user sent a new message while you were working:\nSCRIPT:text steered"
    for message in (
        {"role": "system", "content": [{"type": "text", "text": steered}]},
        user(tool_result("a"), f"<system-reminder>\n{steered}\n</system-reminder>"),
        user(tool_result(f"a\n\n<system-reminder>\n{steered}\n</system-reminder>")),
    ):
        call = read_conversation([user("SCRIPT:tool"), ANSWER, user(tool_result("a")), message])
        assert (call.name, call.argument, call.step) == ("text", "steered", 0)


def test_a_background_task_notification_is_answered_with_a_sentence() -> None:
    note = "<task-notification>\n<summary>It is done</summary>\n</task-notification>"
    call = read_conversation([user("SCRIPT:background"), ANSWER, user(tool_result("launched")), ANSWER, user(note)])
    assert "It is done" in only_text(respond(call))


def test_a_continuation_request_after_a_cut_stream_is_a_retry() -> None:
    call = read_conversation([user("SCRIPT:cut"), ANSWER, user("Your response above was cut off. Go on.")])
    assert (call.name, call.attempt) == ("cut", 1)


def test_an_mcp_tool_is_called_with_the_given_input() -> None:
    assert blocks("SCRIPT:mcp") == [ToolUse("mcp__demo__add", {"a": 1, "b": 2})]
    assert blocks("SCRIPT:mcp mcp__x__y") == [ToolUse("mcp__x__y", {"a": 1, "b": 2})]
    assert blocks('SCRIPT:mcp mcp__x__y {"limit": 3}') == [ToolUse("mcp__x__y", {"limit": 3})]
    for wrong in ("[]", "{", "x"):
        assert "a JSON object" in only_text(blocks(f"SCRIPT:mcp mcp__x__y {wrong}"))
