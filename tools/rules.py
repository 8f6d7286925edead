"""Counts the seeds' rules: which are shown by passing tests, which are left out and why, which are still open.

Reads the lists (tests/rules/NNN-name.md), the rules left out (tests/rules/left-out.toml) and the record of the last
test run (written by tools/pytest_plugins.py), and for tests that run in the long form alone the record of the last
long run (tests/long-result.json). A rule counts as shown when at least one test that names it passed
and none failed. Exits 1 when a test or the left-out list names a rule that no list has. Standard library only.
"""

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "tests" / "rules"
LEFT_OUT = LISTS / "left-out.toml"
RESULTS = ROOT / "build" / "rules.json"
LONG = ROOT / "tests" / "long-result.json"

ROW = re.compile(r"^\| (S(\d{3})-\d{3}) \| (.*?) \| [^|]* \| [^|]* \|$")


class RuleError(Exception):
    """Lists, markers and left-out reasons do not match; the text says where."""


@dataclass(frozen=True)
class Seed:
    """One seed's list: its number, its name, and each rule's text by id, in the list's order."""

    number: str
    name: str
    rules: Mapping[str, str]


@dataclass(frozen=True)
class Outcome:
    """How a test that names rules ended."""

    rules: tuple[str, ...]
    passed: bool


@dataclass(frozen=True)
class Count:
    """One seed's rules, each in exactly one of the four groups."""

    seed: Seed
    shown: tuple[str, ...]
    failing: tuple[str, ...]
    left_out: tuple[str, ...]
    open: tuple[str, ...]


def read_seed(path: Path) -> Seed:
    number, _, name = path.stem.partition("-")
    rules: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("| S"):
            continue
        row = ROW.match(line)
        if row is None or row[2] != number or row[1] in rules:
            raise RuleError(f"{path.name}: not a rule of its own of seed {number}: {line[:60]}")
        rules[row[1]] = row[3]
    return Seed(number, name, rules)


def read_seeds(folder: Path = LISTS) -> tuple[Seed, ...]:
    return tuple(read_seed(path) for path in sorted(folder.glob("[0-9][0-9][0-9]-*.md")))


def known_rules(folder: Path = LISTS) -> frozenset[str]:
    return frozenset(rule for seed in read_seeds(folder) for rule in seed.rules)


def read_left_out(path: Path = LEFT_OUT) -> dict[str, str]:
    """Reason by rule; a reason must be a sentence, or leaving out would be too cheap."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))
    for rule, reason in entries.items():
        if not isinstance(reason, str) or len(reason.split()) < 4:
            raise RuleError(f"{path.name}: {rule} needs a reason in words")
    return entries


def read_outcomes(path: Path = RESULTS) -> dict[str, Outcome]:
    """The outcomes of the last run, by test id."""
    return _outcomes(json.loads(path.read_text(encoding="utf-8")))


def read_long(path: Path = LONG) -> dict[str, Outcome]:
    """The outcomes of the last long run, by test id."""
    return _outcomes(json.loads(path.read_text(encoding="utf-8")).get("rules", {})) if path.exists() else {}


def _outcomes(recorded: Mapping[str, Any]) -> dict[str, Outcome]:
    return {test: Outcome(tuple(entry["rules"]), entry["passed"]) for test, entry in recorded.items()}


def check_ids(known: Iterable[str], outcomes: Mapping[str, Outcome], left_out: Mapping[str, str]) -> None:
    known = frozenset(known)
    wrong = [f"{LEFT_OUT.name} names {rule}" for rule in left_out if rule not in known]
    wrong += [
        f"{test} names {rule}" for test, outcome in outcomes.items() for rule in outcome.rules if rule not in known
    ]
    if wrong:
        raise RuleError("rules that no list has:\n  " + "\n  ".join(wrong))


def count(seed: Seed, outcomes: Mapping[str, Outcome], left_out: Mapping[str, str]) -> Count:
    passed = {rule for outcome in outcomes.values() if outcome.passed for rule in outcome.rules}
    failed = {rule for outcome in outcomes.values() if not outcome.passed for rule in outcome.rules}
    groups: dict[str, list[str]] = {"shown": [], "failing": [], "left_out": [], "open": []}
    for rule in seed.rules:
        if rule in failed:
            groups["failing"].append(rule)
        elif rule in passed:
            groups["shown"].append(rule)
        elif rule in left_out:
            groups["left_out"].append(rule)
        else:
            groups["open"].append(rule)
    return Count(seed, **{group: tuple(rules) for group, rules in groups.items()})


def compact(rules: Iterable[str]) -> str:
    """Ids of one seed as numbers and ranges: `001-004 007`."""
    runs: list[list[int]] = []
    for number in sorted(int(rule.partition("-")[2]) for rule in rules):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return " ".join(f"{a:03}" if a == b else f"{a:03}-{b:03}" for a, b in runs)


def report(counts: Iterable[Count], left_out: Mapping[str, str], verbose: bool = False) -> str:
    lines: list[str] = []
    for each in counts:
        total = len(each.seed.rules)
        lines.append(
            f"seed {each.seed.number} {each.seed.name}: {total} rules, {len(each.shown)} shown, "
            f"{len(each.failing)} failing, {len(each.left_out)} left out, {len(each.open)} not yet shown"
        )
        lines += [f"  left out {rule}: {left_out[rule]}" for rule in each.left_out]
        for title, rules in (("failing", each.failing), ("not yet shown", each.open)):
            if verbose:
                lines += [f"  {title} {rule}: {each.seed.rules[rule]}" for rule in rules]
            elif rules:
                lines.append(f"  {title}: {compact(rules)}")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Which rules of the seeds the last test run showed.")
    parser.add_argument("--verbose", action="store_true", help="print the text of every rule not shown")
    options = parser.parse_args(argv)
    if not RESULTS.exists():
        print("no test results yet: run `make test` first")
        return 1
    try:
        seeds, left_out, outcomes = read_seeds(), read_left_out(), {**read_long(), **read_outcomes()}
        check_ids((rule for seed in seeds for rule in seed.rules), outcomes, left_out)
    except RuleError as error:
        print(f"rules: {error}")
        return 1
    print(report([count(seed, outcomes, left_out) for seed in seeds], left_out, options.verbose))
    return 0


if __name__ == "__main__":
    sys.exit(main())
