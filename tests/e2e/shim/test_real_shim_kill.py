"""kill -9 of the gateway while a program works through the shim: the program notices nothing, the log is complete."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from e2e.harness import NEWEST, OLDEST, on_versions
from e2e.shim.caller import ASKING, SHIM, STREAM_JSON, Caller, Line, calling, trust
from faults.gateway_process import TOKEN, GatewayProcess
from patience import PATIENCE

PARTIAL = "--include-partial-messages"


@pytest.fixture
async def gateway(claude: Path, cli_env: dict[str, str], tmp_path: Path) -> AsyncIterator[GatewayProcess]:
    process = GatewayProcess(tmp_path, agent="claude", claude=claude, pass_env="IS_SANDBOX")
    process.env = cli_env
    async with process:
        async with process.http() as http:
            await trust(http, process.cwd)
        yield process


def shim_env(gateway: GatewayProcess, cli_env: dict[str, str]) -> dict[str, str]:
    """The shim finds the gateway by its data folder: after a restart it has another port."""
    return {
        **cli_env,
        "FAIRLEAD_DATA": str(gateway.data),
        "FAIRLEAD_TOKEN": TOKEN,
        "FAIRLEAD_CLAUDE": str(gateway.settings["claude"]),
        "FAIRLEAD_SHIM": "require",
        "FAIRLEAD_SHIM_WAIT_MS": "60000",
    }


async def converse(caller: Caller, turns: int) -> None:
    """A program that works through several turns: text, tools that it allows, and a longer text."""
    for turn in range(turns):
        script = ("long 60", "bash echo one", "think", "twice")[turn % 4]
        await caller.prompt(f"SCRIPT:{script}")
        while (line := await caller.until(lambda line: line["type"] in ("result", "control_request")))[
            "type"
        ] != "result":
            await caller.allow(line)
        assert line["subtype"] == "success", line


async def kill_at_random(gateway: GatewayProcess, rng: random.Random, times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(rng.random() * 0.6)
        await gateway.kill()
        await asyncio.sleep(rng.random() * 0.3)
        await gateway.start()


async def stored_records(gateway: GatewayProcess, session: str, caller: Caller) -> list[Line]:
    """The log, once it has everything that the caller got."""
    results = sum(line["type"] == "result" for line in caller.lines)
    async with asyncio.timeout(PATIENCE):
        while True:
            lines = await gateway.stored(session)
            kinds = [line["type"] for line in lines]
            if kinds.count("turn.ended") >= results and "agent.exited" in kinds:
                return lines
            await asyncio.sleep(0.1)


def check(caller: Caller, log: list[Line], prompts: int) -> None:
    messages = [line for line in caller.lines if line["type"] == "assistant"]
    said = [block["text"] for line in messages for block in line["message"]["content"] if block["type"] == "text"]
    calls = [block["id"] for line in messages for block in line["message"]["content"] if block["type"] == "tool_use"]
    assert [line["text"] for line in log if line["type"] == "text"] == said
    assert [line["call"] for line in log if line["type"] == "tool.called"] == calls
    assert [line["call"] for line in log if line["type"] == "tool.ended"] == calls
    assert [line["status"] for line in log if line["type"] == "turn.ended"] == ["completed"] * prompts
    assert len([line for line in log if line["type"] == "user.message"]) == prompts
    assert [line["type"] for line in log].count("agent.started") == 1


async def kill_often(
    gateway: GatewayProcess, env: dict[str, str], rng: random.Random, *, times: int, turns: int, session: str
) -> None:
    argv = [*SHIM, "claude", *STREAM_JSON, *ASKING, PARTIAL, "--session-id", session]
    async with calling(argv, env, gateway.cwd) as caller:
        await caller.request("r1", "initialize")
        await caller.until("control_response")
        killing = asyncio.create_task(kill_at_random(gateway, rng, times))
        prompts = 0
        while prompts < turns or not killing.done():
            await converse(caller, 1 + prompts % 4)
            prompts += 1 + prompts % 4
        await killing
        assert await caller.ended() == 0
        assert caller.stderr == b""
    check(caller, await stored_records(gateway, session, caller), prompts)


@on_versions(OLDEST, NEWEST)
@pytest.mark.fault
async def test_the_caller_notices_nothing_when_the_gateway_is_killed(
    gateway: GatewayProcess, cli_env: dict[str, str], rng: random.Random
) -> None:
    env = shim_env(gateway, cli_env)
    await kill_often(gateway, env, rng, times=5, turns=6, session="5b9d0c1e-3c55-4a0f-9f43-0d9c1f5c8a21")


@on_versions(OLDEST, NEWEST)
@pytest.mark.long
@pytest.mark.timeout(0)
async def test_the_caller_notices_nothing_when_the_gateway_is_killed_two_hundred_times(
    gateway: GatewayProcess, cli_env: dict[str, str], rng: random.Random
) -> None:
    env = shim_env(gateway, cli_env)
    for number in range(10):
        session = f"5b9d0c1e-3c55-4a0f-9f43-0d9c1f5c8a3{number}"
        await kill_often(gateway, env, rng, times=20, turns=8, session=session)
