"""The project's pytest plugins, run by a real pytest on small suites: skips that fail, rules that are recorded."""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tools.rules import ROOT

pytestmark = pytest.mark.process

CONFTEST = """
import pytest
from pathlib import Path
from tools.pytest_plugins import NoSkips, RuleResults, skips_fail

def pytest_configure(config):
    config.addinivalue_line("markers", "rules(*ids): named rules")
    if skips_fail():
        config.pluginmanager.register(NoSkips())
    config.pluginmanager.register(RuleResults(Path(__file__).with_name("rules.json"), {"S001-001", "S001-002"}))
"""


def run_suite(folder: Path, source: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_sample.py").write_text("import pytest\n" + source)
    (folder / "pytest.ini").write_text("[pytest]\n")
    plain = {key: value for key, value in os.environ.items() if key not in ("CI", "FAIRLEAD_NO_SKIP")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments, str(folder)],
        cwd=folder,
        env={**plain, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **env},
        capture_output=True,
        text=True,
        check=False,
    )


SKIPPING = """
def test_done(): pass

@pytest.mark.skipif(True, reason="no such tool here")
def test_left_out(): pass
"""


def test_a_skip_is_allowed_at_home(tmp_path: Path) -> None:
    done = run_suite(tmp_path, SKIPPING)
    assert done.returncode == 0, done.stdout


def test_a_skip_fails_where_no_test_may_be_skipped(tmp_path: Path) -> None:
    for env in ({"CI": "true"}, {"FAIRLEAD_NO_SKIP": "1"}):
        done = run_suite(tmp_path, SKIPPING, **env)
        assert done.returncode == 1, done.stdout
        assert "SKIP IS FAILURE test_sample.py::test_left_out: Skipped: no such tool here" in done.stdout


def test_a_module_that_skips_itself_and_an_expected_failure_fail_too(tmp_path: Path) -> None:
    done = run_suite(tmp_path, 'pytest.skip("not today", allow_module_level=True)', CI="true")
    assert done.returncode == 1, done.stdout
    assert "not today" in done.stdout
    done = run_suite(tmp_path, "@pytest.mark.xfail\ndef test_known_bad(): assert False", CI="true")
    assert done.returncode == 1, done.stdout
    assert "SKIP IS FAILURE test_sample.py::test_known_bad: expected to fail" in done.stdout


@pytest.mark.parametrize("source", [SKIPPING, 'pytest.skip("no such tool here", allow_module_level=True)'])
def test_a_skip_in_a_worker_process_fails_the_whole_run(tmp_path: Path, source: str) -> None:
    workers = ("-p", "xdist.plugin", "-n", "2")
    done = run_suite(tmp_path, source, *workers, CI="true")
    assert done.returncode == 1, done.stdout
    assert "SKIP IS FAILURE" in done.stdout
    assert "no such tool here" in done.stdout


def test_without_a_skip_nothing_changes(tmp_path: Path) -> None:
    done = run_suite(tmp_path, "def test_done(): pass", CI="true")
    assert done.returncode == 0, done.stdout
    assert "SKIP IS FAILURE" not in done.stdout


def test_outcomes_are_recorded_and_merged_over_runs(tmp_path: Path) -> None:
    run_suite(
        tmp_path,
        """
@pytest.mark.rules("S001-001")
@pytest.mark.rules("S001-002")
def test_good(): pass

@pytest.mark.rules("S001-001")
def test_bad(): assert False

@pytest.mark.rules("S001-001")
def test_late(broken): pass

@pytest.fixture
def broken():
    yield
    assert False

def test_plain(): pass
""",
    )
    recorded = json.loads((tmp_path / "rules.json").read_text())
    assert recorded == {
        "test_sample.py::test_good": {"rules": ["S001-001", "S001-002"], "passed": True},
        "test_sample.py::test_bad": {"rules": ["S001-001"], "passed": False},
        "test_sample.py::test_late": {"rules": ["S001-001"], "passed": False},
    }
    run_suite(tmp_path, '@pytest.mark.rules("S001-001")\ndef test_bad(): pass')
    merged = json.loads((tmp_path / "rules.json").read_text())
    assert merged.keys() == recorded.keys()
    assert merged["test_sample.py::test_bad"]["passed"] is True


def test_outcomes_of_worker_processes_are_all_recorded(tmp_path: Path) -> None:
    source = "".join(f'@pytest.mark.rules("S001-001")\ndef test_{number}(): pass\n' for number in range(8))
    done = run_suite(tmp_path, source, "-p", "xdist.plugin", "-n", "2")
    assert done.returncode == 0, done.stdout
    recorded = json.loads((tmp_path / "rules.json").read_text())
    assert [entry["passed"] for entry in recorded.values()] == [True] * 8


ORDER = """
from tools.pytest_plugins import RandomOrder, SlowFirst

def pytest_configure(config):
    config.addinivalue_line("markers", "slow: it takes long")
    config.pluginmanager.register({plugin})
"""


def collected(folder: Path, plugin: str, files: dict[str, str]) -> list[str]:
    """The tests of these files in the order of this plugin."""
    (folder / "conftest.py").write_text(ORDER.format(plugin=plugin))
    for name, source in files.items():
        (folder / name).write_text(source)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.parametrize(
    ("tests", "order"),
    [
        ("qqsqs", "sqsqq"),
        ("qqq", "qqq"),
        ("ssqss", "sqsss"),
        ("ss", "ss"),
    ],
)
def test_slow_tests_start_first_and_each_is_followed_by_a_quick_one(tmp_path: Path, tests: str, order: str) -> None:
    marks = {"s": "@pytest.mark.slow\n", "q": ""}
    source = "".join(f"{marks[kind]}def test_{number}_{kind}(): pass\n" for number, kind in enumerate(tests))
    seen = collected(tmp_path, "SlowFirst()", {"test_a.py": f"import pytest\n{source}"})
    assert "".join(line[-1] for line in seen) == order
    for kind in "sq":
        assert [line for line in seen if line.endswith(kind)] == sorted(line for line in seen if line.endswith(kind))


def test_a_random_order_keeps_files_together_and_repeats_with_its_seed(tmp_path: Path) -> None:
    sources = {f"test_{name}.py": "".join(f"def test_{number}(): pass\n" for number in range(9)) for name in "abc"}

    def order(seed: int) -> list[str]:
        return collected(tmp_path, f"RandomOrder({seed})", sources)

    first = order(1)
    files = [line.partition("::")[0] for line in first]
    assert len(first) == 27
    assert [a != b for a, b in pairwise(files)].count(True) == 2
    assert order(1) == first
    assert order(2) != first
    assert sorted(order(2)) == sorted(first)


def test_a_skipped_test_shows_no_rule(tmp_path: Path) -> None:
    run_suite(tmp_path, '@pytest.mark.rules("S001-001")\ndef test_left_out(): pytest.skip("not here")')
    recorded = json.loads((tmp_path / "rules.json").read_text())
    assert recorded["test_sample.py::test_left_out"]["passed"] is False


def test_an_unknown_rule_fails_the_test_that_names_it(tmp_path: Path) -> None:
    done = run_suite(tmp_path, '@pytest.mark.rules("S001-999")\ndef test_typing_error(): pass')
    assert done.returncode == 1
    assert "no list in tests/rules has S001-999" in done.stdout


GUARD = """
from pathlib import Path
from tools.pytest_plugins import ProcessGuard

def pytest_configure(config):
    config.addinivalue_line("markers", "process: starts processes")
    config.pluginmanager.register(ProcessGuard((Path(__file__).parent / "e2e",)))
"""


@pytest.mark.parametrize(("mark", "folder", "code"), [("", ".", 1), ("@pytest.mark.process\n", ".", 0), ("", "e2e", 0)])
def test_a_unit_test_that_starts_a_process_must_be_marked(tmp_path: Path, mark: str, folder: str, code: int) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    source = (
        f"import subprocess, pytest\n\n{mark}def test_starting(): subprocess.run(['true'])\n\ndef test_quiet(): pass\n"
    )
    (tmp_path / folder / "test_sample.py").write_text(source)
    (tmp_path / "conftest.py").write_text(GUARD)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout
    assert ("mark it with @pytest.mark.process" in done.stdout) is bool(code)
