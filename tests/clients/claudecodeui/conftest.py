"""A gateway for each test: one on a core harness that serves the chat, or a complete one with a signed-in user."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from argon2 import profiles

from clients.claudecodeui.chat_harness import ChatHarness, open_chat
from clients.claudecodeui.signed_gateway import SignedGateway, signed_gateway
from fairlead.auth import passwords


@pytest.fixture
async def chats(tmp_path: Path) -> AsyncIterator[ChatHarness]:
    async with open_chat(tmp_path) as made:
        yield made


@pytest.fixture
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cheap password hashes: these tests do not test the cost of hashing."""
    monkeypatch.setattr(passwords, "PARAMETERS", profiles.CHEAPEST)


@pytest.fixture
async def signed(tmp_path: Path, cheap_passwords: None) -> AsyncIterator[SignedGateway]:
    async with signed_gateway(tmp_path) as made:
        yield made
