"""kill -9 and a stop of the gateway while real CLIs work in terminals at the keeper: each turn goes on to its true end,
in the same process."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import on_versions
from fairlead_testing.model_api import ScriptedModel
from faults.gateway_process import GatewayProcess
from faults.gateway_process import _each as processes
from faults.log_checks import check_log
from faults.native_client import NativeClient, folded
from patience import PATIENCE

Line = dict[str, Any]


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


class Work:
    """A session in a terminal, with one client."""

    def __init__(self, gateway: GatewayProcess, client: NativeClient) -> None:
        self.gateway = gateway
        self.client = client
        self._since = 0

    @classmethod
    async def open(cls, gateway: GatewayProcess) -> "Work":
        client = NativeClient(await gateway.create(settings={"link": "terminal"}))
        await client.come(gateway)
        return cls(gateway, client)

    async def prompt(self, prompt: str, until: str) -> Line:
        self._since = self.client.seq
        await self.client.send(f"SCRIPT:{prompt}")
        return await self.client.until(until, since=self._since)

    async def allow(self, asked: Line, client: NativeClient | None = None) -> None:
        answer = await (client or self.client).ask("answer", request=asked["request"], behavior="allow")
        assert answer["type"] == "reply", answer

    async def return_(self) -> None:
        await self.client.gone()
        assert (await self.client.come(self.gateway))["verdict"] == "ok"

    async def ended(self, status: str = "completed") -> list[Line]:
        """The log after the end of the turn, in the process that began it; the client has all of it."""
        end = await self.client.until("turn.ended", since=self._since)
        assert end["status"] == status, end
        stored = await self.gateway.stored(self.client.session)
        check_log(stored, idle=False)
        await self.client.passed(stored[-1]["seq"])
        assert self.client.folded() == folded(stored)
        for kind in ("agent.started", "agent.ready"):
            assert len(of(stored, kind)) == 1, kind
        for kind in ("agent.exited", "permission.cancelled", "error"):
            assert not of(stored, kind), of(stored, kind)
        return stored

    async def screen(self) -> str:
        async with self.gateway.http() as http:
            answer = await http.get(f"/v1/sessions/{self.client.session}/terminal")
            return "\n".join(answer.json()["lines"])


def of(lines: list[Line], kind: str) -> list[Line]:
    return [line for line in lines if line["type"] == kind]


def texts(lines: list[Line]) -> list[str]:
    return [line["text"] for line in of(lines, "text")]


def tool_runs(gateway: GatewayProcess) -> bool:
    for pid, argv in processes("cmdline"):
        with contextlib.suppress(OSError):
            if any(b"time.sleep" in word for word in argv) and Path(f"/proc/{pid}/cwd").samefile(gateway.cwd):
                return True
    return False


@pytest.mark.slow
@on_versions()
async def test_a_killed_gateway_changes_nothing_for_clis_in_terminals(
    gateway: GatewayProcess, model: ScriptedModel
) -> None:
    """Three CLIs: one runs a tool, one waits for a permission, one has its prompt and no token of the answer yet."""
    tool, asking, prompted = [await Work.open(gateway) for _ in range(3)]
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
    work = await Work.open(gateway)
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
