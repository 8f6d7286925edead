"""Data folders whose keepers, and the connections to them, end with the test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from keeper.running import close_connections, end_keepers


@pytest.fixture
async def data(tmp_path: Path) -> AsyncIterator[Path]:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    yield folder
    await close_connections()
    end_keepers(folder)
