"""A core for each test, stopped after it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sessions.harness import Rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = await Rig(tmp_path).start()
    yield made
    await made.stop()
