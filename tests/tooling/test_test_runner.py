"""The runner of `make test`: parts in order, budgets printed, failures kept, no process left behind."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools import test as runner
from tools.test import PARTS, Part, Result

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests must not delete the results of the run that they are part of."""
    monkeypatch.setattr(runner, "BUILD", tmp_path / "build")
    monkeypatch.setattr(runner, "COVERAGE_DATA", tmp_path / "build" / "coverage")


def python(source: str) -> tuple[str, ...]:
    return (sys.executable, "-c", source)


def test_the_budgets_of_a_whole_run_are_twelve_minutes_or_less() -> None:
    assert sum(part.budget for part in PARTS if not part.optional and not part.background) <= 12 * 60


def test_every_test_belongs_to_exactly_one_part() -> None:
    markers = {
        part.name: part.commands[-1][-1] for part in PARTS if not part.optional and "pytest" in part.commands[-1]
    }
    assert markers == {
        "unit": "not process and not fault and not long",
        "processes": "process and not fault and not long",
        "cli": "not fault and not long",
        "browser": "not fault and not long",
        "faults": "fault and not long",
    }


@pytest.mark.parametrize(
    ("seconds", "failed", "message"),
    [
        (3, False, "ok"),
        (3, True, "FAILED"),
        (200, False, "ok  over budget"),
        (200, True, "FAILED  over budget"),
    ],
)
def test_a_part_over_budget_is_reported_and_does_not_fail(seconds: float, failed: bool, message: str) -> None:
    line = runner.describe(Result(Part("p", "a part", 100, ()), seconds, failed))
    assert line.startswith("a part")
    assert "of  100 s" in line
    assert line.endswith(f"  {message}")


def test_a_failed_part_fails_the_run_and_the_next_part_still_runs(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = Part("bad", "bad part", 10, (python("raise SystemExit(3)"), python("print('second command')")))
    good = Part("good", "good part", 10, (python("print('next part')"),))
    monkeypatch.setattr(runner, "PARTS", (bad, good))
    assert runner.main([]) == 1
    assert runner.main(["good"]) == 0
    out = capfd.readouterr().out
    assert "second command" in out
    assert out.count("next part") == 2


def test_a_background_part_runs_in_parallel_and_its_dependents_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each of the first two parts waits for a file of the other."""
    waits = """
import pathlib, sys, time
mine, other = map(pathlib.Path, sys.argv[1:])
mine.touch()
while not other.exists():
    time.sleep(0.01)
print("met", mine.name)
"""
    left, right, done = (str(tmp_path / name) for name in ("left", "right", "done"))
    built = f"import pathlib; pathlib.Path({done!r}).touch(); print('built'); raise SystemExit(3)"
    look = f"import pathlib; print('it is there:', pathlib.Path({done!r}).exists())"
    parts = (
        Part("lint", "lint", 10, ((*python(waits), right, left), python(built)), background=True),
        Part("unit", "unit", 10, ((*python(waits), left, right),)),
        Part("pages", "pages", 10, (python(look),), needs=("lint",)),
    )
    monkeypatch.setattr(runner, "PARTS", parts)
    assert runner.main([]) == 1
    lines = [line.split("  ")[0] for line in capfd.readouterr().out.splitlines() if line]
    assert [line for line in lines if line in ("met left", "met right", "built", "it is there: True")] == [
        "met left",
        "met right",
        "built",
        "it is there: True",
    ]
    assert lines[-4:] == ["unit", "pages", "lint", "total"]


def test_an_unknown_part_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        runner.main(["unit", "nonsense"])
    assert stopped.value.code == 2
    assert "no such part: nonsense" in capsys.readouterr().err


def test_processes_that_a_command_leaves_running_are_ended(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    leaving = f"""
import pathlib, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
pathlib.Path({str(pid_file)!r}).write_text(str(child.pid))
"""
    assert runner.run(python(leaving)) == 0
    # The signal is sent; the kernel may take a moment to act on it.
    deadline = time.monotonic() + 30
    while alive(int(pid_file.read_text())) and time.monotonic() < deadline:
        os.sched_yield()
    assert not alive(int(pid_file.read_text()))


def test_coverage_runs_only_when_it_is_named(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    usual = Part("usual", "usual", 10, (python("print('usual part')"),))
    rare = Part("rare", "rare", 10, (python("print('rare part')"),), optional=True)
    monkeypatch.setattr(runner, "PARTS", (usual, rare))
    assert runner.main([]) == 0
    assert "rare part" not in capfd.readouterr().out
    assert runner.main(["rare"]) == 0
    assert "rare part" in capfd.readouterr().out


def alive(pid: int) -> bool:
    """Whether the process still runs; an unreaped zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_without_namespaces_the_command_runs_outside_and_tests_skip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tools").mkdir()
    wrapper = tmp_path / "tools" / "innet"
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    wrapper.write_text("#!/bin/sh\nexit 77\n")
    wrapper.chmod(0o755)
    assert runner.innet(["pytest"]) == ["pytest"]
    wrapper.write_text('#!/bin/sh\nexec "$@"\n')
    assert runner.innet(["pytest"]) == [str(wrapper), "pytest"]


def test_ci_runs_make_test_and_allows_no_skip() -> None:
    script = Path(runner.__file__).parents[1] / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text()
    assert "FAIRLEAD_NO_SKIP=1" in script.read_text()


def test_an_old_python_is_reported_in_one_line(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    finder = Path(runner.__file__).parent / "find-python"
    done = subprocess.run([finder], env={"PYTHON": str(old)}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "Python 3.11" in done.stderr
