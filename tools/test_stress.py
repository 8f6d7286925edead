"""`make test-stress`: the parts that start processes or wait, in a random order, while busy processes load the cores.

A test that depends on a quiet machine fails here. Each run has its own seed, which its summary prints. The results
of the last series are stored in tests/stress-result.json, each run with its commit. Each run counts as another day: in
sixteen of them every test of the real CLI runs on every pinned version.
"""

import argparse
import contextlib
import datetime
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.test import PARTS, ROOT, Part, restore_sigint, run_part
from tools.test_long import git

RESULT = ROOT / "tests" / "stress-result.json"
STRESSED = ("unit", "processes", "cli", "faults")
BUSY = 4
"""Twice the cores of the machine that runs CI."""


@contextlib.contextmanager
def busy_machine(processes: int = BUSY) -> Iterator[None]:
    """Processes that compute endlessly; they end with the block, and with us if we are killed."""
    # A process whose parent has died is adopted by another one: then it has nothing left to disturb.
    source = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"
    children = [subprocess.Popen([sys.executable, "-c", source]) for _ in range(processes)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


def run_stressed(part: Part, seed: int) -> dict[str, Any]:
    os.environ["FAIRLEAD_SEED"] = str(seed)
    # The random order leaves no test out, so a green run has run them all.
    result = run_part(part, more=("--random-order",))
    return {"passed": not result.failed, "seconds": round(result.seconds)}


def stress(names: list[str], number: int) -> dict[str, Any]:
    """One run of the series."""
    # Which tests the older CLIs run depends on the day (tests/e2e/harness.py).
    os.environ["PYTEST_RUN_DAY"] = str(datetime.datetime.now(datetime.UTC).toordinal() + number)
    seed = random.SystemRandom().randrange(2**32)
    with busy_machine():
        parts = {part.name: run_stressed(part, seed) for part in PARTS if part.name in names}
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seed": seed,
        "passed": all(result["passed"] for result in parts.values()),
        "parts": parts,
    }


def earlier_runs(result: Path) -> list[dict[str, Any]]:
    """The stored runs, if all of them are green: a failure ends a series."""
    kept: list[dict[str, Any]] = json.loads(result.read_text("utf-8"))["runs"] if result.exists() else []
    return kept if all(run["passed"] for run in kept) else []


def main(argv: list[str] | None = None, result: Path = RESULT) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"only these of: {' '.join(STRESSED)}")
    parser.add_argument("--runs", type=int, default=10, help="how many runs in a row (10)")
    parser.add_argument(
        "--continue", action="store_true", dest="goes_on", help="count the green runs of an interrupted series"
    )
    options = parser.parse_args(argv)
    names = options.parts or list(STRESSED)
    if unknown := set(names) - set(STRESSED):
        parser.error(f"no such part: {' '.join(sorted(unknown))} (there are {' '.join(STRESSED)})")
    commit = git("rev-parse", "HEAD") + ("-dirty" if git("status", "--porcelain", "--untracked-files=no") else "")
    restore_sigint()
    runs = earlier_runs(result) if options.goes_on else []
    for number in range(len(runs) + 1, options.runs + 1):
        print(f"\n== stress run {number} of {options.runs}", flush=True)
        runs.append({"commit": commit} | stress(names, number))
        # Written after each run: a series takes hours, and the runs so far are a result too.
        kept = {"busy processes": BUSY, "cores": os.cpu_count(), "runs": runs}
        result.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    green = sum(each["passed"] for each in runs)
    print(f"\nstress: {green} of {len(runs)} runs are green; kept in {result.name}")
    return 0 if green == len(runs) else 1


if __name__ == "__main__":
    sys.exit(main())
