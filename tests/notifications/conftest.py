"""A notification service for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from notifications.harness import NotificationsHarness, open_harness


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[NotificationsHarness]:
    async with open_harness(tmp_path) as made:
        yield made
