"""A core for each test, stopped after it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sessions.harness import CoreHarness


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[CoreHarness]:
    made = await CoreHarness(tmp_path).start()
    yield made
    await made.stop()
