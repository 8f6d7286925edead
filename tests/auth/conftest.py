"""Credentials in memory. Passwords are hashed with cheap parameters, because the tests do not depend on the cost."""

import pytest
from argon2 import profiles

from auth.fakes import FakeTokenBytes, MemoryDocuments
from fairlead.auth import passwords
from fairlead.auth.credentials import Credentials
from fairlead_testing.clock import ManualClock


@pytest.fixture(autouse=True)
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "PARAMETERS", profiles.CHEAPEST)


@pytest.fixture
def documents() -> MemoryDocuments:
    return MemoryDocuments()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def credentials(documents: MemoryDocuments, clock: ManualClock) -> Credentials:
    made = Credentials(documents, clock, FakeTokenBytes())
    await made.load()
    return made
