"""Passwords are hashed cheaply here: what is tested is not how slow it is."""

import pytest
from argon2 import profiles

from fairlead.auth import passwords


@pytest.fixture(autouse=True)
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "PARAMETERS", profiles.CHEAPEST)
