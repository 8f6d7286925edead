"""A gateway for each test that serves Cognova's chat, stopped after it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clients.cognova.chat_harness import ChatHarness, open_chat


@pytest.fixture
async def chats(tmp_path: Path) -> AsyncIterator[ChatHarness]:
    async with open_chat(tmp_path) as made:
        yield made
