"""A gateway that is stopped, a keeper that is killed, agents that nobody takes over: what happens to the turns."""

import asyncio
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from faults.gateway_process import GatewayProcess
from faults.log_checks import check_log, ends
from faults.native_client import NativeClient, folded
from faults.test_fault_pace import stands_still
from patience import PATIENCE

pytestmark = pytest.mark.fault


async def come_back(gateway: GatewayProcess, *clients: NativeClient) -> None:
    for client in clients:
        await client.gone()
        assert (await client.come(gateway))["verdict"] == "ok"


async def stop(gateway: GatewayProcess) -> None:
    gateway.signal(signal.SIGTERM)
    assert await gateway.wait() == 0, gateway.log()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_one_turn_with_five_permissions_goes_through_three_stops(tmp_path: Path) -> None:
    """Two clients: one asks, the other answers, always after a restart."""
    async with GatewayProcess(tmp_path) as gateway:
        desk = NativeClient(await gateway.create())
        phone = NativeClient(desk.session)
        for client in (desk, phone):
            await client.come(gateway)
        sent = await desk.send("SCRIPT:loop 5")
        (agent,) = await _started(gateway, desk)
        for number in range(5):
            asked = await phone.until(partial(_asks, phone))
            if number in (0, 2, 4):
                await stop(gateway)
                for client in (desk, phone):
                    await client.gone()
                    assert client.close_code == 1012
                assert gateway.agents(desk.session) == [agent], "the agent goes on"
                await gateway.start()
                for client in (desk, phone):
                    assert (await client.come(gateway))["verdict"] == "ok"
            answer = await phone.ask("answer", request=asked["request"], behavior="allow")
            assert answer["type"] == "reply", answer
        await desk.holds(lambda: sent["message"] in desk.over, "the end of the turn")
        assert gateway.agents(desk.session) == [agent]
        stored = await gateway.stored(desk.session)
        check_log(stored, idle=True)
        (end,) = ends(stored).values()
        assert end["status"] == "completed", end
        for client in (desk, phone):
            await client.passed(stored[-1]["seq"])
            assert client.folded() == folded(stored)
            await client.go()


def _asks(client: NativeClient, line: dict[str, Any]) -> bool:
    return line["type"] == "permission.asked" and line["request"] not in client.settled


async def _started(gateway: GatewayProcess, client: NativeClient) -> list[int]:
    await client.until("user.message")
    return gateway.agents(client.session)


async def test_a_stop_that_ends_agents_leaves_no_process(tmp_path: Path) -> None:
    async with GatewayProcess(tmp_path, on_stop="end") as gateway:
        client = NativeClient(await gateway.create())
        await client.come(gateway)
        await client.send("SCRIPT:slow 4000")
        await client.until("text.delta")
        keeper = gateway.keeper()
        assert keeper is not None
        await stop(gateway)
        assert not list(gateway.offspring())
        await until(lambda: not alive(keeper))


@pytest.mark.parametrize("gateway_too", [False, True], ids=["keeper", "keeper-and-gateway"])
async def test_a_killed_keeper_costs_what_a_killed_gateway_cost_without_one(tmp_path: Path, gateway_too: bool) -> None:
    """The agents see the end of their input and finish what they have begun; their own file completes the log. The next
    message starts a new process, at a new keeper."""
    async with GatewayProcess(tmp_path, allow="Bash") as gateway:
        client = NativeClient(await gateway.create())
        await client.come(gateway)
        sent = await client.send("SCRIPT:long 300")
        await client.until("text.delta")
        keeper = gateway.keeper()
        assert keeper is not None
        os.kill(keeper, signal.SIGKILL)
        if gateway_too:
            await gateway.kill()
            await client.gone()
            await gateway.start()
            assert (await client.come(gateway))["verdict"] == "ok"
        await client.holds(lambda: sent["message"] in client.over, "the end of the turn")
        await client.until("agent.exited")
        again = await client.send("SCRIPT:text")
        await client.holds(lambda: again["message"] in client.over, "the next turn")
        assert gateway.keeper() not in (None, keeper)
        stored = await gateway.stored(client.session)
        check_log(stored, idle=True)
        first, second = ends(stored).values()
        assert first["status"] in ("completed", "failed")
        assert second["status"] == "completed"
        await client.passed(stored[-1]["seq"])
        assert client.folded() == folded(stored)
        await client.go()


async def test_agents_without_a_gateway_end_after_a_while(tmp_path: Path) -> None:
    async with GatewayProcess(tmp_path, orphan_minutes=0.01) as gateway:
        client = NativeClient(await gateway.create())
        await client.come(gateway)
        await client.send("SCRIPT:write f")
        await client.until("permission.asked")
        await gateway.kill()
        await client.gone()
        await until(lambda: not list(gateway.offspring()))
        await gateway.start()
        await come_back(gateway, client)
        await client.until("turn.ended")
        await client.until("agent.exited")
        assert not (gateway.cwd / "f").exists(), "nobody allowed it"
        check_log(await gateway.stored(client.session), idle=True)
        await client.go()


async def test_output_without_a_gateway_waits_at_the_keeper_and_comes_whole(tmp_path: Path) -> None:
    """More than the keeper holds: the agent waits in its own write until a gateway is there again."""
    words = 300_000
    async with GatewayProcess(tmp_path) as gateway:
        client = NativeClient(await gateway.create())
        await client.come(gateway)
        sent = await client.send(f"SCRIPT:burst {words}")
        await client.until("text.delta")
        (agent,) = gateway.agents(client.session)
        await gateway.kill()
        await client.gone()
        await stands_still(agent)
        await gateway.start()
        assert (await client.come(gateway))["verdict"] == "ok"
        await client.holds(lambda: sent["message"] in client.over, "the end of the burst", patience=None)
        (end,) = client.all("turn.ended")
        assert end["status"] == "completed"
        (text,) = [line for line in await gateway.stored(client.session) if line["type"] == "text"]
        assert len(text["text"].split()) == words
        await client.go()
