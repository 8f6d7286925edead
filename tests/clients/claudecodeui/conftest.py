"""Gateways for one test each: on a rig that serves the chat, or whole, with somebody who has signed in."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from argon2 import profiles

from clients.claudecodeui.chat_harness import ChatHarness, chat_house
from clients.claudecodeui.signed_gateway import SignedGateway, signed_gateway
from fairlead.auth import passwords


@pytest.fixture
async def chats(tmp_path: Path) -> AsyncIterator[ChatHarness]:
    async with chat_house(tmp_path) as made:
        yield made


@pytest.fixture
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tested is not how slow they are."""
    monkeypatch.setattr(passwords, "PARAMETERS", profiles.CHEAPEST)


@pytest.fixture
async def signed(tmp_path: Path, cheap_passwords: None) -> AsyncIterator[SignedGateway]:
    async with signed_gateway(tmp_path) as made:
        yield made
