"""A gateway on a core harness that serves ACP, for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clients.acp.acp_harness import AcpHarness, open_acp


@pytest.fixture
async def acp(tmp_path: Path) -> AsyncIterator[AcpHarness]:
    async with open_acp(tmp_path) as made:
        yield made
