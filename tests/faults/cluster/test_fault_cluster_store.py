"""Nodes and NATS servers are killed and frozen under load: nothing acknowledged is lost, doubled or out of order, and
every request is decided once."""

import random
from pathlib import Path

import pytest

from faults.cluster.checker import FAULTS, check
from faults.cluster.nemesis import Nemesis

pytestmark = pytest.mark.fault

SECONDS = 40


async def test_nothing_acknowledged_is_lost(tmp_path: Path, rng: random.Random) -> None:
    nemesis = Nemesis(tmp_path, rng, sessions=4, seconds=SECONDS)
    try:
        nemesis.start()
        nemesis.run()
        nemesis.end()
        found = await check(tmp_path, nemesis.address, nemesis.sessions)
    finally:
        nemesis.close()
    print(nemesis.counts, found)
    assert {name: found[name] for name in FAULTS} == dict.fromkeys(FAULTS, 0), found
    assert found["acked"] > 50
    assert sum(nemesis.counts.values()) > 0
