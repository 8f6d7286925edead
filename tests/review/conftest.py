"""A project with a review service on it."""

from pathlib import Path

import pytest

from review.repositories import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
