"""Files that one can read at a sitting, and folders in which one finds them."""

from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "src" / "fairlead"
MODULES = sorted(PACKAGE.rglob("*.py"))
SMALL_ROOMS = ("model", "sessions", "terminals", "agents/claude")


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_no_file_is_longer_than_400_lines() -> None:
    assert {str(path.relative_to(ROOT)): lines(path) for path in MODULES if lines(path) > 400} == {}


def test_no_file_of_the_wiring_is_longer_than_250_lines() -> None:
    assert {path.name: lines(path) for path in (PACKAGE / "wiring").glob("*.py") if lines(path) > 250} == {}


def test_no_folder_has_more_than_24_modules() -> None:
    folders = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    assert {str(folder): count for folder, count in folders.items() if count > 24} == {}


@pytest.mark.parametrize("room", SMALL_ROOMS)
def test_the_largest_rooms_have_packages_of_at_most_16_modules(room: str) -> None:
    inside = [path for path in MODULES if PACKAGE / room in path.parents and path.name != "__init__.py"]
    folders = Counter(path.parent for path in inside)
    assert {str(folder): count for folder, count in folders.items() if count > 16} == {}
