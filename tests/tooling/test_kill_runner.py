"""`make test-kills`: every trial is stored, an interrupted series goes on, a failure ends it."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools import test_kills


class Series:
    """A series of trials of ten kills. `limit`: after so many kills it is interrupted, or fails."""

    limit = 1000
    failing = ""
    wanted = 0

    def __init__(self, folder: Path, seed: int, report: Callable[[], None]) -> None:
        self.seed = seed
        self.kills = self.turns = self.trials = 0
        self.failure = ""
        self._report = report

    async def run(self, kills: int, *, side_by_side: int) -> None:
        Series.wanted = kills
        while self.kills < min(kills, self.limit):
            self.kills += 10
            self.turns += 20
            self.trials += 1
            self._report()
        if self.kills < kills:
            if not self.failing:
                raise KeyboardInterrupt
            self.failure = self.failing


def run(
    kept: Path, monkeypatch: pytest.MonkeyPatch, *options: str, limit: int = 1000, failing: str = ""
) -> tuple[int, Any]:
    monkeypatch.setattr(test_kills, "KillSeries", Series)
    monkeypatch.setattr(test_kills, "git", lambda *words: "" if words[0] == "status" else "abc")
    monkeypatch.setattr(tempfile, "tempdir", str(kept.parent))
    Series.limit, Series.failing = limit, failing
    code = test_kills.main(["--kills", "100", *options], kept)
    return code, json.loads(kept.read_text())


def test_a_whole_series_is_stored_with_its_commit_and_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, kept = run(tmp_path / "result.json", monkeypatch)
    assert (code, kept["kills"], kept["result"]) == (0, 100, "passed")
    (one,) = kept["runs"]
    assert (one["commit"], one["kills"], one["turns"], one["trials"], one["passed"]) == ("abc", 100, 200, 10, True)
    assert {"date", "seed", "seconds"} < one.keys()


def test_an_interrupted_series_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_in = tmp_path / "result.json"
    code, kept = run(kept_in, monkeypatch, limit=30)
    assert (code, kept["kills"], kept["result"]) == (1, 30, "interrupted")
    code, kept = run(kept_in, monkeypatch, "--continue")
    assert Series.wanted == 70
    assert (code, kept["kills"], kept["result"], len(kept["runs"])) == (0, 100, "passed", 2)


def test_a_failure_ends_a_series(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept_in = tmp_path / "result.json"
    code, kept = run(kept_in, monkeypatch, limit=30, failing="an event was lost")
    assert (code, kept["result"]) == (1, "failed")
    assert "an event was lost" in capsys.readouterr().err
    code, kept = run(kept_in, monkeypatch, "--continue")
    assert Series.wanted == 100, "its kills do not count"
    assert (code, len(kept["runs"])) == (0, 1)
