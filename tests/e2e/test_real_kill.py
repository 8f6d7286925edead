"""kill -9 of a gateway without a keeper while the real CLI works: it is followed to its end, and its answer is in the
log once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import LAST_DIAL_IN, NEWEST, OLDEST, on_versions
from fairlead_testing.native_client import Fold
from faults.gateway_process import GatewayProcess
from faults.gateway_process import _each as processes
from faults.native_client import NativeClient
from patience import PATIENCE

Line = dict[str, Any]


@pytest.fixture
async def gateway(claude: Path, cli_env: dict[str, str], tmp_path: Path) -> AsyncIterator[GatewayProcess]:
    process = GatewayProcess(tmp_path, agent="claude", claude=claude, pass_env="IS_SANDBOX", allow="Bash", keeper=False)
    process.env = cli_env
    async with process:
        yield process


def kinds(lines: list[Line], kind: str) -> list[Line]:
    return [line for line in lines if line["type"] == kind]


async def after_the_turn(gateway: GatewayProcess, session: str, patience: float) -> list[Line]:
    async with asyncio.timeout(patience):
        while True:
            lines = await gateway.stored(session)
            if kinds(lines, "turn.ended") and kinds(lines, "agent.exited"):
                return lines
            await asyncio.sleep(0.1)


async def at_work(gateway: GatewayProcess, prompt: str, **fields: Any) -> NativeClient:
    client = NativeClient(await gateway.create(**fields))
    await client.come(gateway)
    await client.send(prompt)
    return client


async def killed(gateway: GatewayProcess, client: NativeClient, patience: float = PATIENCE) -> list[Line]:
    """Kill the gateway and start it again; return the log once the turn is over, which the client received without a
    gap.
    """
    await gateway.kill()
    await client.gone()
    await gateway.start()
    assert (await client.come(gateway))["verdict"] == "ok"
    lines = await after_the_turn(gateway, client.session, patience)
    await client.until("agent.exited")
    fold = Fold()
    for line in lines:
        fold.apply(line)
    assert client.folded() == fold.state
    await client.go()
    return lines


@on_versions(OLDEST, NEWEST)
async def test_killed_in_mid_text(gateway: GatewayProcess) -> None:
    client = await at_work(gateway, "SCRIPT:slow 12")
    await client.until("text.delta")
    lines = await killed(gateway, client)
    assert [line["text"] for line in kinds(lines, "text")] == ["tick " * 12]
    assert [line["status"] for line in kinds(lines, "turn.ended")] == ["completed"]
    assert len(kinds(lines, "agent.started")) == 1, "one process ran"


def tool_runs(gateway: GatewayProcess) -> bool:
    """Whether the tool runs in this gateway's folder: other tests run in parallel, and some of their tools sleep."""
    for pid, argv in processes("cmdline"):
        with contextlib.suppress(OSError):
            if any(b"time.sleep" in word for word in argv) and Path(f"/proc/{pid}/cwd").samefile(gateway.cwd):
                return True
    return False


@on_versions(OLDEST, NEWEST)
async def test_killed_in_mid_tool(gateway: GatewayProcess) -> None:
    client = await at_work(gateway, "SCRIPT:slowtool 3")
    await client.until("permission.resolved")
    async with asyncio.timeout(PATIENCE):
        while not tool_runs(gateway):
            await asyncio.sleep(0.02)
    lines = await killed(gateway, client)
    (ended,) = kinds(lines, "tool.ended")
    assert ended["call"] == kinds(lines, "tool.called")[0]["call"]
    assert not ended.get("is_error")
    assert [line["status"] for line in kinds(lines, "turn.ended")] == ["completed"]
    assert "Done" in kinds(lines, "text")[-1]["text"]
    assert len(kinds(lines, "agent.started")) == 1, "one process ran"


async def killed_while_it_dials_in(gateway: GatewayProcess, patience: float = PATIENCE) -> None:
    client = await at_work(gateway, "SCRIPT:slow 12", settings={"link": "dial-in"})
    await client.until("text.delta")
    lines = await killed(gateway, client, patience)
    assert [line["status"] for line in kinds(lines, "turn.ended")] == ["completed"]
    assert [line["text"] for line in kinds(lines, "text")] == ["tick " * 12]
    assert len(kinds(lines, "agent.started")) == 1, "one process ran"


@on_versions(OLDEST, last=OLDEST)
async def test_killed_while_a_cli_that_dials_in_writes(gateway: GatewayProcess) -> None:
    await killed_while_it_dials_in(gateway)


@pytest.mark.long
@on_versions(LAST_DIAL_IN, first=LAST_DIAL_IN, last=LAST_DIAL_IN)
async def test_killed_while_a_cli_that_tries_for_long_writes(gateway: GatewayProcess) -> None:
    """The CLI would look for its gateway for ten minutes; it is ended after it has been quiet for one."""
    await killed_while_it_dials_in(gateway, patience=60 + PATIENCE)
