"""kill -9 of the gateway while real CLIs work at the keeper: each goes on to its true end, as if nothing had
happened."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from e2e.harness import NEWEST, on_versions, since
from e2e.session_at_work import Line, SessionAtWork, of, tool_runs
from fairlead.agents.claude.launch import must_hold
from fairlead.agents.claude.versions import parse_version
from faults.gateway_process import GatewayProcess
from faults.native_client import NativeClient
from patience import PATIENCE


@pytest.fixture
async def gateway(claude: Path, cli_env: dict[str, str], tmp_path: Path) -> AsyncIterator[GatewayProcess]:
    process = GatewayProcess(
        tmp_path, agent="claude", claude=claude, pass_env="IS_SANDBOX", allow="Bash", max_agents=10
    )
    process.env = cli_env
    async with process:
        yield process


def ends(message: str, client: NativeClient, line: Line) -> bool:
    return line["type"] == "turn.ended" and message in client.over


@on_versions()
async def test_a_killed_gateway_changes_nothing_for_its_agents(gateway: GatewayProcess, version: str) -> None:
    """Five agents: one runs a tool, one waits for a permission, one waits in a hook, one has just got its prompt, one
    is being started."""
    outside = gateway.folder / "outside.txt"
    outside.write_text("read me")
    numbers = parse_version(version)
    assert numbers is not None
    held = must_hold("Read", numbers)
    asking = await SessionAtWork.begin(gateway, "write asked.txt", "permission.asked")
    hooked = await SessionAtWork.begin(gateway, f"read {outside}", "permission.asked")
    prompted = await SessionAtWork.begin(gateway, "text", "turn.ended")
    tool = await SessionAtWork.begin(gateway, "slowtool 4", "permission.resolved")
    async with asyncio.timeout(PATIENCE):
        while not tool_runs(gateway):
            await asyncio.sleep(0.02)
    starting = await SessionAtWork.begin(gateway, "text", "agent.started")
    await prompted.prompt("slow 12", "user.message")
    await gateway.kill()
    await gateway.start()
    everything = (tool, asking, hooked, prompted, starting)
    for work in everything:
        await work.return_()
    # The requests wait as before, and another client answers them.
    phone = NativeClient(asking.client.session)
    await phone.come(gateway)
    for work, client in ((asking, phone), (hooked, hooked.client)):
        (request,) = work.client.all("permission.asked")
        client.session = work.client.session
        await work.allow(request, client)
    await phone.go()
    (result,) = of(await tool.ended(), "tool.ended")
    assert not result.get("is_error")
    await asking.ended()
    assert (gateway.cwd / "asked.txt").exists()
    (read,) = of(await hooked.ended(), "tool.ended")
    assert "read me" in str(read["content"])
    if held:
        assert not since(version, NEWEST)
    assert [line["text"] for line in of(await prompted.ended(), "text")][1:] == ["tick " * 12]
    assert len(of(await starting.ended(), "agent.ready")) == 1
    # They go on working in the same processes.
    for work in everything:
        sent = await work.client.send("SCRIPT:text")
        await work.client.until(partial(ends, sent["message"], work.client))
        assert len(of(await gateway.stored(work.client.session), "agent.started")) == 1
        await work.client.go()
