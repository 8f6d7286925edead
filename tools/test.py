"""`make test`: installs what tests need, then runs every part, each against a budget that it prints.

A part over its budget is said to be, and is no failure by itself; the whole run is ended at TOTAL so that a hanging
test cannot hold a machine for ever. All parts run even when one fails (only a failed install ends it), and the
summary at the end says which did. Standard library only: it runs before .venv exists.
"""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
BUILD = ROOT / "build"
COVERAGE_DATA = BUILD / "coverage"

# Seconds. A machine twice as slow as ours still ends in time; half an hour is what a person waits at most.
TOTAL = 27 * 60

PYTEST_FOUND_NOTHING = 5
PYTHON = str(BIN / "python")
QUIET_PYTEST = ("-m", "pytest", "-q", "--durations=5", "--durations-min=2")
PYTEST = (PYTHON, *QUIET_PYTEST)
COVERED_PYTEST = (PYTHON, "-m", "coverage", "run", f"--data-file={COVERAGE_DATA / 'data'}", *QUIET_PYTEST)

# What makes .venv, and what the tests run against.
FETCHERS = ("install", "clis", "happy_wire", "browser", "cloudcli_app")

# Tests that have a part of their own.
ELSEWHERE = ("--ignore=tests/e2e", "--ignore=tests/browser")


@dataclass(frozen=True)
class Part:
    """One step: its name on the command line, what it is, seconds it may use, and the commands it runs in turn."""

    name: str
    title: str
    budget: int
    commands: tuple[tuple[str, ...], ...]
    isolated: bool = False
    """Runs where loopback is the only network (tools/innet), if this machine allows that."""
    shards: int = 1
    """Processes that share the tests of each command, at the same time."""


PARTS = (
    Part(
        "install",
        "install",
        150,
        tuple((sys.executable, "-m", f"tools.{name}") for name in FETCHERS),
    ),
    Part("check", "lint, types, imports", 60, (("make", "--no-print-directory", "check"),)),
    Part("web", "the web UI, built", 60, ((PYTHON, "-m", "tools.web", "test"),)),
    Part(
        "unit",
        "unit, golden, laws",
        360,
        ((*COVERED_PYTEST, "tests", *ELSEWHERE, "-m", "not fault and not long"),),
        shards=2,
    ),
    Part("coverage", "coverage floor", 30, ((PYTHON, "-m", "tools.coverage_floor"),)),
    Part("wheel", "the wheel, installed", 60, ((PYTHON, "-m", "tools.wheel"),)),
    Part(
        "cli",
        "real CLI",
        540,
        ((*PYTEST, "tests/e2e", "-m", "not fault and not long"),),
        isolated=True,
        # Much of it is waiting: for a process to start, for one to end.
        shards=3,
    ),
    Part(
        "browser",
        "real browser",
        150,
        ((*PYTEST, "tests/browser", "-m", "not fault and not long"),),
        isolated=True,
        shards=2,
    ),
    Part("faults", "faults", 180, ((*PYTEST, "tests", "-m", "fault and not long"),), isolated=True),
    Part("rules", "rules shown", 30, ((PYTHON, "-m", "tools.rules"),)),
)


@dataclass(frozen=True)
class Result:
    part: Part
    seconds: float
    failed: bool


def run(argv: Sequence[str], seconds: float, shards: int = 1) -> int:
    """The first exit code that is not 0; all process groups are ended when time is up or we are interrupted."""
    deadline = time.monotonic() + max(seconds, 1)
    with contextlib.ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(shards - 1)]
        # The first share speaks as it goes; the others when they are done, so that lines do not mix.
        children = [
            subprocess.Popen(
                [*argv, f"--shard={number}/{shards}"] if shards > 1 else argv,
                cwd=ROOT,
                start_new_session=True,
                stdout=output,
                stderr=output,
            )
            for number, output in enumerate([None, *outputs], 1)
        ]
        try:
            codes = [child.wait(timeout=max(deadline - time.monotonic(), 1)) for child in children]
        except subprocess.TimeoutExpired:
            print(f"test: time is up, ending: {' '.join(argv)}", flush=True)
            codes = [124]
        finally:
            for child in children:
                end_group(child)
            for output in outputs:
                output.seek(0)
                sys.stdout.buffer.write(output.read())
                sys.stdout.flush()
    return next((code for code in codes if code), 0)


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


def run_part(part: Part, deadline: float) -> Result:
    print(f"\n== {part.title} (budget {part.budget} s)", flush=True)
    begun = time.monotonic()
    failed = False
    for argv in part.commands:
        code = run(innet(argv) if part.isolated else argv, deadline - time.monotonic(), part.shards)
        if code == PYTEST_FOUND_NOTHING and "pytest" in argv:
            print("test: no test belongs to this part, so it shows nothing: that is a failure", flush=True)
        failed = failed or code != 0
    result = Result(part, time.monotonic() - begun, failed)
    print(f"== {describe(result)}", flush=True)
    return result


def describe(result: Result) -> str:
    over = "  OVER BUDGET" if result.seconds > result.part.budget else ""
    verdict = "FAILED" if result.failed else "ok"
    return f"{result.part.title:<22} {result.seconds:6.0f} s of {result.part.budget:4} s  {verdict}{over}"


def forget_last_run(chosen: Sequence[Part]) -> None:
    """A whole run counts its rules anew, the unit part its coverage."""
    if len(chosen) == len(PARTS):
        (BUILD / "rules.json").unlink(missing_ok=True)
    if any(part.name == "unit" for part in chosen):
        shutil.rmtree(COVERAGE_DATA, ignore_errors=True)
        COVERAGE_DATA.mkdir(parents=True)


def main(argv: list[str] | None = None) -> int:
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(description="Run the tests in parts, each against its budget.")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"only these, in this order: {' '.join(names)}")
    wanted = parser.parse_args(argv).parts or names
    if unknown := set(wanted) - set(names):
        parser.error(f"no such part: {' '.join(sorted(unknown))} (there are {' '.join(names)})")
    chosen = [part for part in PARTS if part.name in wanted]

    forget_last_run(chosen)
    begun = time.monotonic()
    results: list[Result] = []
    for part in chosen:
        results.append(run_part(part, begun + TOTAL))
        if part.name == "install" and not (BIN / "pytest").exists():
            break
    seconds = time.monotonic() - begun
    print("\n" + "\n".join(describe(result) for result in results))
    print(f"{'total':<22} {seconds:6.0f} s of {TOTAL:4} s")
    return 1 if any(result.failed for result in results) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
