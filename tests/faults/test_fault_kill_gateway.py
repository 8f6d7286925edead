"""kill -9 of the gateway at random moments of streaming turns: no event that was sent is lost or duplicated.

`make test-kills` does the same ten thousand times (tools/test_kills.py).
"""

import random
from pathlib import Path

import pytest

from faults.gateway_process import GatewayProcess
from faults.kill_series import KillSeries
from faults.kill_trial import RULES, Trial

# Long tests: on a busy machine they may take minutes.
pytestmark = pytest.mark.fault


@pytest.mark.slow
async def test_a_gateway_killed_fifty_times_changes_no_turn(tmp_path: Path, rng: random.Random) -> None:
    series = KillSeries(tmp_path, rng.getrandbits(32))
    await series.run(50, side_by_side=2)
    assert (series.kills, series.failure) == (50, "")


@pytest.mark.timeout(0)
@pytest.mark.long
async def test_a_gateway_killed_a_thousand_times_changes_no_turn(tmp_path: Path, rng: random.Random) -> None:
    series = KillSeries(tmp_path, rng.getrandbits(32))
    await series.run(1000, side_by_side=2)
    assert (series.kills, series.failure) == (1000, "")


async def kill_without_a_keeper(folder: Path, rng: random.Random, times: int) -> None:
    async with GatewayProcess(folder, allow=RULES, keeper=False) as gateway:
        for _ in range(times // 10):
            await Trial(gateway, await gateway.create(), rng).kills(10)


@pytest.mark.slow
async def test_a_gateway_without_a_keeper_killed_ten_times_loses_nothing(tmp_path: Path, rng: random.Random) -> None:
    await kill_without_a_keeper(tmp_path, rng, 10)


@pytest.mark.timeout(0)
@pytest.mark.long
async def test_a_gateway_without_a_keeper_killed_a_thousand_times_loses_nothing(
    tmp_path: Path, rng: random.Random
) -> None:
    await kill_without_a_keeper(tmp_path, rng, 1000)
