"""Setup for every test: our own pytest plugins, hypothesis without deadlines, and one printed seed."""

import functools
import gc
import os
import random
import shutil
import sys
import tempfile
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
# The tools are scripts outside the package; tests import them as `tools.name`.
sys.path.insert(0, str(ROOT))

from fairlead.system.platform import PORTABLE  # noqa: E402
from tools import rules  # noqa: E402
from tools.pytest_plugins import NoSkips, ProcessGuard, RandomOrder, RuleResults, Shard, SlowFirst, skips_fail  # noqa: E402

# Asserts in the shared test suites give details like those of any test; register before the first import of a suite.
pytest.register_assert_rewrite("fairlead_testing.store_conformance", "fairlead_testing.derived_conformance")
pytest.register_assert_rewrite("agents.claude.wire_rules")

# Times on a shared machine are meaningless: no example fails for being slow.
# Hypothesis would draw the same examples in every run of CI; ours depend on the printed seed everywhere.
settings.register_profile(
    "fairlead", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow], derandomize=False
)
settings.register_profile("long", settings.get_profile("fairlead"), max_examples=400)
settings.load_profile("fairlead")

# Removed from the environment: a gateway under test would refuse it as an unknown setting. The worker processes of one
# run inherit the seed under another name, so that all of them agree on the order of tests.
SEED = int(
    os.environ.pop("FAIRLEAD_SEED", "") or os.environ.get("PYTEST_RUN_SEED") or random.SystemRandom().randrange(2**32)
)
os.environ["PYTEST_RUN_SEED"] = str(SEED)

MEMORY_BYTES = 4 << 30

ELSEWHERE = (ROOT / "tests/e2e", ROOT / "tests/browser")
"""Folders of other parts."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--random-order", action="store_true", help="run files and the tests in each in a random order")
    parser.addoption("--in-memory", action="store_true", help="temporary files on /dev/shm, if there is room")
    parser.addoption("--shard", metavar="PART:I/N", help="only the files of one shard (tools/shards.py)")
    parser.addoption("--rules-file", default=str(rules.RESULTS), help="where the rules that tests show are noted")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--in-memory"):
        use_memory()
    if config.getoption("--hypothesis-seed") is None:
        # Read by hypothesis' own plugin, which is configured after this.
        config.option.hypothesis_seed = str(SEED)
    order = RandomOrder(SEED) if config.getoption("--random-order") else SlowFirst()
    config.pluginmanager.register(order, "fairlead-order")
    if not PORTABLE:  # else the process table is read with `ps`
        config.pluginmanager.register(ProcessGuard(ELSEWHERE), "fairlead-process-guard")
    if skips_fail():
        config.pluginmanager.register(NoSkips(), "fairlead-no-skips")
    if config.getoption("--shard"):
        part, _, share = config.getoption("--shard").partition(":")
        number, count = map(int, share.split("/"))
        use_own_folder(f"{part[0]}{number}")
        config.pluginmanager.register(Shard(part, number, count, files_of(part), ROOT), "fairlead-shard")
    results = RuleResults(Path(config.getoption("--rules-file")), rules.known_rules())
    config.pluginmanager.register(results, "fairlead-rule-results")


def use_memory() -> None:
    """Put temporary files in memory: opening or closing a store waits for its disk, which most tests do not need."""
    folder = Path("/dev/shm")
    if os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > MEMORY_BYTES:
        tempfile.tempdir = str(folder)


def use_own_folder(name: str) -> None:
    """Put temporary files in a folder of this shard: pytest deletes the folders of earlier runs, and fails when another
    pytest deletes them at the same time. The name is short, because a socket's path has at most 107 characters."""
    folder = Path(tempfile.gettempdir()) / f"fl-{zlib.crc32(bytes(ROOT)):08x}-{name}"
    # Others may pass through: some tests run programs of another user in it.
    folder.mkdir(mode=0o755, exist_ok=True)
    if folder.stat().st_uid == os.geteuid():
        tempfile.tempdir = str(folder)


@functools.cache
def names_processes(file: Path) -> bool:
    """Whether the mark `process` occurs in this test file, or in a conftest above it."""
    above = [folder / "conftest.py" for folder in file.parents if ROOT / "tests" in folder.parents]
    return any("mark.process" in place.read_text() for place in (file, *above) if place.exists())


def files_of(part: str) -> list[str]:
    """The test files of a part with shards; without those that have no test for it."""
    found = [
        file for file in (ROOT / "tests").rglob("test_*.py") if not any(folder in file.parents for folder in ELSEWHERE)
    ]
    return [str(file.relative_to(ROOT)) for file in found if part != "processes" or names_processes(file)]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if PORTABLE and (only_linux := [item for item in items if item.get_closest_marker("linux")]):
        config.hook.pytest_deselected(items=only_linux)
        items[:] = [item for item in items if not item.get_closest_marker("linux")]
    for item in items:
        if item.get_closest_marker("process") and not names_processes(item.path):
            raise pytest.UsageError(f"{item.nodeid}: the mark `process` must stand in its file or in a conftest")


def pytest_collection_finish() -> None:
    # Thousands of tests and modules stay until the end: the garbage collector need not scan them again.
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    # At the end and not in the header, which quiet runs omit.
    terminalreporter.write_line(f"seed: {SEED} (FAIRLEAD_SEED={SEED} repeats it)")


@pytest.fixture
def seed() -> int:
    """The seed of all randomness in tests, printed at the end of every run."""
    return SEED


@pytest.fixture
def rng(seed: int, request: pytest.FixtureRequest) -> random.Random:
    """Repeatable randomness: the same seed gives the same test the same numbers, whatever ran before it."""
    return random.Random(f"{seed}:{request.node.nodeid}")
