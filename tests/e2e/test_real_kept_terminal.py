"""kill -9 and a stop of the gateway while real CLIs work in terminals at the keeper: each turn goes on to its true end,
in the same process."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from e2e.harness import on_versions
from e2e.session_at_work import Line, SessionAtWork, of, tool_runs
from fairlead_testing.model_api import ScriptedModel
from faults.gateway_process import GatewayProcess
from faults.native_client import NativeClient
from patience import PATIENCE


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
async def gateway(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path, agreed: None
) -> AsyncIterator[GatewayProcess]:
    """On a fixed port: the hooks of a CLI in a terminal look for the next gateway there."""
    process = GatewayProcess(
        tmp_path, agent="claude", claude=claude, pass_env="IS_SANDBOX", max_agents=10, port=free_port()
    )
    process.env = cli_env
    async with process:
        yield process


def texts(lines: list[Line]) -> list[str]:
    return [line["text"] for line in of(lines, "text")]


def asked_for(model: ScriptedModel, argument: str) -> int:
    """How often the model was asked to answer a script. The CLI also asks for a title of some prompts by itself."""
    return len([request for request in model.requests if (request.kind, request.argument) == ("messages", argument)])


@pytest.mark.slow
@on_versions()
async def test_a_killed_gateway_changes_nothing_for_clis_in_terminals(
    gateway: GatewayProcess, model: ScriptedModel
) -> None:
    """Three CLIs: one runs a tool, one waits for a permission, one has its prompt and no token of the answer yet."""
    tool, asking, prompted = [await SessionAtWork.open(gateway, link="terminal") for _ in range(3)]
    await tool.allow(await tool.prompt("slowtool 4", "permission.asked"))
    async with asyncio.timeout(PATIENCE):
        while not tool_runs(gateway):
            await asyncio.sleep(0.02)
    asked = await asking.prompt("write asked.txt", "permission.asked")
    await prompted.prompt("text zero", "turn.ended")
    model.hold()
    await prompted.prompt("text one", "turn.started")
    await model.wait_for(lambda request: request.argument == "one", timeout=PATIENCE)
    await gateway.kill()
    model.release()
    await gateway.start()
    for work in (tool, asking, prompted):
        await work.return_()
    # The request waits as before, and another client answers it.
    phone = NativeClient(asking.client.session)
    await phone.come(gateway)
    await asking.allow(asked, phone)
    await phone.go()
    (result,) = of(await tool.ended(), "tool.ended")
    assert not result.get("is_error"), result
    stored = await asking.ended()
    assert (gateway.cwd / "asked.txt").exists()
    assert len(of(stored, "permission.asked")) == 1
    stored = await prompted.ended()
    assert [text.split()[-1] for text in texts(stored)] == ["zero", "one"]
    assert asked_for(model, "one") == 1, "its prompt was typed once"
    for work in (tool, asking, prompted):
        assert "SCRIPT:" in await work.screen(), "the screen is there for a new watcher"
        # They go on working in the same processes.
        await work.prompt("text again", "turn.ended")
        await work.ended()
        await work.client.go()


@pytest.mark.slow
@on_versions()
async def test_a_stopped_gateway_changes_nothing_for_clis_in_terminals(
    gateway: GatewayProcess, model: ScriptedModel
) -> None:
    """One CLI, several restarts: while a permission waits, just after a prompt was stored, and during an interrupt."""
    work = await SessionAtWork.open(gateway, link="terminal")
    asked = await work.prompt("write asked.txt", "permission.asked")
    gateway.signal(signal.SIGTERM)
    assert await gateway.wait() == 0
    await gateway.start()
    await work.return_()
    await work.allow(asked)
    stored = await work.ended()
    assert (gateway.cwd / "asked.txt").exists() and len(of(stored, "permission.asked")) == 1
    # The prompt may be typed in part, or not at all.
    await work.prompt("text typed once", "turn.started")
    await gateway.kill()
    await gateway.start()
    await work.return_()
    stored = await work.ended()
    assert len([line for line in of(stored, "user.message") if "typed once" in str(line["content"])]) == 1
    assert len([text for text in texts(stored) if text.endswith("once")]) == 1
    assert asked_for(model, "typed once") == 1
    # The interrupt may have reached the CLI, or not.
    model.hold()
    await work.prompt("text never", "user.message")
    await model.wait_for(lambda request: request.argument == "never", timeout=PATIENCE)
    assert (await work.client.ask("interrupt"))["type"] == "reply"
    await gateway.kill()
    await gateway.start()
    await work.return_()
    await work.ended("cancelled")
    model.release()
    await work.prompt("text last", "turn.ended")
    await work.ended()
    await work.client.go()
