"""A gateway for each test that serves MyLifeDB, stopped after it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clients.mylifedb.harness import MyLifeDbGateway, open_gateway


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[MyLifeDbGateway]:
    async with open_gateway(tmp_path) as made:
        yield made
