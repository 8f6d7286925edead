"""The coverage floor of the core packages: counted by branches; a package below it is listed with its worst files."""

from typing import Any

import pytest

from tools import coverage_floor
from tools.coverage_floor import FileCover, PackageCover, by_package, describe, read_files


def file(path: str, branches: int, taken: int, *, lines: int = 10, run: int = 10) -> FileCover:
    return FileCover(path, branches, taken, lines, run, tuple(f"{n}->9" for n in range(branches - taken)))


def entry(branches: int, taken: int) -> dict[str, Any]:
    summary = {
        "num_branches": branches,
        "covered_branches": taken,
        "num_statements": 4,
        "covered_lines": 4,
    }
    return {"summary": summary, "missing_branches": [[1, 2]] * (branches - taken)}


def test_a_package_is_the_sum_of_its_files() -> None:
    report = {
        "files": {
            "src/fairlead/model/a.py": entry(10, 10),
            "src/fairlead/model/sub/b.py": entry(10, 8),
            "src/fairlead/models.py": entry(10, 0),
        }
    }
    [package] = by_package(read_files(report), ["model"])
    assert package.percent == 90.0
    assert not package.holds


@pytest.mark.parametrize(("taken", "holds"), [(95, True), (94, False), (100, True)])
def test_the_floor_is_95_per_cent_of_branches(taken: int, holds: bool) -> None:
    assert PackageCover("model", (file("src/fairlead/model/a.py", 100, taken),)).holds is holds


def test_a_package_without_branches_counts_its_lines() -> None:
    assert PackageCover("model", (file("a", 0, 0, lines=10, run=10),)).holds
    assert not PackageCover("model", (file("a", 0, 0, lines=10, run=5),)).holds


def test_an_empty_package_is_reported_as_empty() -> None:
    [package] = by_package([], ["stores"])
    assert package.holds
    assert describe(package)[0].split() == ["stores", "empty"]


def test_below_the_floor_the_worst_file_comes_first() -> None:
    package = PackageCover("model", (file("good.py", 10, 10), file("poor.py", 10, 9), file("worst.py", 10, 2)))
    lines = describe(package)
    assert "BELOW 95 %" in lines[0]
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["worst.py", "poor.py"]


def test_the_floor_covers_the_packages_that_the_guarantees_depend_on() -> None:
    assert set(coverage_floor.PACKAGES) == {"model", "sessions", "agents/claude", "stores"}
