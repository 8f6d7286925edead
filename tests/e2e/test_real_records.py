"""The seed's statements about the records that the CLI sends: the rules of tests/agents/claude/wire_rules.py.

A start of the CLI costs more than a prompt, so two processes cover everything that one session can show.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from agents.claude import wire_rules as shown
from e2e.cli_wire import Message, RealCli, allow, real_cli
from e2e.harness import on_versions, since
from fairlead.agents.claude.wire import control

Start = Callable[..., AbstractAsyncContextManager[RealCli]]


@pytest.fixture
def start(claude: Path, cli_env: dict[str, str], cli_cwd: Path) -> Start:
    env = {**cli_env, "CLAUDE_CODE_MAX_RETRIES": "1"}
    return lambda *arguments, **more: real_cli(claude, env, cli_cwd, *arguments, **more)


async def turn(cli: RealCli, prompt: str) -> list[Message]:
    """The records that it sends for a prompt, up to the result."""
    before = len(cli.seen)
    result = await cli.turn(prompt)
    return cli.seen[before : cli.seen.index(result) + 1]


def deny(request: Message) -> control.DenyTool:
    return control.DenyTool(message="not now")


@on_versions()
@pytest.mark.rules("S004-032", "S004-036", "S004-061", "S004-062", "S004-068", "S004-069", "S004-071", "S004-072")
@pytest.mark.rules("S004-073", "S004-078", "S004-079", "S004-080", "S004-081", "S004-082", "S004-083", "S004-084")
@pytest.mark.rules("S004-085", "S004-086", "S004-087", "S004-088", "S004-089", "S004-090", "S004-091", "S004-092")
@pytest.mark.rules("S004-093", "S004-094", "S004-095", "S004-096", "S004-098", "S004-103", "S004-104", "S004-105")
@pytest.mark.rules("S004-106", "S004-107", "S004-108", "S004-109", "S004-113", "S004-114", "S004-150", "S004-151")
@pytest.mark.rules("S004-152", "S004-153", "S004-155", "S004-330", "S004-343", "S004-344", "S004-345")
@pytest.mark.rules("S004-016", "S004-099", "S004-100", "S004-101", "S004-102", "S004-267", "S004-268")
async def test_a_conversation_and_its_limits_after_a_resume(
    start: Start, version: str, cli_cwd: Path, tmp_path: Path
) -> None:
    # Some versions between the pinned ones start in another mode.
    async with start("--include-partial-messages", "--permission-mode", "default") as cli:
        await cli.set_up()
        await initialized_again(cli, version)
        await texts_and_calls(cli)
        await asked_for(cli, version, cli_cwd, tmp_path / "outside.txt")
        await refused_by_the_api(cli)
        await states_are_reported(cli, version)
        shown.a_result_is_the_last_word_on_each_prompt(cli.seen)
        if since(version, "2.1.120"):
            await worked_in_the_background(cli)
        assert await cli.close() == 0
    one_request, before = cli.all("result")[0]["total_cost_usd"], cli.all("result")[-1]
    of_every_record(cli.seen, version)
    # Four requests: a text, two until the limit of turns, and one that spends the rest.
    limits = ("--max-turns", "2", "--max-budget-usd", str(3.8 * one_request))
    async with start("--resume", cli.init["session_id"], *limits) as cli:
        shown.after_a_resume_totals_begin_again_or_go_on(before, await cli.turn("SCRIPT:text again"), version)
        ended = [await cli.turn("SCRIPT:loop") for _ in range(2)]
        assert [result["subtype"] for result in ended] == ["error_max_turns", "error_max_budget_usd"]
        assert ended[0]["num_turns"] == 3
    shown.an_error_result_has_no_text_and_all_else(cli.seen, version)
    shown.a_result_has_its_numbers_and_names(cli.seen)
    shown.a_result_is_the_last_word_on_each_prompt(cli.seen)


async def initialized_again(cli: RealCli, version: str) -> None:
    again = await cli.ask("initialize")
    if since(version, "2.1.170"):
        assert again["subtype"] == "success"
    else:
        assert (again["subtype"], again["error"]) == ("error", "Already initialized")


async def texts_and_calls(cli: RealCli) -> None:
    """The first prompts of the process."""
    thinking = await turn(cli, "SCRIPT:think")
    tool = await turn(cli, "SCRIPT:tool")
    text = await turn(cli, "SCRIPT:long 3")
    shown.the_stream_of_a_block_comes_before_its_record_and_its_stop_after(thinking)
    shown.the_stream_has_why_an_answer_stopped(thinking, "end_turn")
    shown.the_stream_has_why_an_answer_stopped(tool, "tool_use", "end_turn")
    shown.the_stream_of_a_text_is_the_events_of_the_model_api(text)
    shown.the_blocks_of_one_answer_come_in_messages_of_one_id(tool)
    shown.the_main_thread_has_no_parent(tool)
    for records in (thinking, tool, text):
        shown.the_result_of_a_success_is_the_final_text(records)
    shown.usage_is_of_the_query_and_cost_and_the_usage_of_models_run_on(thinking[-1], tool[-1])


async def asked_for(cli: RealCli, version: str, cwd: Path, outside: Path) -> None:
    before = len(cli.seen)
    cli.permission = deny
    denied = await turn(cli, f"SCRIPT:bash touch {outside}")
    shown.a_result_lists_what_was_denied(denied)
    (request,) = shown.permissions(denied)
    assert request["blocked_path"] == str(outside)
    cli.permission = allow
    shown.the_main_thread_has_no_parent(await turn(cli, f"SCRIPT:write {cwd / 'a.txt'}"))
    await turn(cli, "SCRIPT:question")
    subagent = await turn(cli, f"SCRIPT:subagent bash touch {cwd / 'b'}")
    shown.what_a_subagent_says_and_asks_names_the_call_that_began_it(subagent)
    asked = cli.seen[before:]
    shown.a_permission_that_is_asked_for_has_its_tool_and_what_else_the_version_says(asked, version)


async def refused_by_the_api(cli: RealCli) -> None:
    for status in (400, 429, 529):
        shown.an_api_error_is_a_success_with_is_error_and_its_text(await turn(cli, f"SCRIPT:error {status}"))


async def states_are_reported(cli: RealCli, version: str) -> None:
    before = len(cli.seen)
    modes = ("acceptEdits", "plan", "default")
    for mode in modes:
        await cli.got("set_permission_mode", mode=mode)
    shown.the_result_of_a_success_is_the_final_text(await turn(cli, "SCRIPT:text after"))
    shown.a_state_carries_the_mode_when_it_changed_except_in_the_oldest(cli.seen[before:], version, *modes)
    shown.compaction_is_two_states_and_a_boundary(await turn(cli, "/compact"))


async def worked_in_the_background(cli: RealCli) -> None:
    """Its end may come before or after the result of the prompt, and may start a turn of the CLI's own."""
    await cli.prompt("SCRIPT:background tool")
    ended = await cli.until(lambda message: message.get("subtype") == "task_notification")
    shown.the_end_of_a_task_has_its_file_and_summary([ended])
    await cli.prompt("SCRIPT:text afterwards")
    await cli.until(lambda message: message["type"] == "result" and "afterwards" in message["result"])


def of_every_record(records: list[Message], version: str) -> None:
    shown.init_says_where_and_what_it_is(records, version)
    shown.an_assistant_record_is_a_message_with_one_block_and_no_true_totals(records)
    shown.answers_have_text_thinking_and_calls(records)
    shown.content_blocks_have_the_shapes_of_the_seed(records)
    shown.a_result_has_its_numbers_and_names(records)
