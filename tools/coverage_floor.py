"""Checks the coverage floor of the core packages: the unit part takes at least 95 % of the branches of each.

Reads the data that `coverage run` left in build/coverage, combines it, prints one line per package and the worst
files of a package that is below. A package that is not written yet is reported as empty and passes.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "build" / "coverage"
FLOOR = 95.0
PACKAGES = ("model", "sessions", "agents/claude", "stores")


@dataclass(frozen=True)
class FileCover:
    """One file's branches (the two ways out of each decision) and lines, in total and taken."""

    path: str
    branches: int
    taken: int
    lines: int
    run: int
    missing: tuple[str, ...]


@dataclass(frozen=True)
class PackageCover:
    """A package is the sum of its files; without a single branch its percentage is that of its lines."""

    package: str
    files: tuple[FileCover, ...]

    @property
    def percent(self) -> float:
        branches, taken = sum(f.branches for f in self.files), sum(f.taken for f in self.files)
        if branches:
            return 100 * taken / branches
        lines, run = sum(f.lines for f in self.files), sum(f.run for f in self.files)
        return 100 * run / lines if lines else 100.0

    @property
    def holds(self) -> bool:
        return self.percent >= FLOOR


def read_files(report: Mapping[str, Any]) -> list[FileCover]:
    """The files of a `coverage json` report."""
    return [
        FileCover(
            path,
            branches=entry["summary"]["num_branches"],
            taken=entry["summary"]["covered_branches"],
            lines=entry["summary"]["num_statements"],
            run=entry["summary"]["covered_lines"],
            missing=tuple(f"{a}->{b}" for a, b in entry["missing_branches"]),
        )
        for path, entry in report["files"].items()
    ]


def by_package(files: Iterable[FileCover], packages: Iterable[str] = PACKAGES) -> list[PackageCover]:
    files = list(files)
    return [PackageCover(r, tuple(f for f in files if f.path.startswith(f"src/fairlead/{r}/"))) for r in packages]


def describe(package: PackageCover) -> list[str]:
    if not any(f.lines for f in package.files):
        return [f"  {package.package:<16} empty"]
    lines = [f"  {package.package:<16} {package.percent:6.1f} %  {'ok' if package.holds else f'BELOW {FLOOR:.0f} %'}"]
    if not package.holds:
        worst = sorted(package.files, key=lambda f: f.taken - f.branches)[:8]
        lines += [
            f"      {f.path}: {f.branches - f.taken} of {f.branches} branches not taken: {' '.join(f.missing[:12])}"
            for f in worst
            if f.branches > f.taken
        ]
    return lines


def measure() -> Mapping[str, Any]:
    """Combine the data that the processes left and let coverage count it."""
    coverage = [sys.executable, "-m", "coverage"]
    data = f"--data-file={DATA / 'data'}"
    report = DATA / "report.json"
    steps = [[*coverage, "json", "--quiet", data, "-o", str(report)]]
    if list(DATA.glob("data.*")):
        steps.insert(0, [*coverage, "combine", "--quiet", data])
    for argv in steps:
        if subprocess.run(argv, cwd=ROOT, check=False).returncode:
            sys.exit(f"coverage: `coverage {argv[3]}` failed, its own words are above")
    counted: Mapping[str, Any] = json.loads(report.read_text())
    return counted


def main() -> int:
    if not list(DATA.glob("data*")):
        print("coverage: nothing was measured yet: run `make coverage`")
        return 1
    packages = by_package(read_files(measure()))
    print(f"coverage of branches, floor {FLOOR:.0f} %:")
    print("\n".join(line for package in packages for line in describe(package)))
    return 0 if all(package.holds for package in packages) else 1


if __name__ == "__main__":
    sys.exit(main())
