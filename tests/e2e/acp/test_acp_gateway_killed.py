"""The gateway dies (kill -9) while a real ACP agent works. With a keeper the turn goes on to its true end; without one,
the next gateway ends the agent, and the session continues."""

import asyncio
import json
from pathlib import Path

import pytest

from e2e.acp.acp_harness import Agent, an_hour_later, each_agent
from fairlead_testing.acp_models import AcpModel
from fairlead_testing.acp_scripts import GREETING
from faults.gateway_process import GatewayProcess
from faults.log_checks import check_log
from faults.native_client import NativeClient, folded
from patience import PATIENCE

pytestmark = pytest.mark.process


def gateway_with(agent: Agent, folder: Path, *, keeper: bool) -> GatewayProcess:
    settings = folder / "fairlead.toml"
    # A list of JSON strings is one of TOML too.
    settings.write_text(
        f"[agents.{agent.name}]\ncommand = {json.dumps(agent.command)}\nenv = {json.dumps(list(agent.env))}\n"
    )
    gateway = GatewayProcess(folder, agent=agent.name, keeper=keeper)
    gateway.env, gateway.arguments = agent.env, ("--config", str(settings))
    return gateway


@each_agent
async def test_a_killed_gateway_changes_nothing_for_an_agent_at_the_keeper(
    agent: Agent, acp_model: AcpModel, tmp_path: Path
) -> None:
    """Killed while the agent writes, while it waits for an answer, and between two turns."""
    async with gateway_with(agent, tmp_path, keeper=True) as gateway:
        client = NativeClient(await gateway.create())
        await client.come(gateway)

        async def killed() -> None:
            await gateway.kill()
            await client.gone()
            await gateway.start()
            assert (await client.come(gateway))["verdict"] == "ok"

        async def turn(script: str, sign: str) -> str:
            since = client.seq
            await client.send(f"SCRIPT:{script}")
            await client.until(sign, since=since)
            await killed()
            if sign == "permission.asked":
                (asked,) = client.all("permission.asked")
                answer = await client.ask("answer", request=asked["request"], behavior="allow")
                assert answer["type"] == "reply", answer
            ended = await client.until("turn.ended", since=since)
            assert ended["status"] == "completed", str(ended)
            return str(ended.get("text", ""))

        assert await turn("slow 15", "text.delta") == "tick " * 15
        await turn("shell touch there", "permission.asked")
        assert (gateway.cwd / "there").exists()
        await killed()
        assert await turn("text second", "user.message") == f"{GREETING} second"
        stored = await gateway.stored(client.session)
        check_log(stored, idle=False)
        await client.passed(stored[-1]["seq"])
        assert client.folded() == folded(stored), "nothing was lost, doubled or changed"
        assert len([line for line in stored if line["type"] == "agent.started"]) == 1
        assert not [line for line in stored if line["type"] == "permission.cancelled"]
        await client.go()


@each_agent
@pytest.mark.parametrize(
    ("script", "sign"), [("slow 400", "text.delta"), ("shell touch never", "permission.asked")], ids=["text", "request"]
)
async def test_a_killed_gateway_leaves_no_agent_and_its_session_goes_on(
    agent: Agent, acp_model: AcpModel, tmp_path: Path, cli_home: Path, script: str, sign: str
) -> None:
    async with gateway_with(agent, tmp_path, keeper=False) as gateway:
        client = NativeClient(await gateway.create())
        await client.come(gateway)
        await client.send("SCRIPT:text first")
        await client.until("turn.ended")
        await client.send(f"SCRIPT:{script}")
        reached = await client.until(sign, since=client.seq)
        await gateway.kill()
        await client.go()
        await gateway.start()
        await client.come(gateway)
        assert (await client.until("turn.ended", since=reached["seq"]))["status"] == "failed"
        await client.until("agent.exited", since=reached["seq"])
        assert len(client.all("permission.cancelled")) == len(client.all("permission.asked"))
        async with asyncio.timeout(PATIENCE):
            # It could not ask for permission any more.
            while list(gateway.offspring()):
                await asyncio.sleep(0.05)
        an_hour_later(cli_home)
        await client.send("SCRIPT:text second")
        ended = await client.until("turn.ended", since=client.seq)
        assert (ended["status"], ended["text"]) == ("completed", f"{GREETING} second")
        assert client.folded() == folded(await gateway.stored(client.session)), "nothing was lost, doubled or changed"
    assert "SCRIPT:text first" in str(acp_model.of("text")[-1].body), "the model sees the earlier conversation"
    assert not (gateway.cwd / "never").exists()
