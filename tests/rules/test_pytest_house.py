"""The house's pytest plugins, run by a real pytest on small suites: skips that fail, rules that are recorded."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tools.rules import ROOT

CONFTEST = """
import pytest
from pathlib import Path
from tools.pytest_house import NoSkips, RuleResults, skips_fail

def pytest_configure(config):
    config.addinivalue_line("markers", "rules(*ids): named rules")
    if skips_fail():
        config.pluginmanager.register(NoSkips())
    config.pluginmanager.register(RuleResults(Path(__file__).with_name("rules.json"), {"S001-001", "S001-002"}))
"""


def run_suite(folder: Path, source: str, **env: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_sample.py").write_text("import pytest\n" + source)
    (folder / "pytest.ini").write_text("[pytest]\n")
    plain = {key: value for key, value in os.environ.items() if key not in ("CI", "FAIRLEAD_NO_SKIP")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(folder)],
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


def test_a_skip_fails_where_nothing_may_be_left_out(tmp_path: Path) -> None:
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


def test_a_skipped_test_shows_no_rule(tmp_path: Path) -> None:
    run_suite(tmp_path, '@pytest.mark.rules("S001-001")\ndef test_left_out(): pytest.skip("not here")')
    recorded = json.loads((tmp_path / "rules.json").read_text())
    assert recorded["test_sample.py::test_left_out"]["passed"] is False


def test_an_unknown_rule_fails_the_test_that_names_it(tmp_path: Path) -> None:
    done = run_suite(tmp_path, '@pytest.mark.rules("S001-999")\ndef test_typing_error(): pass')
    assert done.returncode == 1
    assert "no list in tests/rules has S001-999" in done.stdout
