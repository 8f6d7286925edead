"""A gateway for each test that serves the chat, stopped after it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clients.claudecodeui.ccui_chatting import ChatHouse, chat_house


@pytest.fixture
async def chats(tmp_path: Path) -> AsyncIterator[ChatHouse]:
    async with chat_house(tmp_path) as made:
        yield made
