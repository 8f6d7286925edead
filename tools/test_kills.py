"""`make test-kills`: the gateway is killed ten thousand times at random moments of streaming turns, tools, questions
and open permissions, and no turn and no client is changed by it.

Nine starts in ten are forks of a program that has imported the gateway, one executes `fairlead serve`. The runs of the
last series are stored in tests/kill-result.json, each with its commit. A failure ends a series, and its data stays.
"""

import argparse
import asyncio
import contextlib
import datetime
import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tools.test import ROOT, restore_sigint
from tools.test_long import git

sys.path.insert(0, str(ROOT / "tests"))

from faults.kill_series import KillSeries

RESULT = ROOT / "tests" / "kill-result.json"
KILLS = 10_000
SIDE_BY_SIDE = 4


class Run:
    """One run of a series, stored after each trial: an interrupted run counts too."""

    def __init__(self, earlier: list[dict[str, Any]], goal: int, result: Path) -> None:
        self._earlier = earlier
        self._goal = goal
        self._result = result
        self._begun = time.monotonic()
        self._commit = git("rev-parse", "HEAD") + (
            "-dirty" if git("status", "--porcelain", "--untracked-files=no") else ""
        )
        self._folder = Path(tempfile.mkdtemp(prefix="fairlead-kills-"))
        self.series = KillSeries(self._folder, random.SystemRandom().randrange(2**32), report=self._store)

    def perform(self, side_by_side: int) -> int:
        """Return how many kills of the whole series changed nothing."""
        done: int = sum(run["kills"] for run in self._earlier)
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(self.series.run(self._goal - done, side_by_side=side_by_side))
        if self.series.failure:
            self._store()
            print(f"{self.series.failure}\nthe data is in {self._folder}", file=sys.stderr)
        else:
            shutil.rmtree(self._folder)
        return done + self.series.kills

    def _store(self) -> None:
        run = {
            "commit": self._commit,
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "seed": self.series.seed,
            "kills": self.series.kills,
            "turns": self.series.turns,
            "trials": self.series.trials,
            "seconds": round(time.monotonic() - self._begun),
            "passed": not self.series.failure,
        }
        runs = [*self._earlier, run]
        total = sum(each["kills"] for each in runs)
        kept = {"kills": total, "result": _verdict(runs, total, self._goal), "runs": runs}
        self._result.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
        print(f"{total} of {self._goal} kills, {run['turns']} turns, {run['seconds']} s", flush=True)


def _verdict(runs: list[dict[str, Any]], total: int, goal: int) -> str:
    if not all(run["passed"] for run in runs):
        return "failed"
    return "passed" if total >= goal else "interrupted"


def earlier_runs(result: Path) -> list[dict[str, Any]]:
    """The stored runs, if all of them are green: a failure ends a series."""
    kept: list[dict[str, Any]] = json.loads(result.read_text("utf-8"))["runs"] if result.exists() else []
    return kept if all(run["passed"] for run in kept) else []


def main(argv: list[str] | None = None, result: Path = RESULT) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=KILLS, help=f"how many ({KILLS})")
    parser.add_argument("--side-by-side", type=int, default=SIDE_BY_SIDE, help=f"gateways at once ({SIDE_BY_SIDE})")
    parser.add_argument(
        "--continue", action="store_true", dest="goes_on", help="count the kills of an interrupted series"
    )
    options = parser.parse_args(argv)
    restore_sigint()
    run = Run(earlier_runs(result) if options.goes_on else [], options.kills, result)
    green = run.perform(options.side_by_side)
    print(f"kills: {green} of {options.kills} changed nothing; kept in {result.name}")
    return 0 if green >= options.kills and not run.series.failure else 1


if __name__ == "__main__":
    sys.exit(main())
