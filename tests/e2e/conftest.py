"""Fixtures for tests with the real CLI: its program, its own HOME and working folder, the scripted model."""

import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

import pytest

from e2e import harness
from fairlead.agents.claude.probe import VersionProbe
from fairlead.agents.claude.versions import Version
from fairlead_testing.model_api import ScriptedModel
from tools.clis import program_path


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that the other version of the day does not run today (harness.py)."""

    def waits(item: pytest.Item) -> bool:
        test = item.nodeid.partition("[")[0]
        return any(harness.left_for_another_day(test, mark) for mark in item.iter_markers("cli"))

    left = [item for item in items if waits(item)]
    if left:
        items[:] = [item for item in items if not waits(item)]
        config.hook.pytest_deselected(items=left)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    names = ",".join(harness.of_today())
    less = "" if harness.asked() else f"; the newest has every test, the other one an eighth of day {harness.DAY}"
    terminalreporter.write_line(f"Claude Code: {names}{less} (FAIRLEAD_CLIS chooses others)")


@pytest.fixture(autouse=True)
def real_cli_is_safe_here(request: pytest.FixtureRequest) -> None:
    """No test marked `cli` starts where the CLI is missing or could reach more than loopback."""
    for mark in request.node.iter_markers("cli"):
        reason = harness.why_not_isolated() or harness.why_not_installed(mark.args[0])
        if reason:
            pytest.skip(reason)


PROBED: dict[tuple[tuple[str, ...], int], Version] = {}
"""The version output of the programs of this worker."""


@pytest.fixture(autouse=True)
def each_program_is_asked_once_for_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gateway probes the version, and the oldest CLI needs half a second to answer: only one gateway per worker
    does.
    """
    asks = VersionProbe._ask

    async def ask(prober: VersionProbe, command: Sequence[str], env: Mapping[str, str]) -> Version:
        key = (tuple(command), os.stat(command[0]).st_mtime_ns)
        if key not in PROBED:
            PROBED[key] = await asks(prober, command, env)
        return PROBED[key]

    monkeypatch.setattr(VersionProbe, "_ask", ask)


@pytest.fixture
def cli_path() -> Callable[[str], Path]:
    """The program of a version: `cli_path("2.1.325")`."""
    return program_path


@pytest.fixture
def claude(version: str) -> Path:
    """The program of the version that `on_versions` chose for this test."""
    return program_path(version)


@pytest.fixture
def cli_home(tmp_path: Path) -> Path:
    """An empty HOME."""
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def cli_cwd(tmp_path: Path) -> Path:
    """An empty working folder, outside of HOME."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def agreed(cli_home: Path, cli_cwd: Path) -> None:
    """A HOME in which a person has already answered: the CLI is set up, the key may be used, the folder is trusted."""
    answers = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": [harness.API_KEY[-20:]], "rejected": []},
        "projects": {os.path.realpath(cli_cwd): {"hasTrustDialogAccepted": True}},
    }
    (cli_home / ".claude.json").write_text(json.dumps(answers))


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    """The scripted Messages API on a free loopback port."""
    async with ScriptedModel() as serving:
        yield serving


@pytest.fixture
def cli_env(cli_home: Path, model: ScriptedModel) -> dict[str, str]:
    """The whole environment of a real CLI that uses the scripted model."""
    return harness.cli_env(cli_home, model.url)
