"""A gateway for each test with AHP clients, stopped after it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clients.ahp.harness import AhpGateway, ahp_gateway


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[AhpGateway]:
    async with ahp_gateway(tmp_path) as made:
        yield made
