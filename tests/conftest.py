"""What every test gets: the house's own pytest plugins, hypothesis without clocks, and one printed seed."""

import functools
import gc
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

import certifi
import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
# The tools are scripts beside the package, not part of it; tests import them as `tools.name`.
sys.path.insert(0, str(ROOT))

from tools import rules  # noqa: E402
from tools.pytest_plugins import NoSkips, ProcessGuard, RandomOrder, RuleResults, skips_fail  # noqa: E402

# The suites' asserts explain themselves like those of any test; this must be said before anybody imports one.
pytest.register_assert_rewrite("fairlead.testing.store_conformance", "fairlead.testing.derived_conformance")
pytest.register_assert_rewrite("agents.claude.wire_rules")

# A shared machine says nothing about our speed: no example fails for being slow.
settings.register_profile("fairlead", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", settings.get_profile("fairlead"))
settings.load_profile("fairlead")

# Every client of httpx reads all authorities of the web, to trust them, and tests make thousands of clients. They speak
# plain HTTP or name the certificate that they trust: one authority is enough.
pytest.MonkeyPatch().setattr(certifi, "where", lambda: str(ROOT / "tests/server/tls/cert.pem"))

# Taken out of the environment: a gateway under test would refuse it as a setting that it does not know. The worker
# processes of one run inherit the seed under another name, so that all of them agree on the order of tests.
SEED = int(
    os.environ.pop("FAIRLEAD_SEED", "") or os.environ.get("PYTEST_RUN_SEED") or random.SystemRandom().randrange(2**32)
)
os.environ["PYTEST_RUN_SEED"] = str(SEED)

MEMORY_BYTES = 4 << 30


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--random-order", action="store_true", help="run files and the tests in each in a random order")
    parser.addoption("--in-memory", action="store_true", help="temporary files on /dev/shm, if there is room")
    parser.addoption("--only-processes", action="store_true", help="read only files whose tests are marked `process`")
    parser.addoption("--rules-file", default=str(rules.RESULTS), help="where the rules that tests show are noted")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--in-memory"):
        use_memory()
    if config.getoption("--random-order"):
        config.pluginmanager.register(RandomOrder(SEED), "fairlead-random-order")
    config.pluginmanager.register(ProcessGuard((ROOT / "tests/e2e", ROOT / "tests/browser")), "fairlead-process-guard")
    if skips_fail():
        config.pluginmanager.register(NoSkips(), "fairlead-no-skips")
    results = RuleResults(Path(config.getoption("--rules-file")), rules.known_rules())
    config.pluginmanager.register(results, "fairlead-rule-results")


def use_memory() -> None:
    """A store waits for its disk whenever it is opened or closed, and most tests open one to see something else."""
    folder = Path("/dev/shm")
    if os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > MEMORY_BYTES:
        tempfile.tempdir = str(folder)


@functools.cache
def names_processes(file: Path) -> bool:
    """Whether the mark stands in this file of tests, or in a conftest above it."""
    above = [folder / "conftest.py" for folder in file.parents if ROOT / "tests" in folder.parents]
    return any("mark.process" in place.read_text() for place in (file, *above) if place.exists())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Four workers that read every file take longer for that than for many of the tests."""
    test = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    return True if test and config.getoption("--only-processes") and not names_processes(collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("process") and not names_processes(item.path):
            raise pytest.UsageError(f"{item.nodeid}: the mark `process` must stand in its file or in a conftest")


def pytest_collection_finish() -> None:
    # Thousands of tests and modules stay until the end: no collection of garbage need look at them again.
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    # At the end and not in the header, which quiet runs leave out.
    terminalreporter.write_line(f"seed: {SEED} (FAIRLEAD_SEED={SEED} repeats it)")


@pytest.fixture
def seed() -> int:
    """The seed of whatever a test does at random, printed at the end of every run."""
    return SEED


@pytest.fixture
def rng(seed: int, request: pytest.FixtureRequest) -> random.Random:
    """Chance that repeats: the same seed gives the same test the same numbers, whatever ran before it."""
    return random.Random(f"{seed}:{request.node.nodeid}")
