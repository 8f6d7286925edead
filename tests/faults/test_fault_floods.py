"""Floods against a gateway that may open few files: whoever has a credential is served while they last."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from faults.gateway_process import PATIENCE, TOKEN, GatewayProcess
from faults.native_client import NativeClient

pytestmark = pytest.mark.fault

FLOOD = Path(__file__).with_name("flood.py")
FEW = ("sh", "-c", 'ulimit -Sn 1024; ulimit -Hn 1024; exec "$@"', "sh")


@asynccontextmanager
async def flood(gateway: GatewayProcess, words: str, count: int, first: int) -> AsyncIterator[None]:
    """From ten addresses."""
    addresses = [f"127.0.0.{first + number}" for number in range(10)]
    port = str(urlsplit(gateway.url).port)
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(FLOOD), port, words, str(count), *addresses, stdin=-1, stdout=-1
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        async with asyncio.timeout(2 * PATIENCE):
            assert await process.stdout.readline() == b"up\n"
        yield
        assert process.returncode is None, "it lasted"
    finally:
        process.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), PATIENCE)
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.timeout(300)
async def test_a_good_client_is_served_while_strangers_hold_all_they_can(tmp_path: Path) -> None:
    """With 1,024 descriptors, 5,000 upgrades and 3,000 bodies that never end, and more all the time."""
    gateway = GatewayProcess(tmp_path)
    gateway.prefix = FEW
    async with gateway:
        client = NativeClient(await gateway.create())
        async with flood(gateway, "upgrades", 5000, 10), flood(gateway, "bodies", 3000, 30):
            took: list[float] = []
            for number in range(5):
                began = time.monotonic()
                # A connection of its own each time: whoever is in already would prove nothing.
                async with httpx.AsyncClient(base_url=gateway.url, timeout=PATIENCE, trust_env=False) as http:
                    answer = await http.get("/v1/me", headers={"Authorization": f"Bearer {TOKEN}"})
                assert answer.status_code == 200
                await client.come(gateway)
                assert (await client.send(f"SCRIPT:text number {number}"))["type"] == "reply"
                await client.until("turn.ended", since=client.seq)
                await client.go()
                took.append(time.monotonic() - began)
            held = len(os.listdir(f"/proc/{gateway.pid}/fd"))
            print(f"served in {', '.join(f'{one:.2f}' for one in took)} s; the gateway has {held} descriptors open")
            assert held < 1024 * 3 / 4
    assert "Too many open files" not in gateway.log()


async def test_the_gateway_takes_all_descriptors_that_it_may_have_and_its_agents_do_not(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path)
    gateway.prefix = ("sh", "-c", 'ulimit -Sn 512; ulimit -Hn 2048; exec "$@"', "sh")
    async with gateway:
        assert _files(gateway.pid) == ("2048", "2048")
        session = await gateway.create()
        client = NativeClient(session)
        await client.come(gateway)
        await client.send("SCRIPT:slow 400")
        await client.until("text.delta")
        (agent,) = gateway.agents(session)
        assert _files(agent) == ("512", "2048")
        await client.go()


def _files(pid: int) -> tuple[str, str]:
    """Soft and hard limit."""
    line = next(line for line in Path(f"/proc/{pid}/limits").read_text().splitlines() if "open files" in line)
    soft, hard = line.split()[3:5]
    return soft, hard
