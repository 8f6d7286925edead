"""A slow peer slows no other one down, and a fast one fills no memory: slow clients, a stalled store, loud agents."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import pytest

from faults.gateway_process import GatewayProcess
from faults.log_checks import check_log
from faults.native_client import NativeClient, after_a_turn, folded
from patience import PATIENCE

# Long tests: on a busy machine they may take minutes.
pytestmark = pytest.mark.fault

BURSTS = 10
WORDS = 60_000
"""Some 18 MB of the agent's lines: far more than any pipe or batch holds."""
MEGABYTE = 1 << 20


class Memory:
    """The largest growth of the gateway's memory during this block."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self.grown = 0
        self._gateway = gateway

    async def __aenter__(self) -> "Memory":
        self._looking = asyncio.create_task(self._look(self._gateway.resident()))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._looking.cancel()
        await asyncio.wait({self._looking})

    async def _look(self, before: int) -> None:
        while True:
            self.grown = max(self.grown, self._gateway.resident() - before)
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(("deltas", "most"), [(60_000, 16), pytest.param(200_000, 40, marks=pytest.mark.long)])
async def test_a_client_that_does_not_read_affects_no_other_client(tmp_path: Path, deltas: int, most: int) -> None:
    """Some 300 bytes per delta would be held if they waited for this client: more than the allowed maximum."""
    async with GatewayProcess(tmp_path) as gateway:
        quick, _ = await after_a_turn(gateway)
        slow = NativeClient(quick.session)
        await slow.come(gateway)
        slow.stop_reading()
        async with Memory(gateway) as memory:
            # One after the other: a block's own size is up to the agent, and grows with its deltas.
            for _ in range(BURSTS):
                sent = await quick.send(f"SCRIPT:burst {deltas // BURSTS}")
            await quick.holds(lambda: sent["message"] in quick.over, "the end of the bursts", patience=None)
        assert len(quick.all("text.delta")) >= deltas
        assert sent["message"] not in slow.over
        print(f"grown by {memory.grown / MEGABYTE:.1f} MB for {deltas} deltas")
        assert memory.grown < most * MEGABYTE
        slow.read_on()
        # Whether its socket survived or was closed as dead in the meantime: it continues at its cursor.
        while slow.seq < quick.seq:
            with contextlib.suppress(Exception):
                await slow.passed(quick.seq)
                break
            assert (await slow.come(gateway))["verdict"] == "ok"
        stored = await gateway.stored(quick.session)
        check_log(stored, idle=True)
        whole = folded(stored)
        assert quick.folded() == whole
        assert slow.folded() == whole
        await quick.go()
        await slow.go()


async def test_an_agent_is_as_fast_as_the_store(tmp_path: Path) -> None:
    """The store accepts nothing for a while: the agent blocks in its own write, and the gateway holds a few batches.
    Without a keeper, which would hold 8 MiB more (tests/keeper)."""
    async with GatewayProcess(tmp_path, keeper=False) as gateway:
        client, agent = await after_a_turn(gateway)
        written = written_by(agent)
        sent = await client.send(f"SCRIPT:burst {WORDS}")
        await client.until("text.delta", since=sent["seq"])
        with contextlib.closing(sqlite3.connect(gateway.data / "fairlead.db", timeout=PATIENCE)) as db:
            db.execute("begin immediate")
            already = written_by(agent) - written
            async with Memory(gateway) as memory:
                await stands_still(agent)
            stuck = written_by(agent) - written
        print(f"{already >> 10} kB said before, {stuck - already >> 10} kB more; grown by {memory.grown >> 10} kB")
        assert stuck - already < 4 * MEGABYTE
        assert memory.grown < 16 * MEGABYTE
        await client.holds(lambda: sent["message"] in client.over, "the end of the burst", patience=None)
        end = client.all("turn.ended")[-1]
        assert (end["status"], end["text"]) == ("completed", "word " * WORDS)
        assert written_by(agent) - written > 10 * stuck - 9 * already
        await client.go()


def written_by(pid: int) -> int:
    """Bytes that a process has written so far."""
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("wchar:"):
            return int(line.split()[1])
    raise AssertionError(f"{pid} is gone")


async def stands_still(pid: int) -> None:
    """Wait until a process has written nothing for a while."""
    same = 0
    last = -1
    async with asyncio.timeout(PATIENCE):
        while same < 20:
            now = written_by(pid)
            same = same + 1 if now == last else 0
            last = now
            await asyncio.sleep(0.05)
