"""A gateway for each test that serves MyLifeDB, stopped after it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clients.mylifedb.harness import MyLifeDbGateway, open_house


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[MyLifeDbGateway]:
    async with open_house(tmp_path) as made:
        yield made
