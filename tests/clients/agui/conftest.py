"""A gateway with the demo agent."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clients.agui.harness import AgUiGateway, open_gateway


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[AgUiGateway]:
    async with open_gateway(tmp_path) as made:
        yield made
