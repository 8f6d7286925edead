"""`make test-stress`: busy processes during the tests, a seed for each run, a stored result."""

import json
import sys
from pathlib import Path

import pytest

from tools import test_stress
from tools.test import PARTS, Part

pytestmark = pytest.mark.process


def python(source: str) -> tuple[str, ...]:
    return (sys.executable, "-c", source)


def test_its_parts_exist() -> None:
    assert set(test_stress.STRESSED) < {part.name for part in PARTS}


@pytest.mark.parametrize(("code", "result"), [(0, True), (3, False)])
def test_every_run_is_kept_with_its_seed_and_verdict(
    code: int, result: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sees = "import os, sys; sys.exit(int(os.environ['FAIRLEAD_SEED']) < 0 or sys.argv[1] != '--random-order' or {})"
    monkeypatch.setattr(test_stress, "PARTS", (Part("unit", "unit", 1, (python(sees.format(code)),)),))
    monkeypatch.setenv("FAIRLEAD_SEED", "")
    monkeypatch.setenv("PYTEST_RUN_DAY", "")
    kept = tmp_path / "result.json"
    assert test_stress.main(["--runs", "2", "unit"], kept) == (0 if result else 1)
    runs = json.loads(kept.read_text())["runs"]
    assert [run["passed"] for run in runs] == [result, result]
    assert runs[0]["seed"] != runs[1]["seed"]


def test_each_run_counts_as_another_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    days = tmp_path / "days"
    notes = f"import os; open({str(days)!r}, 'a').write(os.environ['PYTEST_RUN_DAY'] + ' ')"
    monkeypatch.setattr(test_stress, "PARTS", (Part("cli", "cli", 1, (python(notes),)),))
    monkeypatch.setenv("FAIRLEAD_SEED", "")
    monkeypatch.setenv("PYTEST_RUN_DAY", "")
    assert test_stress.main(["--runs", "2", "cli"], tmp_path / "result.json") == 0
    first, second = map(int, days.read_text().split())
    assert second == first + 1


@pytest.mark.parametrize(("code", "commits"), [(0, ["earlier", "now"]), (3, ["now", "now"])])
def test_an_interrupted_series_goes_on_unless_a_run_has_failed(
    code: int, commits: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_SEED", "")
    monkeypatch.setenv("PYTEST_RUN_DAY", "")
    kept = tmp_path / "result.json"
    for commit, exit_code, runs in (("earlier", code, 1), ("now", 0, 2)):
        part = Part("unit", "unit", 1, (python(f"import sys; sys.exit({exit_code})"),))
        monkeypatch.setattr(test_stress, "PARTS", (part,))
        monkeypatch.setattr(test_stress, "git", lambda *words, head=commit: head if words[0] == "rev-parse" else "")
        test_stress.main(["--runs", str(runs), "--continue", "unit"], kept)
    assert [run["commit"] for run in json.loads(kept.read_text())["runs"]] == commits


def test_the_busy_processes_run_meanwhile_and_end_with_the_block() -> None:
    def children() -> int:
        return sum(len(path.read_text().split()) for path in Path("/proc/self/task").glob("*/children"))

    before = children()
    with test_stress.busy_machine(2):
        assert children() == before + 2
    assert children() == before
