"""Runs of the real CLI behind claudecodeui's chat: how they end, and what the next run continues with."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clients.claudecodeui.chat_harness import Peer, peer_at
from clients.claudecodeui.chat_scenario import COMPLETE, allow, create, history
from e2e.gateway_harness import GatewayHarness, open_gateway, settings
from e2e.harness import on_versions
from e2e.test_real_transcripts import by_hand, written
from fairlead_testing.model_api import ScriptedModel
from patience import PATIENCE


@pytest.fixture
async def harness(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path
) -> AsyncIterator[GatewayHarness]:
    config = settings(tmp_path / "data", cli_cwd, agent="claude", claude=str(claude), pass_env=["IS_SANDBOX"])
    async with open_gateway(config, cli_env, cli_cwd) as opened:
        yield opened


async def run(peer: Peer, session: str, prompt: str) -> dict[str, Any]:
    await peer.send(session, prompt)
    return await peer.until("complete")


async def knew(model: ScriptedModel, argument: str) -> str:
    """Everything that was sent to the model with the prompt `SCRIPT:text <argument>`."""
    wanted = ("messages", argument)
    asked = await model.wait_for(lambda request: (request.kind, request.argument) == wanted, PATIENCE)
    return str(asked.conversation)


def rows_of(env: dict[str, str], session: str) -> list[tuple[str, str, str]]:
    """The texts in the CLI's own file: id, author and text."""
    (rows,) = written(env, session)
    found = []
    for row in rows:
        if row["type"] not in ("user", "assistant") or not row.get("uuid"):
            continue
        content = row["message"]["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found += [(row["uuid"], row["type"], block["text"]) for block in blocks if block["type"] == "text"]
    return found


@on_versions()
@pytest.mark.rules("S003-007", "S003-030", "S003-130")
async def test_a_session_of_another_program_is_in_history_as_in_its_file_and_goes_on(
    harness: GatewayHarness, claude: Path, cli_env: dict[str, str], model: ScriptedModel
) -> None:
    async with peer_at(harness.gateway.url, harness.gateway.token) as peer:
        await peer.settled()
        await by_hand(claude, cli_env, harness.cwd, "SCRIPT:text one")
        name = (await peer.until("session_upserted"))["sessionId"]
        async with asyncio.timeout(PATIENCE):
            # A turn counts as over once its file has been quiet for a while.
            while (await peer.subscribe(name))["isProcessing"] or not (await history(harness.http, name))["messages"]:
                await asyncio.sleep(0.05)
        kept = (await history(harness.http, name))["messages"]
        texts = rows_of(cli_env, name)
        assert [(row["role"], row["content"]) for row in kept] == [(role, text) for _, role, text in texts]
        assert [row["id"].rpartition("_")[0] for row in kept] == [row for row, _, _ in texts]
        end = await run(peer, name, "SCRIPT:text two")
        assert (end["success"], end["sessionId"], end["actualSessionId"]) == (True, name, name)
    assert "SCRIPT:text one" in await knew(model, "two")
    prompts = [row["content"] for row in (await history(harness.http, name))["messages"] if row["role"] == "user"]
    assert prompts == ["SCRIPT:text one", "SCRIPT:text two"]


@on_versions()
@pytest.mark.rules("S003-043", "S003-044", "S003-054", "S003-055", "S003-057", "S003-005", "S003-033")
async def test_after_an_abort_a_kill_and_a_close_the_same_conversation_goes_on(
    harness: GatewayHarness, model: ScriptedModel
) -> None:
    name = await create(harness.http, harness.cwd)
    async with peer_at(harness.gateway.url, harness.gateway.token) as peer:
        await an_abort_stops_the_tool_that_runs(harness, peer, name)
    async with peer_at(harness.gateway.url, harness.gateway.token) as peer:
        await a_cli_that_is_killed_in_its_run_leaves_one_complete(harness, peer, name)
        await the_next_process_goes_on_with_the_same_conversation(harness, peer, name, model)
        assert {frame["sessionId"] for frame in peer.frames} == {name}


async def an_abort_stops_the_tool_that_runs(harness: GatewayHarness, peer: Peer, name: str) -> None:
    pipe = harness.cwd / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    async def read(wanted: bytes) -> None:
        """Read from the pipe; nothing arrives until the other end is open."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    if os.read(reading, 100) == wanted:
                        return
                except BlockingIOError:
                    pass
                await asyncio.sleep(0.02)

    try:
        await peer.send(name, f"SCRIPT:bash (echo up; sleep 600) > {pipe}")
        await allow(peer)
        await read(b"up\n")
        await peer.say("chat.abort", sessionId=name)
        end = await peer.until("complete")
        assert (end["aborted"], end["success"], end["exitCode"]) == (True, False, 0)
        await read(b"")
        await peer.settled()
        assert peer.run()[-1] == end, "nothing of the run comes after its end"
    finally:
        os.close(reading)


async def a_cli_that_is_killed_in_its_run_leaves_one_complete(harness: GatewayHarness, peer: Peer, name: str) -> None:
    await peer.send(name, "SCRIPT:slow 400")
    await peer.until("stream_delta")
    await harness.watch(name)
    started = await harness.until("agent.started")
    os.kill(started["pid"], signal.SIGKILL)
    await peer.until("error")
    end = await peer.until("complete")
    assert tuple(end) == COMPLETE
    assert (end["exitCode"], end["success"], end["aborted"]) == (1, False, False)
    await harness.until("agent.exited")
    assert (await peer.subscribe(name))["isProcessing"] is False
    assert peer.kinds().count("complete") == 1
    await peer.send(name, "SCRIPT:text still here")
    # 2.1.37 may have left nothing to resume, and reports that before it starts afresh.
    await peer.until(lambda frame: frame["kind"] == "complete" and frame["success"])
    assert peer.client.sessions[name].rows[-1]["content"].endswith("still here")


async def the_next_process_goes_on_with_the_same_conversation(
    harness: GatewayHarness, peer: Peer, name: str, model: ScriptedModel
) -> None:
    await harness.do("close")
    await harness.until("session.closed")
    harness.scene()
    assert (await run(peer, name, "SCRIPT:text two"))["success"] is True
    await harness.until("turn.ended")
    (started,) = harness.all("agent.started")
    assert started["pid"] not in {line["pid"] for line in harness.earlier if line["type"] == "agent.started"}
    assert "SCRIPT:text still here" in await knew(model, "two")
