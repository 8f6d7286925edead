"""A notification service for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from notifications.harness import NotificationsHarness, rigged


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[NotificationsHarness]:
    async with rigged(tmp_path) as made:
        yield made
