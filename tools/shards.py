"""Divides the test files of a part among pytest processes that run at the same time, by measured durations.

Every process reads only its own files; the workers of pytest-xdist would each read all of them, and report each test to
a process that prints it. tests/durations.json has the seconds of each file. Every run of a part with shards measures
them again into build/durations.json; `python -m tools.shards` stores those. Standard library only.
"""

import fcntl
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STORED = ROOT / "tests" / "durations.json"
MEASURED = ROOT / "build" / "durations.json"

Durations = dict[str, dict[str, float]]
"""Seconds of each file, by part."""


def divide(files: Iterable[str], seconds: Mapping[str, float], count: int) -> dict[str, int]:
    """Give each file the number of its shard, from 1. Pure: the same files and durations give the same shards.

    The longest file goes first, each to the shard that has least so far. A new file counts as a usual one."""
    usual = statistics.median(seconds.values()) if seconds else 1.0
    weights = {file: seconds.get(file, usual) for file in files}
    loads = [0.0] * count
    found = {}
    for file in sorted(weights, key=lambda name: (-weights[name], name)):
        lightest = loads.index(min(loads))
        # A file without a measurable duration still has to be read.
        loads[lightest] += weights[file] + 0.01
        found[file] = lightest + 1
    return found


def read(path: Path) -> Durations:
    durations: Durations = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return durations


def note(part: str, seconds: Mapping[str, float], path: Path = MEASURED) -> None:
    """Merge what one process measured into the file, which others write at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = read(path)
        known.setdefault(part, {}).update(seconds)
        path.write_text(json.dumps(known), "utf-8")


def store(measured: Path = MEASURED, stored: Path = STORED) -> Durations:
    """Store the measured durations; parts that were not measured keep theirs, files that are gone are dropped."""
    merged: Durations = defaultdict(dict)
    for part, files in (read(stored) | read(measured)).items():
        for file, seconds in sorted(files.items()):
            if (ROOT / file).exists():
                merged[part][file] = round(seconds, 1)
    stored.write_text(json.dumps(merged, indent=1) + "\n", "utf-8")
    return merged


if __name__ == "__main__":
    if not MEASURED.exists():
        sys.exit("shards: nothing was measured: run make test first")
    for name, files in store().items():
        print(f"shards: {name}: {len(files)} files, {sum(files.values()):.0f} s")
