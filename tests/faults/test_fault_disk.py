"""A full disk: requests are rejected, the agent waits, nothing acknowledged is lost, and work continues once there is
space.
"""

import asyncio
import signal
import sys
import uuid
from pathlib import Path
from typing import Any

import httpx2
import pytest

from fairlead.system.platform import PORTABLE
from faults.gateway_process import GatewayProcess
from faults.log_checks import Line, SentEvents, check_log, ends
from faults.native_client import NativeClient, folded
from faults.small_disk import SmallDisk
from patience import PATIENCE

pytestmark = pytest.mark.fault

WORDS = 20_000
LARGE = "so many words " * 8000
"""A message that needs many pages: the free space in the log's last pages does not suffice."""


async def refused(client: NativeClient) -> str:
    """Send a large message until it is rejected; return the id of the rejected message."""
    for _ in range(100):
        message = str(uuid.uuid4())
        answer = await client.send(f"{LARGE} SCRIPT:text", message=message)
        if answer["type"] == "error":
            assert answer["code"] == "unavailable", answer
            return message
    raise AssertionError("the disk takes everything")


async def repeated(client: NativeClient, text: str, message: str) -> Line:
    """Repeat the message until it is accepted: the gateway checks for space again after a moment."""
    async with asyncio.timeout(PATIENCE):
        while (answer := await client.send(text, message=message))["type"] == "error":
            assert answer["code"] == "unavailable", answer
            await asyncio.sleep(0.05)
    return answer


async def test_a_full_disk_in_mid_turn(tmp_path: Path) -> None:
    with SmallDisk(tmp_path / "data") as disk:
        async with on(disk, tmp_path) as gateway:
            client = NativeClient(await gateway.create())
            await client.come(gateway)
            first = await client.send(f"SCRIPT:burst {WORDS}")
            await client.until("text.delta")
            disk.fill(gateway.pid)
            lost = await refused(client)
            # Reading works: a new client receives everything that was acknowledged.
            other = NativeClient(client.session)
            assert (await other.come(gateway))["verdict"] == "ok"
            await other.passed(first["seq"])
            async with gateway.http() as http:
                for _ in range(1000):  # small ones fit into the last pages for a while
                    answer = await http.post("/v1/sessions", json={"cwd": str(gateway.cwd), "title": LARGE[:200]})
                    if answer.status_code != 201:
                        break
                assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable"), answer.text
            disk.make_room()
            assert not (await repeated(client, "SCRIPT:text", lost)).get("repeated"), "it was refused, so it is new"
            await client.holds(lambda: {first["message"], lost} <= client.over, "both turns")
            await other.passed(client.seq)
            # They leave before the log is read: the transcript's copies of records may be appended, and sent, later.
            ledger = SentEvents()
            for watcher in (client, other):
                await watcher.go()
                ledger.note(watcher.lines)
            stored = await gateway.stored(client.session)
            check_log(stored, idle=False)
            assert {end["status"] for end in ends(stored).values()} == {"completed"}
            text = next(line for line in stored if line["type"] == "text")
            assert text["text"] == "word " * WORDS
            ledger.check(stored)
            # And it was durable: a gateway that is killed now still has it all.
            await gateway.kill()
            await gateway.start()
            after = await gateway.stored(client.session)
            assert after[: len(stored)] == stored
            assert folded(after).conversation == folded(stored).conversation


async def test_a_gateway_stopped_on_a_full_disk_exits_and_the_next_start_finds_the_missing_part(tmp_path: Path) -> None:
    with SmallDisk(tmp_path / "data") as disk:
        async with on(disk, tmp_path) as gateway:
            client = NativeClient(await gateway.create())
            await client.come(gateway)
            sent = await client.send("SCRIPT:long 2000")
            await client.until("text.delta")
            disk.fill(gateway.pid)
            await refused(client)
            gateway.signal(signal.SIGTERM)
            assert await gateway.wait() == 0, gateway.log()
            assert not list(gateway.offspring())
            disk.make_room()
            gateway.prefix = disk.prefix
            await gateway.start()
            assert (await client.come(gateway))["verdict"] == "ok"
            await client.holds(lambda: sent["message"] in client.over, "the end of the turn")
            await client.until("agent.exited")
            await client.go()
            ledger = SentEvents()
            ledger.note(client.lines)
            stored = await gateway.stored(client.session)
            check_log(stored, idle=True)
            ledger.check(stored)
            end = ends(stored)[sent["message"]]
            # The keeper kept the exit until there was room for it.
            # The sandbox's monitor reports the signal; without one the program's own exit code is seen.
            reason = "the agent exited with code 143" if PORTABLE else "the agent was ended by signal 15"
            assert (end["status"], end["reason"]) == ("failed", reason)


async def test_no_gateway_starts_on_a_full_disk(tmp_path: Path) -> None:
    with SmallDisk(tmp_path / "data") as disk:
        async with on(disk, tmp_path) as gateway:
            await gateway.create()
            disk.fill(gateway.pid)
            await gateway.kill()
            gateway.prefix = disk.prefix
            gateway.spawn()
            assert await gateway.wait() == 1, gateway.log()
            assert "Traceback" not in gateway.log(), gateway.log()
            assert str(gateway.data) in gateway.log(), "names the folder that is full"
            disk.make_room()
            gateway.prefix = disk.prefix
            await gateway.start()


def on(disk: SmallDisk, folder: Path) -> GatewayProcess:
    """A gateway whose data folder is that disk, and the agents' own files elsewhere."""
    program = folder / "claude"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m fairlead_testing.standin_cli "$@"\n')
    program.chmod(0o755)
    home = folder / "agents-home"
    home.mkdir()
    gateway = GatewayProcess(folder, allow="Bash", agent="claude", claude=program, claude_home=home, on_stop="end")
    gateway.seen_data = disk.seen
    gateway.prefix = disk.prefix
    return gateway


async def test_a_full_disk_is_seen_by_operators(tmp_path: Path) -> None:
    with SmallDisk(tmp_path / "data") as disk:
        async with on(disk, tmp_path) as gateway:
            client = NativeClient(await gateway.create())
            await client.come(gateway)
            async with gateway.http() as http:
                assert (await http.get("/health/ready")).status_code == 200
                disk.fill(gateway.pid)
                await refused(client)
                failing = await ready_becomes(http, 503)
                assert failing["failing"], failing
                report = (await http.get("/v1/gateway/health")).json()
                assert not report["ready"]
                assert "health changed" in gateway.log()
                disk.make_room()
                await repeated(client, "SCRIPT:text", str(uuid.uuid4()))
                assert (await ready_becomes(http, 200)) == {"status": "ready"}


async def ready_becomes(http: httpx2.AsyncClient, status: int) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while (answer := await http.get("/health/ready")).status_code != status:
            await asyncio.sleep(0.1)
    return dict(answer.json())
