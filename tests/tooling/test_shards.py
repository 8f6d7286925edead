"""Shards: each test file in exactly one of them, and none of them much longer than the others."""

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools import shards
from tools import test as runner
from tools.pytest_plugins import Shard
from tools.test import Part

names = st.text("abc", min_size=1, max_size=4)


@given(st.sets(names), st.dictionaries(names, st.floats(0, 100)), st.integers(1, 6))
def test_every_file_has_one_shard_and_no_shard_has_much_more_than_another(
    files: set[str], seconds: dict[str, float], count: int
) -> None:
    found = shards.divide(files, seconds, count)
    assert set(found) == files and set(found.values()) <= set(range(1, count + 1))
    assert found == shards.divide(sorted(files, reverse=True), seconds, count)
    known = {file: seconds[file] for file in files if file in seconds}
    if files and len(known) == len(files):
        loads = [sum(known[file] for file in files if found[file] == shard) for shard in range(1, count + 1)]
        assert max(loads) - min(loads) <= max(known.values()) + 0.01 * len(files) + 1e-6


def test_measured_durations_are_merged_and_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "ROOT", tmp_path)
    for name in ("test_a.py", "test_b.py"):
        (tmp_path / name).touch()
    measured, stored = tmp_path / "measured.json", tmp_path / "stored.json"
    stored.write_text(json.dumps({"processes": {"test_a.py": 9.0, "test_gone.py": 1.0}, "unit": {"test_a.py": 3.0}}))
    shards.note("unit", {"test_a.py": 1.04}, measured)
    shards.note("unit", {"test_b.py": 2.0}, measured)
    shards.store(measured, stored)
    expected = {"processes": {"test_a.py": 9.0}, "unit": {"test_a.py": 1.0, "test_b.py": 2.0}}
    assert shards.read(stored) == expected


@pytest.mark.process
@pytest.mark.parametrize(("codes", "failed"), [((0, 0, 0), False), ((0, 5, 0), True)])
def test_a_part_runs_its_shards_at_the_same_time_and_fails_with_any_of_them(
    codes: tuple[int, ...],
    failed: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Each waits for a file of every other."""
    monkeypatch.setattr(runner, "BUILD", tmp_path)
    program = f"""
import pathlib, sys, time
folder, shard = pathlib.Path({str(tmp_path)!r}), sys.argv[1].removeprefix("--shard=unit:")
number, count = map(int, shard.split("/"))
(folder / str(number)).touch()
while not all((folder / str(one)).exists() for one in range(1, count + 1)):
    time.sleep(0.01)
print("shard", shard)
sys.exit({codes}[number - 1])
"""
    part = Part("unit", "unit", 1, ((sys.executable, "-c", program),), shards=3)
    assert runner.run_part(part).failed is failed
    out = capfd.readouterr().out
    assert sorted(line for line in out.splitlines() if line.startswith("shard")) == [
        "shard 1/3",
        "shard 2/3",
        "shard 3/3",
    ]


def test_each_file_is_read_by_one_shard_and_other_modules_by_all(tmp_path: Path) -> None:
    files = [f"tests/test_{letter}.py" for letter in "abcdefg"]
    plugins = [Shard("no such part", number, 3, files, tmp_path) for number in (1, 2, 3)]
    for file in files:
        assert [plugin.pytest_ignore_collect(tmp_path / file) for plugin in plugins].count(None) == 1
    for other in ("tests/conftest.py", "tests/harness.py", "tests"):
        assert [plugin.pytest_ignore_collect(tmp_path / other) for plugin in plugins] == [None] * 3
