"""A gateway with the demo agent, in the loop of the test."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fairlead.config import Config
from fairlead.wiring import GatewayInfo, running


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
async def gateway(tmp_path: Path, project: Path) -> AsyncIterator[GatewayInfo]:
    homes = (str(project / ".claude"),)
    config = Config(port=0, data=str(tmp_path / "data"), agent="demo", roots=(str(project),), claude_homes=homes)
    env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    async with running(config, env) as info:
        yield info
