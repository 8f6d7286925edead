"""kill -9 of the gateway while real CLIs work at the keeper: each goes on to its true end, as if nothing had
happened."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import NEWEST, on_versions, since
from fairlead.agents.claude.launch import must_hold
from fairlead.agents.claude.versions import parse_version
from faults.gateway_process import GatewayProcess
from faults.gateway_process import _each as processes
from faults.log_checks import check_log
from faults.native_client import NativeClient, folded
from patience import PATIENCE

Line = dict[str, Any]


@pytest.fixture
async def gateway(claude: Path, cli_env: dict[str, str], tmp_path: Path) -> AsyncIterator[GatewayProcess]:
    process = GatewayProcess(
        tmp_path, agent="claude", claude=claude, pass_env="IS_SANDBOX", allow="Bash", max_agents=10
    )
    process.env = cli_env
    async with process:
        yield process


class Work:
    """A session at work, with one client."""

    def __init__(self, gateway: GatewayProcess, client: NativeClient) -> None:
        self.gateway = gateway
        self.client = client
        self._since = 0

    @classmethod
    async def begin(cls, gateway: GatewayProcess, prompt: str, until: str) -> "Work":
        client = NativeClient(await gateway.create())
        await client.come(gateway)
        work = cls(gateway, client)
        await work.prompt(prompt, until)
        return work

    async def prompt(self, prompt: str, until: str) -> None:
        self._since = self.client.seq
        await self.client.send(f"SCRIPT:{prompt}")
        await self.client.until(until, since=self._since)

    async def return_(self) -> None:
        await self.client.gone()
        assert (await self.client.come(self.gateway))["verdict"] == "ok"

    async def ended(self) -> list[Line]:
        """The log after the end of the turn, which completed in the process that began it; the client has all of it."""
        end = await self.client.until("turn.ended", since=self._since)
        assert end["status"] == "completed", end
        stored = await self.gateway.stored(self.client.session)
        check_log(stored, idle=False)
        await self.client.passed(stored[-1]["seq"])
        assert self.client.folded() == folded(stored)
        assert len(of(stored, "agent.started")) == 1
        assert not of(stored, "agent.exited")
        assert not of(stored, "permission.cancelled")
        return stored


def ends(message: str, client: NativeClient, line: Line) -> bool:
    return line["type"] == "turn.ended" and message in client.over


def of(lines: list[Line], kind: str) -> list[Line]:
    return [line for line in lines if line["type"] == kind]


def tool_runs(gateway: GatewayProcess) -> bool:
    for pid, argv in processes("cmdline"):
        with contextlib.suppress(OSError):
            if any(b"time.sleep" in word for word in argv) and Path(f"/proc/{pid}/cwd").samefile(gateway.cwd):
                return True
    return False


@on_versions()
async def test_a_killed_gateway_changes_nothing_for_its_agents(gateway: GatewayProcess, version: str) -> None:
    """Five agents: one runs a tool, one waits for a permission, one waits in a hook, one has just got its prompt, one
    is being started."""
    outside = gateway.folder / "outside.txt"
    outside.write_text("read me")
    numbers = parse_version(version)
    assert numbers is not None
    held = must_hold("Read", numbers)
    asking = await Work.begin(gateway, "write asked.txt", "permission.asked")
    hooked = await Work.begin(gateway, f"read {outside}", "permission.asked")
    prompted = await Work.begin(gateway, "text", "turn.ended")
    tool = await Work.begin(gateway, "slowtool 4", "permission.resolved")
    async with asyncio.timeout(PATIENCE):
        while not tool_runs(gateway):
            await asyncio.sleep(0.02)
    starting = await Work.begin(gateway, "text", "agent.started")
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
        answer = await client.ask("answer", request=request["request"], behavior="allow")
        assert answer["type"] == "reply", answer
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
