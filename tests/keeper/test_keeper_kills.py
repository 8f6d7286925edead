"""kill -9 of the gateway at random moments: every line of every agent is stored once, every answer heard once."""

import asyncio
import json
import random
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from keeper.running import keepers
from patience import PATIENCE

pytestmark = pytest.mark.fault

GATEWAY = Path(__file__).with_name("storing_gateway.py")
ANSWERED = 50
MOMENTS = (0.1, 0.8)
"""Seconds after the start of a gateway, between which it is killed: some are killed before they are connected."""


async def run_gateway(data: Path, agents: int, lines: int, seconds: float | None) -> bool:
    """Run a gateway for so many seconds, None for as long as it wants. Return whether it has ended by itself."""
    words = (str(data), str(agents), str(lines))
    gateway = await asyncio.create_subprocess_exec(sys.executable, str(GATEWAY), *words)
    try:
        code = await asyncio.wait_for(gateway.wait(), seconds or 10 * PATIENCE)
    except TimeoutError:
        assert seconds is not None, "the gateway does not end"
        gateway.kill()
        await gateway.wait()
        return False
    assert code == 0
    return True


def stored(data: Path, agents: int) -> Iterator[tuple[list[int], list[str], int]]:
    """For each agent the numbers of its lines, the answers that it heard, and its exit code."""
    with closing(sqlite3.connect(data / "log.db")) as database:
        for agent in range(agents):
            rows = database.execute("select line from lines where agent = ? order by rowid", (agent,))
            *lines, last = [json.loads(line) for (line,) in rows]
            (code,) = database.execute("select code from exits where agent = ?", (agent,)).fetchone()
            yield [line["line"] for line in lines], last["heard"], code


@pytest.mark.parametrize(
    ("agents", "lines", "kills"), [(4, 3000, 10), pytest.param(10, 30_000, 150, marks=pytest.mark.long)]
)
async def test_killed_gateways_lose_and_repeat_nothing(
    agents: int, lines: int, kills: int, data: Path, rng: random.Random
) -> None:
    for _ in range(kills):
        if await run_gateway(data, agents, lines, rng.uniform(*MOMENTS)):
            break
    else:
        await run_gateway(data, agents, lines, None)
    for agent, (numbers, heard, code) in enumerate(stored(data, agents)):
        assert numbers == list(range(lines))
        assert heard == [f"answer-{number}" for number in range(0, lines, ANSWERED)]
        assert code == agent
    assert len(keepers(data)) == 1
    assert "Traceback" not in (data / "keeper.log").read_text()
