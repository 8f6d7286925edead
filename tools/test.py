"""`make test`: installs what tests need, then runs every part and prints how long each took next to its budget.

A budget is printed and never enforced: a slow machine must not fail a test. Only a single hung test is ended, by
pytest's `timeout` (pyproject.toml). All parts run even when one fails (only a failed install ends the run), and the
summary at the end lists the failed ones. Parts that mostly keep one core busy run one after another in the background
while the others run; their output is shown when they have ended. Standard library only: it runs before .venv exists.
"""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
BUILD = ROOT / "build"
COVERAGE_DATA = BUILD / "coverage"

RUNNING: list[subprocess.Popen[bytes]] = []
"""The running commands; they are ended when this process ends."""

PYTEST_FOUND_NOTHING = 5
PYTHON = str(BIN / "python")
QUIET_PYTEST = ("-m", "pytest", "-q", "--durations=5", "--durations-min=2")
COVERED_PYTEST = (PYTHON, "-m", "coverage", "run", f"--data-file={COVERAGE_DATA / 'data'}", *QUIET_PYTEST)

# The tools that create .venv and fetch the programs that the tests run against.
FETCHERS = (
    *("install", "clis", "agent_sdks", "acp_agents", "acp_clients", "happy_wire", "browser", "cloudcli_app"),
    *("vscode_server", "agui_sdks", "mcp_client", "api_judges"),
)

# Tests that have a separate part.
ELSEWHERE = ("--ignore=tests/e2e", "--ignore=tests/browser")

# In a fresh clone every shard would compile these. The tests themselves are compiled by pytest, each by one shard.
COMPILE = (PYTHON, "-m", "compileall", "-q", "-j", "0", "-x", "/test_", "src", "testing", "tools", "tests")

SHARDS = 4
"""More than cores: a third of the time is spent waiting for a server or a process to start and to end."""

UNIT = "not process and not fault and not long"
PROCESSES = "process and not fault and not long"


def pytest(*arguments: str) -> tuple[str, ...]:
    return (PYTHON, *QUIET_PYTEST, *arguments)


def pytest_slow_first(*arguments: str, workers: int) -> tuple[str, ...]:
    """A call of pytest for few, long tests: those with the mark `slow` start first, the others follow one by one."""
    return (PYTHON, *QUIET_PYTEST, "-n", str(workers), "--dist", "load", "--maxschedchunk", "1", *arguments)


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
    background: bool = False
    """Runs in parallel with the parts in the foreground."""
    needs: tuple[str, ...] = ()
    """Background parts that must have ended before it starts."""
    shards: int = 1
    """Its last command runs in this many processes at once, each with a shard of the test files (tools/shards.py)."""


PARTS = (
    Part(
        "install",
        "install",
        60,
        tuple((sys.executable, "-m", f"tools.{name}") for name in FETCHERS),
    ),
    Part("check", "lint, types, imports", 60, (("make", "--no-print-directory", "check"),), background=True),
    Part("web", "the web UI, built", 40, ((PYTHON, "-m", "tools.web", "test"),), background=True),
    Part(
        "unit",
        "unit, golden, laws",
        130,
        (COMPILE, pytest("tests", *ELSEWHERE, "--in-memory", "-m", UNIT)),
        shards=SHARDS,
    ),
    Part(
        "processes",
        "with processes",
        120,
        (pytest("tests", *ELSEWHERE, "-m", PROCESSES),),
        shards=SHARDS,
    ),
    Part("wheel", "the wheel, installed", 30, ((PYTHON, "-m", "tools.wheel"),), background=True),
    Part(
        "cli",
        "real CLI",
        200,
        (pytest_slow_first("tests/e2e", "-m", "not fault and not long", workers=4),),
        isolated=True,
    ),
    Part(
        "browser",
        "real browser",
        125,
        (pytest_slow_first("tests/browser", "-m", "not fault and not long", workers=3),),
        isolated=True,
        needs=("web",),
    ),
    Part(
        "faults",
        "faults",
        80,
        (pytest_slow_first(*files_with("fault"), "-m", "fault and not long", workers=4),),
        isolated=True,
    ),
    Part("rules", "rules shown", 5, ((PYTHON, "-m", "tools.rules"),)),
    Part(
        "portable",
        "unit, processes and faults with the code of other systems",
        500,
        (
            ("env", "FAIRLEAD_PORTABLE=1", *pytest("tests", *ELSEWHERE, "--in-memory", "-m", UNIT, "-n", "2")),
            ("env", "FAIRLEAD_PORTABLE=1", *pytest("tests", *ELSEWHERE, "-m", PROCESSES, "-n", "2")),
            (
                *("env", "FAIRLEAD_PORTABLE=1"),
                *pytest_slow_first(*files_with("fault"), "-m", "fault and not long", workers=2),
            ),
        ),
        isolated=True,
        optional=True,
    ),
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


def run(argv: Sequence[str], output: IO[bytes] | None = None) -> int:
    """Run a command and return its exit code; leftover processes are ended, also when we are interrupted."""
    with started(argv, output) as child:
        return child.wait()


@contextlib.contextmanager
def started(argv: Sequence[str], output: IO[bytes] | None) -> Iterator[subprocess.Popen[bytes]]:
    # Tests start hundreds of Python processes: without compiled files on disk each would compile all its imports.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    child = subprocess.Popen(argv, cwd=ROOT, env=env, start_new_session=True, stdout=output, stderr=output)
    RUNNING.append(child)
    try:
        yield child
    finally:
        end_group(child)
        RUNNING.remove(child)


def run_shards(part: Part, argv: Sequence[str], output: IO[bytes] | None = None) -> int:
    """Run a command once for each shard, all at the same time; return the first exit code that is not 0.

    The output of the first one is shown as it comes, that of each other one when it has ended."""
    files = [BUILD / "parts" / f"{part.name}-{number}.txt" for number in range(2, part.shards + 1)]
    files[0].parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        outputs = [output, *(stack.enter_context(file.open("wb")) for file in files)]
        children = [
            stack.enter_context(started([*argv, f"--shard={part.name}:{number}/{part.shards}"], to))
            for number, to in enumerate(outputs, 1)
        ]
        codes = [child.wait() for child in children]
    for file in files:
        print(file.read_text(encoding="utf-8", errors="replace"), end="", flush=True)
    return next((code for code in codes if code), 0)


def restore_sigint() -> None:
    """Undo an ignored SIGINT: a shell sets that for background jobs, children inherit it, and tests need SIGINT."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def end_group(child: subprocess.Popen[bytes]) -> None:
    """End everything that the command left behind, so that no process outlives its part.

    SIGINT first: pytest then tears its fixtures down, and with them the processes that they started in other groups.
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
    """The command inside a network namespace; outside if there is none, and then the tests skip with that reason."""
    wrapper = str(ROOT / "tools" / "innet")
    allowed = subprocess.run([wrapper, "true"], check=False).returncode == 0
    return [wrapper, *argv] if allowed else argv


def run_part(part: Part, output: IO[bytes] | None = None, more: Sequence[str] = ()) -> Result:
    """`more`: further arguments of the last command."""
    begun = time.monotonic()
    failed = False
    for number, argv in enumerate(part.commands, 1):
        last = number == len(part.commands)
        whole = [*(innet(argv) if part.isolated else argv), *(more if last else ())]
        code = run_shards(part, whole, output) if last and part.shards > 1 else run(whole, output)
        if code == PYTEST_FOUND_NOTHING and "pytest" in argv:
            print("test: this part has no test, so it shows nothing: that is a failure", flush=True)
        failed = failed or code != 0
    return Result(part, time.monotonic() - begun, failed)


def run_in_foreground(part: Part) -> Result:
    print(f"\n== {part.title} (budget {part.budget} s)", flush=True)
    result = run_part(part)
    print(f"== {describe(result)}", flush=True)
    return result


class Background:
    """Runs its parts one after another in a thread, and stores their output until the foreground has a pause."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.results: list[Result] = []
        self._ended = {part.name: threading.Event() for part in parts}
        self._output = {part.name: BUILD / "parts" / f"{part.name}.txt" for part in parts}
        self._printed = 0
        self._thread = threading.Thread(target=self._run, args=(parts,), daemon=True)
        (BUILD / "parts").mkdir(parents=True, exist_ok=True)
        self._thread.start()

    def _run(self, parts: Sequence[Part]) -> None:
        for part in parts:
            with self._output[part.name].open("wb") as output:
                self.results.append(run_part(part, output))
            self._ended[part.name].set()

    def print_ended(self) -> None:
        """Print the output of the parts that have ended since the last call."""
        for result in self.results[self._printed :]:
            self._printed += 1
            print(f"\n== {result.part.title}, in the background (budget {result.part.budget} s)")
            print(self._output[result.part.name].read_text(encoding="utf-8", errors="replace"), end="")
            print(f"== {describe(result)}", flush=True)

    def wait_for(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self._ended:
                self._ended[name].wait()

    def finish(self) -> None:
        self._thread.join()
        self.print_ended()


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
    try:
        results = run_all(chosen)
    finally:
        for child in list(RUNNING):
            end_group(child)
    seconds = time.monotonic() - begun
    print("\n" + "\n".join(describe(result) for result in results))
    budget = sum(part.budget for part in chosen if not part.background)
    print(f"{'total':<22} {seconds:6.0f} s of {budget:4} s")
    return 1 if any(result.failed for result in results) else 0


def run_all(parts: Sequence[Part]) -> list[Result]:
    results: list[Result] = []
    if parts and parts[0].name == "install":
        results.append(run_in_foreground(parts[0]))
        if not (BIN / "pytest").exists():
            return results
        parts = parts[1:]
    background = Background([part for part in parts if part.background])
    for part in parts:
        if not part.background:
            background.wait_for(part.needs)
            background.print_ended()
            results.append(run_in_foreground(part))
    background.finish()
    return [*results, *background.results]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
