"""The summary of a session file, from its first and last bytes."""

from typing import Any

import pytest

from agents.claude_transcripts.transcript_files import SESSION, Writer, conversation, lines
from fairlead.agents.claude.transcripts.summary import HEAD, TAIL, TranscriptSummary, is_typed, prompt_of, summarize


def test_a_short_file_is_summarised_completely() -> None:
    summary = summarize(lines(conversation("fix the test")))
    assert (summary.session, summary.cwd, summary.branch) == (SESSION, "/srv/project", "main")
    assert (summary.title, summary.first_prompt, summary.prompts) == ("fix the test", "fix the test", 1)
    assert (summary.model, summary.version, summary.useful, summary.sidechain) == (
        "claude-opus-5-5",
        "2.1.325",
        True,
        False,
    )
    assert summary.created < summary.updated
    assert summary.active == summary.created


def test_the_folder_comes_from_the_rows() -> None:
    assert summarize(lines(conversation(cwd="/srv/my.app_x"))).cwd == "/srv/my.app_x"


def test_two_ends_give_the_same_summary_as_the_whole_file_except_the_count() -> None:
    write = Writer()
    rows = [write.prompt("first words"), *(write.text("x" * 500) for _ in range(400)), write.prompt("last words")]
    data = lines(rows)
    assert len(data) > HEAD + TAIL
    whole, ends = summarize(data), summarize(data[:HEAD], data[-TAIL:])
    assert ends.prompts == 0
    assert [getattr(whole, name) for name in TranscriptSummary.__struct_fields__ if name != "prompts"] == [
        getattr(ends, name) for name in TranscriptSummary.__struct_fields__ if name != "prompts"
    ]


def test_a_custom_title_takes_precedence_over_a_summary_and_a_summary_over_a_prompt() -> None:
    rows = conversation("the prompt")
    summary = {"type": "summary", "summary": "the summary", "leafUuid": "l"}
    title = {"type": "custom-title", "customTitle": "the title", "sessionId": SESSION}
    assert summarize(lines([summary, *rows])).title == "the summary"
    assert summarize(lines([title, *rows, summary])).title == "the title"
    assert summarize(lines([title, *rows, {**title, "customTitle": "later"}])).title == "later"


def test_the_cost_is_the_last_value_from_the_cli() -> None:
    costs = [{"type": "cost-state", "totalCostUSD": cost, "sessionId": SESSION} for cost in (0.5, 0.75, "much")]
    assert summarize(lines([*conversation(), *costs])).cost_usd == 0.75


@pytest.mark.parametrize(
    "text",
    [
        "<ide_opened_file>x</ide_opened_file>",
        "<system-reminder>be brief</system-reminder>",
        "<task-notification>\n<task-id>a</task-id>",
        "<command-name>/clear</command-name>\n<command-message>clear</command-message><command-args></command-args>",
        "<local-command-caveat>c</local-command-caveat>",
        "<command-name/>",
        "<command-message>clear</command-message> <command-args />",
        "<local-command-stdout>out</local-command-stdout>",
        "[Request interrupted by user]",
        "   ",
    ],
)
def test_text_written_by_programs_is_not_a_prompt(text: str) -> None:
    assert not is_typed(text)
    assert summarize(lines([Writer().prompt(text)])).first_prompt == ""


def test_a_command_with_arguments_of_a_person_is_a_prompt() -> None:
    assert is_typed("<command-name>/x</command-name> and now this")
    assert is_typed("<command-name/> and now this") and is_typed("<command-names/>")
    assert (
        prompt_of([{"type": "text", "text": "<ide_x>"}, {"type": "text", "text": "mine"}, {"type": "image"}]) == "mine"
    )
    assert prompt_of([{"type": "tool_result"}, {"type": "text", "text": "Tool loaded."}]) == ""
    assert prompt_of(None) == "" == prompt_of(5)


def _meta() -> list[dict[str, Any]]:
    write = Writer()
    return [write.prompt("meta", isMeta=True), write.prompt("<command-name>/clear</command-name>")]


def test_a_session_is_useful_if_it_has_messages() -> None:
    write = Writer()
    assert not summarize(lines(_meta())).useful
    assert not summarize(b"").useful
    assert not summarize(lines([{"type": "summary", "summary": "s", "leafUuid": "l"}])).useful
    assert summarize(lines([*_meta(), write.text("hi")])).useful
    assert summarize(lines([*_meta(), write.result("toolu_1", data={"stdout": ""})])).useful
    assert summarize(lines([*_meta(), write.prompt("words")])).useful


def test_rows_of_other_types_with_a_message_are_not_conversation() -> None:
    blob = {"type": "api-request-blob", "message": {"role": "user", "content": "hidden"}, "sessionId": SESSION}
    assert not summarize(lines([blob])).useful


def test_the_last_activity_is_the_last_prompt_of_a_person() -> None:
    write = Writer()
    first = write.prompt("one")
    rows = [first, write.text("a"), write.result("t", data={"x": 1}), write.prompt("sum", isCompactSummary=True)]
    summary = summarize(lines(rows))
    assert (summary.active, summary.prompts, summary.first_prompt) == (summary.created, 1, "one")


def test_a_sidechain_is_recognised_by_its_first_user_row() -> None:
    write = Writer()
    assert summarize(lines([write.prompt("do it", "toolu_a"), write.text("ok", "toolu_a")])).sidechain
    assert not summarize(lines([write.prompt("do it"), write.prompt("sub", "toolu_a")])).sidechain


def test_fields_of_the_wrong_type_are_ignored() -> None:
    odd = {"type": "user", "uuid": "u", "sessionId": 5, "cwd": [], "timestamp": {}, "message": "hi", "summary": 1}
    summary = summarize(lines([odd, {"type": 5}, *conversation()]))
    assert (summary.session, summary.first_prompt) == (SESSION, "hello")
