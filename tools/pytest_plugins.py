"""The pytest plugins of this project: skips that fail where every test must run, the count of shown rules, and orders
of tests.

tests/conftest.py registers them; they live here so that tests can run them on separate test suites.
"""

import fcntl
import json
import os
import random
import sys
from collections.abc import Collection, Generator
from pathlib import Path
from typing import Any

import pytest

from tools import shards


def skips_fail() -> bool:
    """Whether a skip fails the run: in CI and with FAIRLEAD_NO_SKIP=1 it means that something was not tested."""
    return os.environ.get("CI") == "true" or os.environ.get("FAIRLEAD_NO_SKIP") == "1"


class NoSkips:
    """Fails the session when a test was skipped (or expected to fail), naming each with its reason."""

    def __init__(self) -> None:
        self.skipped: dict[str, str] = {}

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else "expected to fail"
            self.skipped[report.nodeid] = reason

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker process of pytest-xdist ended; only here does it report modules that were skipped as a whole."""
        self.skipped.update(getattr(node, "workeroutput", {}).get("skipped", {}))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output["skipped"] = self.skipped
        if self.skipped and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.skipped:
            return
        terminalreporter.section("skipped, which is a failure here", red=True)
        for test, reason in self.skipped.items():
            terminalreporter.write_line(f"SKIP IS FAILURE {test}: {reason}")


class RuleResults:
    """Records how each test that names rules ended, merged into one file over the parts of a test run.

    A test that names a rule which is on no list fails, so that a typo is seen where it was made.
    """

    def __init__(self, path: Path, known: Collection[str]) -> None:
        self.path = path
        self.known = known
        self.named: dict[str, list[str]] = {}
        self.passed: dict[str, bool] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        rules = sorted({rule for mark in item.iter_markers("rules") for rule in mark.args})
        if rules:
            self.named[item.nodeid] = rules
        unknown = [rule for rule in rules if rule not in self.known]
        if unknown:
            pytest.fail(f"no list in tests/rules has {', '.join(unknown)}", pytrace=False)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.nodeid in self.named:
            self.passed[report.nodeid] = self.passed.get(report.nodeid, True) and report.passed

    def pytest_sessionfinish(self) -> None:
        if not self.named:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            merged = json.loads(self.path.read_text()) if self.path.exists() else {}
            for test, rules in self.named.items():
                merged[test] = {"rules": rules, "passed": self.passed.get(test, False)}
            fresh = self.path.with_suffix(".new")
            fresh.write_text(json.dumps(merged, indent=1, sort_keys=True))
            fresh.replace(self.path)


class Shard:
    """Reads only the files of one shard of a part, and measures how long each takes (tools/shards.py)."""

    def __init__(self, part: str, number: int, count: int, files: Collection[str], root: Path) -> None:
        self._part = part
        self._root = root
        stored = shards.read(shards.STORED).get(part, {})
        self._files = {file for file, shard in shards.divide(files, stored, count).items() if shard == number}
        self._seconds: dict[str, float] = {}

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
            return None
        return None if str(collection_path.relative_to(self._root)) in self._files else True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        self._seconds[file] = self._seconds.get(file, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        shards.note(self._part, self._seconds)


class RandomOrder:
    """Shuffles the files, and the tests inside each file, by the run's seed.

    The tests of one file stay together, because they share fixtures that are expensive to make.
    """

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        files: dict[Path, list[pytest.Item]] = {}
        for item in items:
            files.setdefault(item.path, []).append(item)
        groups = list(files.values())
        self._rng.shuffle(groups)
        for group in groups:
            self._rng.shuffle(group)
        items[:] = [item for group in groups for item in group]


class SlowFirst:
    """Moves the tests with the mark `slow` to the front, so that at the end no worker is left with one of them alone.

    A worker of pytest-xdist gets its first two tests at once: each slow test is followed by a quick one.
    """

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        slow = [item for item in items if item.get_closest_marker("slow")]
        quick = [item for item in items if not item.get_closest_marker("slow")]
        pairs = [item for pair in zip(slow, quick, strict=False) for item in pair]
        items[:] = [*pairs, *slow[len(quick) :], *quick[len(slow) :]]


class ProcessGuard:
    """Fails a unit test that starts a process without the mark `process`, so that the unit part stays quick.

    Tests that wait for processes are a separate part: more of them can run at once than there are cores.
    """

    STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"})
    MARKS = ("process", "fault", "long", "cli")

    def __init__(self, elsewhere: Collection[Path]) -> None:
        self._elsewhere = tuple(elsewhere)
        self._started: str | None = None
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in self.STARTS and self._started is None:
            self._started = f"{event}: {arguments[0] if arguments else ''}"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._started = None
        return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        if self._started is None or any(folder in item.path.parents for folder in self._elsewhere):
            return
        if not any(item.get_closest_marker(mark) for mark in self.MARKS):
            pytest.fail(f"it starts a process ({self._started}): mark it with @pytest.mark.process", pytrace=False)
