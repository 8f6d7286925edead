"""`make test`: installs what tests need, then runs every part and prints how long each took beside its budget.

A budget is printed and never enforced: a slow machine must not fail a test. Only a single hung test is ended, by
pytest's `timeout` (pyproject.toml). All parts run even when one fails (only a failed install ends the run), and the
summary at the end says which did. Standard library only: it runs before .venv exists.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
BUILD = ROOT / "build"
COVERAGE_DATA = BUILD / "coverage"

PYTEST_FOUND_NOTHING = 5
PYTHON = str(BIN / "python")
QUIET_PYTEST = ("-m", "pytest", "-q", "--durations=5", "--durations-min=2")
COVERED_PYTEST = (PYTHON, "-m", "coverage", "run", f"--data-file={COVERAGE_DATA / 'data'}", *QUIET_PYTEST)

# What makes .venv, and what the tests run against.
FETCHERS = ("install", "clis", "happy_wire", "browser", "cloudcli_app")

# Tests that have a part of their own.
ELSEWHERE = ("--ignore=tests/e2e", "--ignore=tests/browser")

UNIT = "not process and not fault and not long"
PROCESSES = "process and not fault and not long"


def pytest(*arguments: str, workers: int = 1) -> tuple[str, ...]:
    """A call of pytest. Its workers take tests from each other, so that all of them end at about the same time."""
    spread = ("-n", str(workers), "--dist", "worksteal") if workers > 1 else ()
    return (PYTHON, *QUIET_PYTEST, *spread, *arguments)


def files_with(mark: str) -> tuple[str, ...]:
    """The files that have tests with that mark: to find them, pytest would import the tests of the whole project."""
    files = (ROOT / "tests").rglob("test_*.py")
    return tuple(sorted(str(file.relative_to(ROOT)) for file in files if f"mark.{mark}" in file.read_text("utf-8")))


@dataclass(frozen=True)
class Part:
    """One step: its name on the command line, its title, the seconds it should take, and its commands in order."""

    name: str
    title: str
    budget: int
    commands: tuple[tuple[str, ...], ...]
    isolated: bool = False
    """Runs where loopback is the only network (tools/innet), if this machine allows that."""
    optional: bool = False
    """Runs only when it is named."""


PARTS = (
    Part(
        "install",
        "install",
        60,
        tuple((sys.executable, "-m", f"tools.{name}") for name in FETCHERS),
    ),
    Part("check", "lint, types, imports", 45, (("make", "--no-print-directory", "check"),)),
    Part("web", "the web UI, built", 30, ((PYTHON, "-m", "tools.web", "test"),)),
    # More workers than cores: a third of the time is waiting, for a server or a process to start and to end.
    Part("unit", "unit, golden, laws", 110, (pytest("tests", *ELSEWHERE, "--in-memory", "-m", UNIT, workers=3),)),
    Part(
        "processes",
        "with processes",
        80,
        (pytest("tests", *ELSEWHERE, "--only-processes", "-m", PROCESSES, workers=4),),
    ),
    Part("wheel", "the wheel, installed", 20, ((PYTHON, "-m", "tools.wheel"),)),
    Part("cli", "real CLI", 210, (pytest("tests/e2e", "-m", "not fault and not long", workers=4),), isolated=True),
    Part(
        "browser",
        "real browser",
        85,
        (pytest("tests/browser", "-m", "not fault and not long", workers=3),),
        isolated=True,
    ),
    Part("faults", "faults", 70, (pytest(*files_with("fault"), "-m", "fault and not long", workers=4),), isolated=True),
    Part("rules", "rules shown", 5, ((PYTHON, "-m", "tools.rules"),)),
    Part(
        "coverage",
        "coverage floor",
        300,
        (
            (*COVERED_PYTEST, "tests", *ELSEWHERE, "-m", "not fault and not long"),
            (PYTHON, "-m", "tools.coverage_floor"),
        ),
        optional=True,
    ),
)


@dataclass(frozen=True)
class Result:
    part: Part
    seconds: float
    failed: bool


def run(argv: Sequence[str]) -> int:
    """The exit code; what the command left running is ended, also when we are interrupted."""
    # Tests start hundreds of Python processes: without compiled files on disk each would compile all that it imports.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    child = subprocess.Popen(argv, cwd=ROOT, env=env, start_new_session=True)
    try:
        return child.wait()
    finally:
        end_group(child)


def restore_sigint() -> None:
    """A shell that starts us in the background has SIGINT ignored, and children inherit that: tests end programs with
    it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def end_group(child: subprocess.Popen[bytes]) -> None:
    """Ends whatever the command left behind, so that no process outlives its part.

    SIGINT first: pytest then tears its fixtures down, and with them what they started in groups of their own.
    """
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            break
        try:
            child.wait(timeout=15)
        except subprocess.TimeoutExpired:
            continue
    child.wait()


def innet(argv: Sequence[str]) -> Sequence[str]:
    """The command inside a network namespace; outside when there is none, and then the tests skip with that reason."""
    wrapper = str(ROOT / "tools" / "innet")
    allowed = subprocess.run([wrapper, "true"], check=False).returncode == 0
    return [wrapper, *argv] if allowed else argv


def run_part(part: Part) -> Result:
    print(f"\n== {part.title} (budget {part.budget} s)", flush=True)
    begun = time.monotonic()
    failed = False
    for argv in part.commands:
        code = run(innet(argv) if part.isolated else argv)
        if code == PYTEST_FOUND_NOTHING and "pytest" in argv:
            print("test: this part has no test, so it shows nothing: that is a failure", flush=True)
        failed = failed or code != 0
    result = Result(part, time.monotonic() - begun, failed)
    print(f"== {describe(result)}", flush=True)
    return result


def describe(result: Result) -> str:
    over = "  over budget" if result.seconds > result.part.budget else ""
    verdict = "FAILED" if result.failed else "ok"
    return f"{result.part.title:<22} {result.seconds:6.0f} s of {result.part.budget:4} s  {verdict}{over}"


def forget_last_run(chosen: Sequence[Part]) -> None:
    """A whole run counts its rules from zero, a coverage run its branches."""
    names = {part.name for part in chosen}
    if names >= {part.name for part in PARTS if not part.optional}:
        (BUILD / "rules.json").unlink(missing_ok=True)
    if "coverage" in names:
        shutil.rmtree(COVERAGE_DATA, ignore_errors=True)
        COVERAGE_DATA.mkdir(parents=True)


def main(argv: list[str] | None = None) -> int:
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(description="Run the tests in parts and print each part's time beside its budget.")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"only these, in this order: {' '.join(names)}")
    wanted = parser.parse_args(argv).parts or [part.name for part in PARTS if not part.optional]
    if unknown := set(wanted) - set(names):
        parser.error(f"no such part: {' '.join(sorted(unknown))} (there are {' '.join(names)})")
    chosen = [part for part in PARTS if part.name in wanted]

    restore_sigint()
    forget_last_run(chosen)
    begun = time.monotonic()
    results: list[Result] = []
    for part in chosen:
        results.append(run_part(part))
        if part.name == "install" and not (BIN / "pytest").exists():
            break
    seconds = time.monotonic() - begun
    print("\n" + "\n".join(describe(result) for result in results))
    print(f"{'total':<22} {seconds:6.0f} s of {sum(part.budget for part in chosen):4} s")
    return 1 if any(result.failed for result in results) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
