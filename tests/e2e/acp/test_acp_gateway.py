"""Real ACP agents as sessions of the gateway: text, thinking, permissions, edits, cancel, restart."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from e2e.acp.acp_harness import Agent, an_hour_later, each_agent
from e2e.all_clients import all_clients, answered_on_one, each_sends_a_prompt
from e2e.gateway_harness import GatewayHarness, open_gateway, settings
from fairlead.config import Config
from fairlead_testing.acp_models import AcpModel
from fairlead_testing.acp_scripts import GREETING

AFTER_DENIAL = {"gemini": "completed", "opencode": "completed", "codex": "cancelled"}
"""How a turn ends in which a permission was denied: Codex stops it."""


STOPS = ("permission.asked", "turn.ended")


def configured(agent: Agent, tmp_path: Path, cwd: Path, **more: Any) -> Config:
    agents = {agent.name: {"command": agent.command, "env": list(agent.env)}}
    return settings(tmp_path / "data", cwd, agents=agents, agent=agent.name, **more)


@pytest.fixture
async def harness(agent: Agent, tmp_path: Path, cli_cwd: Path) -> AsyncIterator[GatewayHarness]:
    async with open_gateway(configured(agent, tmp_path, cli_cwd), agent.env, cli_cwd) as opened:
        yield opened


@each_agent
async def test_text_thinking_permissions_and_edits(
    harness: GatewayHarness, acp_model: AcpModel, agent_name: str, cli_cwd: Path
) -> None:
    await harness.open("SCRIPT:text good morning")
    ended = await harness.until("turn.ended")
    assert (ended["status"], ended["text"]) == ("completed", f"{GREETING} good morning")
    assert harness.all("agent.started")[0]["agent"] == agent_name
    assert harness.all("text.delta"), "it is streamed"

    await harness.turn("SCRIPT:think")
    assert "think about this carefully" in harness.all("thinking")[-1]["text"]

    await harness.send("SCRIPT:shell touch allowed")
    asked = await harness.until("permission.asked")
    assert (asked["tool"], asked["input"]["command"]) == ("Bash", "touch allowed")
    await harness.answer(asked)
    assert (await harness.until("tool.ended"))["call"] == asked["call"]
    assert (await harness.until("turn.ended"))["status"] == "completed"
    assert (cli_cwd / "allowed").exists()

    file = cli_cwd / "notes.txt"
    await harness.send(f"SCRIPT:write {file}")
    asked = await harness.until("permission.asked")
    assert (asked["tool"], asked["input"]["file_path"]) == ("Write", str(file))
    await harness.answer(asked)
    await harness.until("turn.ended")
    assert file.read_text() == "hello\nworld\n"

    await harness.send("SCRIPT:shell touch denied")
    await harness.answer(await harness.until("permission.asked"), "deny", message="Not this one.")
    assert (await harness.until("tool.ended"))["is_error"]
    assert (await harness.until("turn.ended"))["status"] == AFTER_DENIAL[agent_name]
    assert not (cli_cwd / "denied").exists()
    assert (await harness.turn("SCRIPT:text after that"))["text"].endswith("after that")
    await harness.raw()


@each_agent
async def test_a_plan_is_the_list_of_tasks_that_clients_show(
    harness: GatewayHarness, acp_model: AcpModel, agent_name: str
) -> None:
    await harness.open("SCRIPT:plan")
    while (event := await harness.until(lambda line: line["type"] in STOPS))["type"] != "turn.ended":
        await harness.answer(event)
    (shown,) = harness.all("tool.called")
    if agent_name == "gemini":
        # It does not say which tasks.
        assert shown["input"] == {"title": "Set 2 todo(s)"}
        return
    assert (shown["name"], [(task["content"], task["status"]) for task in shown["input"]["todos"]]) == (
        "TodoWrite",
        [("Look around", "completed"), ("Write it down", "in_progress")],
    )


@each_agent
async def test_rules_and_modes_hold(
    harness: GatewayHarness, acp_model: AcpModel, agent_name: str, cli_cwd: Path
) -> None:
    """An "always" is the gateway's own rule, a deny rule denies without a person, a mode allows edits."""
    await harness.open("SCRIPT:shell touch first")
    asked = await harness.until("permission.asked")
    assert asked["suggestions"] == ["Bash(touch first)"]
    await harness.answer(asked, remember=asked["suggestions"])
    await harness.until("turn.ended")
    harness.scene()
    (cli_cwd / "first").unlink()
    await harness.turn("SCRIPT:shell touch first")
    (resolved,) = harness.all("permission.resolved")
    assert (resolved["behavior"], resolved["how"]) == ("allow", "rule")
    assert (cli_cwd / "first").exists()

    harness.scene()
    await harness.do("set_rules", deny=["Bash(touch second)"])
    await harness.turn("SCRIPT:shell touch second")
    (resolved,) = harness.all("permission.resolved")
    assert (resolved["behavior"], resolved["how"]) == ("deny", "rule")
    assert not (cli_cwd / "second").exists()

    harness.scene()
    await harness.do("set_mode", mode="acceptEdits")
    await harness.turn(f"SCRIPT:write {cli_cwd / 'notes.txt'}")
    (resolved,) = harness.all("permission.resolved")
    assert (resolved["behavior"], resolved["how"]) == ("allow", "mode")
    assert (cli_cwd / "notes.txt").exists()


@each_agent
async def test_an_interrupt_and_a_failing_model_leave_the_session_usable(
    harness: GatewayHarness, acp_model: AcpModel, agent_name: str
) -> None:
    await harness.open("SCRIPT:slow 400")
    await harness.until("text.delta")
    await harness.do("interrupt")
    assert (await harness.until("turn.ended"))["status"] == "cancelled"
    await harness.send("SCRIPT:shell touch never")
    await harness.until("permission.asked")
    await harness.do("interrupt")
    await harness.until("permission.cancelled")
    assert (await harness.until("turn.ended"))["status"] == "cancelled"
    ended = await harness.turn("SCRIPT:fail 400")
    # Codex reports the error as text.
    assert ended["status"] == "failed" or agent_name == "codex"
    assert (await harness.turn("SCRIPT:text after that"))["text"].endswith("after that")


@each_agent
async def test_an_agent_that_is_killed_goes_on_with_its_conversation(
    harness: GatewayHarness, acp_model: AcpModel, agent: Agent, cli_home: Path
) -> None:
    await harness.open("SCRIPT:text first")
    await harness.until("turn.ended")
    await harness.send("SCRIPT:slow 400")
    await harness.until("text.delta")
    os.kill(harness.all("agent.started")[-1]["pid"], signal.SIGKILL)
    ended = await harness.until("turn.ended")
    assert ended["status"] == "failed"
    await harness.until("agent.exited")
    an_hour_later(cli_home)
    assert (await harness.turn("SCRIPT:text again"))["text"].endswith("again")
    assert harness.all("session.resumed")
    prompts = str(acp_model.of("text")[-1].body)
    assert "SCRIPT:text first" in prompts, "the model sees the earlier conversation"
    assert [line["text"] for line in harness.all("text") if "first" in line["text"]] == [f"{GREETING} first"]
    await harness.raw()


@each_agent
async def test_a_gateway_that_is_restarted_goes_on_with_the_conversation(
    agent: Agent, acp_model: AcpModel, tmp_path: Path, cli_cwd: Path, cli_home: Path
) -> None:
    config = configured(agent, tmp_path, cli_cwd)
    async with open_gateway(config, agent.env, cli_cwd) as harness:
        session = await harness.open("SCRIPT:text first")
        await harness.until("turn.ended")
    an_hour_later(cli_home)
    async with open_gateway(config, agent.env, cli_cwd) as harness:
        await harness.watch(session)
        await harness.until("turn.ended")
        assert (await harness.turn("SCRIPT:text second"))["text"].endswith("second")
        texts = [line["text"] for line in await harness.log() if line["type"] == "text"]
        assert texts == [f"{GREETING} first", f"{GREETING} second"]
    assert "SCRIPT:text first" in str(acp_model.of("text")[-1].body)


@each_agent
async def test_every_protocol_shows_the_session_and_answers_its_requests(
    harness: GatewayHarness, acp_model: AcpModel, agent_name: str
) -> None:
    await harness.open()
    requests: list[str] = []
    async with all_clients(harness) as clients:
        for answering in ("native", "mylifedb", "direct", "cognova", "claudecodeui", "acp"):
            harness.scene()
            await answered_on_one(harness, clients, answering, requests, "shell")


@each_agent
async def test_a_prompt_from_every_protocol_is_answered_on_all(
    harness: GatewayHarness, acp_model: AcpModel, agent_name: str
) -> None:
    await harness.open()
    async with all_clients(harness) as clients:
        await each_sends_a_prompt(harness, clients)


@each_agent
async def test_the_gateways_files_are_out_of_reach_even_if_a_person_allows_everything(
    harness: GatewayHarness, acp_model: AcpModel, agent_name: str, tmp_path: Path
) -> None:
    """The fence denies what the agent asks; the sandbox hides the file from what it does without asking."""
    canary = tmp_path / "data" / "canary.txt"
    canary.write_text("a secret of the gateway")
    await harness.open()
    for script in (f"shell cat {canary}", f"read {canary}", f"write {canary}", f"shell rm -f {canary}"):
        await harness.send(f"SCRIPT:{script}")
        while (event := await harness.until(lambda line: line["type"] in STOPS))["type"] != "turn.ended":
            # The fence may have been faster.
            await harness.ask("answer", session=harness.session, request=event["request"], behavior="allow")
    assert canary.read_text() == "a secret of the gateway"
    assert "a secret of the gateway" not in str([request.body for request in acp_model.requests])
    assert "a secret of the gateway" not in str(await harness.log())
    assert {line["how"] for line in harness.all("permission.resolved") if line["behavior"] == "deny"} <= {"fence"}
