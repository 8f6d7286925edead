"""The real CLI behind the whole gateway, over stdio: turns, streams, the queue, interrupts, settings, errors."""

import asyncio
import fcntl
import os
import signal
import termios
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from e2e.dialin_harness import written_down
from e2e.gateway_harness import GatewayHarness, open_gateway, settings
from e2e.harness import NEWEST, OLDEST, on_versions, since
from fairlead.system.proctable import program_inside
from fairlead_testing.model_api import ScriptedModel
from patience import PATIENCE


@pytest.fixture
async def harness(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path
) -> AsyncIterator[GatewayHarness]:
    config = settings(
        tmp_path / "data",
        tmp_path,
        agent="claude",
        claude=str(claude),
        pass_env=["IS_SANDBOX", "CLAUDE_CODE_MAX_RETRIES"],
    )
    async with open_gateway(config, {**cli_env, "CLAUDE_CODE_MAX_RETRIES": "1"}, cli_cwd) as opened:
        yield opened


@on_versions()
@pytest.mark.rules("S004-235", "S004-330", "S004-320")
async def test_turns_of_one_session(harness: GatewayHarness, version: str, model: ScriptedModel) -> None:
    await a_plain_turn_with_deltas(harness, version)
    if not since(version, NEWEST):
        return
    for scene in (
        three_more_turns_go_on_in_the_same_process,
        a_queue_of_three_prompts_is_three_turns,
        an_interrupt_in_mid_stream,
        an_interrupt_in_mid_tool,
        an_interrupt_with_a_permission_pending_cancels_it,
        an_api_error_is_a_failed_turn,
        steering_reaches_the_model,
        thinking_is_streamed_and_whole,
        mode_and_model_change_while_it_runs,
        compaction_is_reported,
        a_turn_after_a_resume_costs_its_own_part,
    ):
        harness.scene()
        await scene(harness, model)


async def a_plain_turn_with_deltas(harness: GatewayHarness, version: str) -> None:
    await harness.open("SCRIPT:long 40")
    end = await harness.until("turn.ended")
    assert end["status"] == "completed"
    deltas = "".join(line["text"] for line in harness.all("text.delta"))
    (text,) = harness.all("text")
    assert deltas == text["text"]
    assert harness.kinds().index("text.delta") < harness.kinds().index("text")
    assert end["cost_usd"] > 0
    assert (end.get("reason", ""), end["model_turns"]) == ("", 1)
    (ready,) = harness.all("agent.ready")
    assert (ready["version"], ready["agent_session"]) == (version, harness.session)
    assert len(harness.all("agent.started")) == 1
    stored = await harness.raw()
    assert "text.delta" not in [line["type"] for line in stored]


async def three_more_turns_go_on_in_the_same_process(harness: GatewayHarness, model: ScriptedModel) -> None:
    await harness.turn("SCRIPT:text one")
    await harness.turn("SCRIPT:text two")
    await harness.turn("SCRIPT:echo")
    assert harness.all("agent.started") == []
    assert int(harness.texts()[-1].split()[2]) >= 7, "the model was shown the three turns before"
    costs = [line["cost_usd"] for line in harness.all("turn.ended")]
    assert max(costs) < 2 * min(costs), "each turn costs its own part, not the sum"


async def a_turn_after_a_resume_costs_its_own_part(harness: GatewayHarness, model: ScriptedModel) -> None:
    """From 2.1.280 on the totals of a session continue in the process that resumes it."""
    before = await harness.turn("SCRIPT:text before")
    await harness.do("close")
    await harness.until("session.closed")
    after = await harness.turn("SCRIPT:text after")
    assert after["cost_usd"] < 2 * before["cost_usd"]


async def a_queue_of_three_prompts_is_three_turns(harness: GatewayHarness, model: ScriptedModel) -> None:
    await harness.send("SCRIPT:slow 4")
    await harness.send("SCRIPT:text two")
    await harness.send("SCRIPT:text three")
    for _ in range(3):
        assert (await harness.until("turn.ended"))["status"] == "completed"
    assert [text.split()[-1] for text in harness.texts()] == ["tick", "two", "three"]
    prompts = [line["message"] for line in harness.all("user.message")]
    assert len(set(prompts)) == 3


async def an_interrupt_in_mid_stream(harness: GatewayHarness, model: ScriptedModel) -> None:
    await harness.send("SCRIPT:slow 200")
    await harness.until("text.delta")
    await harness.do("interrupt")
    end = await harness.until("turn.ended")
    assert (end["status"], end.get("errors", [])) == ("cancelled", [])
    assert (await harness.turn("SCRIPT:text after"))["status"] == "completed"
    await harness.raw()


async def an_interrupt_in_mid_tool(harness: GatewayHarness, model: ScriptedModel) -> None:
    started = harness.cwd / "started"
    code = f'import pathlib, time; pathlib.Path("{started}").touch(); time.sleep(600)'
    await harness.send(f"SCRIPT:bash python3 -c '{code}'")
    await harness.answer(await harness.until("permission.asked"))
    async with asyncio.timeout(PATIENCE):
        while not started.exists():
            await asyncio.sleep(0.02)
    await harness.do("interrupt")
    end = await harness.until("turn.ended")
    assert end["status"] == "cancelled"
    (ended,) = harness.all("tool.ended")
    assert ended["call"] == harness.all("tool.called")[0]["call"]
    assert (await harness.turn("SCRIPT:text after"))["status"] == "completed"


async def an_interrupt_with_a_permission_pending_cancels_it(harness: GatewayHarness, model: ScriptedModel) -> None:
    await harness.send("SCRIPT:bash touch x")
    asked = await harness.until("permission.asked")
    await harness.do("interrupt")
    cancelled = await harness.until("permission.cancelled")
    assert cancelled["request"] == asked["request"]
    assert (await harness.until("turn.ended"))["status"] == "cancelled"


async def an_api_error_is_a_failed_turn(harness: GatewayHarness, model: ScriptedModel) -> None:
    for status in (400, 429, 529):
        await harness.send(f"SCRIPT:error {status}")
        end = await harness.until("turn.ended")
        assert end["status"] == "failed"
        assert (await harness.turn("SCRIPT:text after"))["status"] == "completed"


async def steering_reaches_the_model(harness: GatewayHarness, model: ScriptedModel) -> None:
    await harness.send("SCRIPT:slowtool 2")
    await harness.answer(await harness.until("permission.asked"))
    await harness.do("steer", content=[{"type": "text", "text": "and mind the gap"}])
    await harness.until("turn.ended")
    assert harness.all("user.message")[-1]["via"] == "steer"
    await model.wait_for(lambda request: "mind the gap" in str(request.since_last_answer), PATIENCE)


async def thinking_is_streamed_and_whole(harness: GatewayHarness, model: ScriptedModel) -> None:
    await harness.send("SCRIPT:think")
    await harness.until("turn.ended")
    assert "".join(line.get("text", "") for line in harness.all("thinking.delta")) == harness.all("thinking")[0]["text"]


async def mode_and_model_change_while_it_runs(harness: GatewayHarness, model: ScriptedModel) -> None:
    await harness.send("SCRIPT:text one")
    await harness.until("turn.ended")
    await harness.do("set_model", model="claude-haiku-4-5")
    await harness.do("set_mode", mode="acceptEdits")
    await harness.do("set_thinking", budget=2000)
    await harness.turn("SCRIPT:text two")
    assert model.of("text")[-1].model == "claude-haiku-4-5"
    assert [(line["mode"], line["by"] != "") for line in harness.all("mode.changed")] == [("acceptEdits", True)]
    target = harness.cwd / "new.txt"
    await harness.turn(f"SCRIPT:write {target}")
    assert target.exists()
    assert harness.all("permission.asked") == []


async def compaction_is_reported(harness: GatewayHarness, model: ScriptedModel) -> None:
    await harness.send("SCRIPT:text one")
    await harness.until("turn.ended")
    await harness.turn("SCRIPT:text two")
    await harness.send("/compact")
    await harness.until(lambda line: line["type"] == "compaction" and line["phase"] == "boundary")
    assert "started" in [line["phase"] for line in harness.all("compaction")]


@on_versions()
async def test_the_limit_of_turns_is_a_failed_turn(harness: GatewayHarness) -> None:
    await harness.open(settings={"max_turns": 2, "mode": "default"})
    await harness.send("SCRIPT:loop")
    for _ in range(2):
        await harness.answer(await harness.until("permission.asked"))
    end = await harness.until("turn.ended")
    assert end["status"] == "failed"
    assert "max_turns" in end["reason"] or "turns" in " ".join(end.get("errors", []))


def waits_in_its_input(pid: int) -> bool:
    """Whether a stopped process was sent input that it has not read."""
    pipe = os.open(f"/proc/{pid}/fd/0", os.O_RDONLY | os.O_NONBLOCK)
    try:
        return fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)) != bytes(4)
    finally:
        os.close(pipe)


@on_versions(NEWEST)
@pytest.mark.rules("S004-299")
async def test_a_killed_cli_is_resumed_and_its_session_forked(
    harness: GatewayHarness, model: ScriptedModel, cli_home: Path
) -> None:
    """The transcript that it had written is sent to the model again. Versions up to 2.1.140 write a prompt late: if
    they are killed during it, it may be lost to the model, and is in our log as a failed turn.
    """
    await harness.open("SCRIPT:text remember me")
    await harness.until("turn.ended")
    async with asyncio.timeout(PATIENCE):
        while not written_down(cli_home, "Hello"):
            await asyncio.sleep(0.02)
    await harness.send("SCRIPT:slow 200")
    await harness.until("text.delta")
    pid = harness.all("agent.started")[0]["pid"]
    program = inside.pid if (inside := program_inside(pid)) else pid
    os.kill(program, signal.SIGSTOP)
    waiting = asyncio.create_task(harness.ask("set_model", session=harness.session, model="claude-haiku-4-5"))
    async with asyncio.timeout(PATIENCE):
        while not waits_in_its_input(program):
            await asyncio.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    refused = await waiting
    assert (refused["type"], refused["code"]) == ("error", "agent_gone"), "what it was asked and did not answer"
    end = await harness.until("turn.ended")
    assert end["status"] == "failed"
    exited = await harness.until("agent.exited")
    assert (exited["signal"], exited["expected"]) == (9, False)
    assert (await harness.turn("SCRIPT:echo"))["status"] == "completed"
    assert harness.all("session.resumed")[0]["agent_session"] == harness.session
    shown = str(model.of("echo")[-1].conversation)
    assert "SCRIPT:text remember me" in shown and "Hello from the scripted model." in shown
    await harness.raw()
    await forks_go_their_own_way(harness, model)


async def forks_go_their_own_way(harness: GatewayHarness, model: ScriptedModel) -> None:
    """One fork of the whole session, and one at its first message."""
    parent = harness.session
    first = harness.all("user.message")[0]["message"]
    before = [line for line in await harness.log() if line["type"] != "record"]
    whole = await harness.http.post(f"/v1/sessions/{parent}/fork", json={})
    early = await harness.http.post(f"/v1/sessions/{parent}/fork", json={"at": first})
    for made in (whole, early):
        assert made.status_code == 201, made.text
        await harness.leave()
        await harness.watch(made.json()["session"])
        await harness.send("SCRIPT:text forked")
        await harness.until(lambda line: line["type"] == "text" and line["text"].endswith("forked"))
        assert harness.all("agent.ready")[-1]["agent_session"] != parent
    shown = [str(request.conversation) for request in model.of("text")[-2:]]
    assert ["SCRIPT:text remember me" in words for words in shown] == [True, True]
    assert ["SCRIPT:echo" in words for words in shown] == [True, False], "the early fork does not know it"
    harness.session = parent
    after = [line for line in await harness.log() if line["type"] != "record"]
    assert after == before, "the parent is as it was"


@on_versions(OLDEST)
@pytest.mark.rules("S004-008")
async def test_a_cli_that_refuses_its_flags_is_told_in_its_own_words(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path
) -> None:
    """As if the flags of a launch had been changed: the program exits at once."""
    other = tmp_path / "claude"
    other.write_text(f'#!/bin/bash\nexec {claude} "${{@/--output-format=stream-json/--output-format=text}}"\n')
    other.chmod(0o755)
    config = settings(tmp_path / "data", tmp_path, agent="claude", claude=str(other), pass_env=["IS_SANDBOX"])
    async with open_gateway(config, cli_env, cli_cwd) as harness:
        await harness.open("SCRIPT:text")
        exited = await harness.until("agent.exited")
        assert "stream-json" in exited["stderr"]
        failure = await harness.until("error")
        assert (failure["code"], "stream-json" in failure["message"]) == ("agent_gone", True)
        assert (await harness.until("turn.ended"))["status"] == "failed"
