"""The seed's statements about single messages between us and the CLI, over stdio: its inputs and its answers."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from e2e.cli_wire import Message, RealCli, real_cli
from e2e.harness import OLDEST, on_versions, since
from fairlead.agents.claude.wire import control
from fairlead.agents.claude.wire.control import cancel_line, environment_line, keep_alive_line, user_line
from fairlead_testing.model_api import ScriptedModel

Start = Callable[..., AbstractAsyncContextManager[RealCli]]

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A picture of one point."""


@pytest.fixture
def start(claude: Path, cli_env: dict[str, str], cli_cwd: Path) -> Start:
    return lambda *arguments, **more: real_cli(claude, cli_env, cli_cwd, *arguments, **more)


def asks_permission(message: Message) -> bool:
    return bool(message.get("request", {}).get("subtype") == "can_use_tool")


def blocks_sent(model: ScriptedModel, script: str) -> list[dict[str, Any]]:
    contents = [message["content"] for message in model.of(script)[-1].since_last_answer]
    return [block for content in contents if isinstance(content, list) for block in content]


@on_versions()
@pytest.mark.rules("S004-054", "S004-059", "S004-060", "S004-130", "S004-131", "S004-165", "S004-129", "S004-133")
@pytest.mark.rules("S004-124", "S004-125", "S004-158", "S004-190", "S004-321")
async def test_what_it_takes_on_one_process_and_what_it_answers(
    start: Start, version: str, cli_cwd: Path, model: ScriptedModel
) -> None:
    async with start() as cli:
        await cli.set_up()
        await a_prompt_is_a_string_or_blocks_and_a_keep_alive_between_them_does_no_harm(cli, model)
        cli.scene()
        await an_interrupt_withdraws_the_permission_that_waits_and_is_answered_by_an_empty_success(cli, version)
        cli.scene()
        await a_request_that_it_does_not_know_is_an_error_or_never_answered(cli, version)
        cli.scene()
        await variables_reach_a_tool_of_the_versions_that_take_them(cli, version, model)
        cli.scene()
        await an_allow_without_an_input_is_refused_by_older_versions(cli, version, cli_cwd)
        cli.scene()
        await without_its_variable_nothing_is_rewound(cli, cli_cwd)


async def a_prompt_is_a_string_or_blocks_and_a_keep_alive_between_them_does_no_harm(
    cli: RealCli, model: ScriptedModel
) -> None:
    await cli.turn("SCRIPT:text as a string")
    # In one write with the prompt after it.
    await cli.write(keep_alive_line() + user_line("SCRIPT:text behind a keep-alive"))
    await cli.until("result")
    source = {"type": "base64", "media_type": "image/png", "data": DOT}
    await cli.turn([{"type": "image", "source": source}, {"type": "text", "text": "SCRIPT:text as blocks"}])
    assert [request.argument for request in model.of("text")] == [
        "as a string",
        "behind a keep-alive",
        "as blocks",
    ]
    assert [block["type"] for block in blocks_sent(model, "text")].count("image") == 1
    await cli.turn("SCRIPT:tool")
    (content,) = [m["message"]["content"] for m in cli.all("user") if isinstance(m["message"]["content"], list)]
    assert [block["type"] for block in content] == ["tool_result"]


async def an_interrupt_withdraws_the_permission_that_waits_and_is_answered_by_an_empty_success(
    cli: RealCli, version: str
) -> None:
    cli.permission = None
    await cli.prompt("SCRIPT:bash touch never")
    asked = await cli.until(asks_permission)
    if not since(version, "2.1.170"):
        again = await cli.ask("initialize")
        assert (again["subtype"], again["pending_permission_requests"]) == ("error", [asked])
    answer = await cli.got("interrupt")
    assert answer in ({}, {"still_queued": []})
    assert (await cli.until("result"))["subtype"] == "error_during_execution"
    (withdrawn,) = cli.all("control_cancel_request")
    assert withdrawn == {"type": "control_cancel_request", "request_id": asked["request_id"]}
    interrupted = [number for number, m in enumerate(cli.seen) if "[Request interrupted" in str(m.get("message"))]
    assert interrupted and interrupted[-1] < cli.seen.index(cli.all("result")[0])
    await cli.got("interrupt")
    assert (await cli.turn("SCRIPT:text after"))["subtype"] == "success"
    assert len(cli.all("result")) == 2, "an interrupt of nothing has no result"


async def a_request_that_it_does_not_know_is_an_error_or_never_answered(cli: RealCli, version: str) -> None:
    if since(version, "2.1.77"):
        answer = await cli.ask("made_up")
        assert set(answer) >= {"subtype", "request_id", "error"}
        assert (answer["subtype"], answer["error"]) == ("error", "Unsupported control request subtype: made_up")
    else:
        await cli.write(control.request_line("r-unknown", "made_up", {}))
        await cli.turn("SCRIPT:text")
        await cli.got("interrupt")
        assert "r-unknown" not in [m["response"]["request_id"] for m in cli.all("control_response")]


async def variables_reach_a_tool_of_the_versions_that_take_them(
    cli: RealCli, version: str, model: ScriptedModel
) -> None:
    await cli.write(environment_line({"TEAM": "blue"}))
    await cli.turn("SCRIPT:bash echo team=$TEAM.")
    expected = "team=." if since(version, "2.1.200") else "team=blue."
    assert expected in str([block for block in blocks_sent(model, "bash") if block["type"] == "tool_result"])


async def an_allow_without_an_input_is_refused_by_older_versions(cli: RealCli, version: str, cwd: Path) -> None:
    cli.permission = None
    await cli.prompt(f"SCRIPT:bash touch {cwd / 'a'}")
    asked = await cli.until(asks_permission)
    inner = {"subtype": "success", "request_id": asked["request_id"], "response": {"behavior": "allow"}}
    await cli.write(json.dumps({"type": "control_response", "response": inner}).encode() + b"\n")
    await cli.until("result")
    taken = since(version, "2.1.200")
    assert (cwd / "a").exists() is taken
    assert ("ZodError" in str(cli.all("user"))) is not taken


async def without_its_variable_nothing_is_rewound(cli: RealCli, cwd: Path) -> None:
    target = cwd / "a.txt"
    name = await cli.prompt(f"SCRIPT:write {target}")
    assert (await cli.until("result"))["subtype"] == "success"
    answer = await cli.ask("rewind_files", user_message_id=name)
    assert (answer["subtype"], answer["error"]) == ("error", "File rewinding is not enabled.")
    assert target.exists()


@on_versions(OLDEST, last=OLDEST, daily=False)
@pytest.mark.rules("S004-045", "S004-050")
@pytest.mark.parametrize("line", [b"\n", b'{"type":"made_up"}\n', cancel_line("r1")])
async def test_a_blank_line_and_a_type_that_is_not_in_the_list_end_the_oldest(start: Start, line: bytes) -> None:
    async with start() as cli:
        await cli.set_up()
        await cli.write(line)
        assert await cli.ended() == 1
