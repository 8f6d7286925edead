"""A gateway with the demo agent, in the loop of the test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from demo_gateway import demo_gateway
from fairlead.wiring import GatewayInfo


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
async def gateway(tmp_path: Path, project: Path) -> AsyncIterator[GatewayInfo]:
    async with demo_gateway(tmp_path / "data", project) as info:
        yield info
