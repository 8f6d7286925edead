"""How tests run the real Claude Code CLI: where it is installed, its environment, and its isolation from the network.

Everything here keeps one promise: the real program gets an environment built from nothing, a made-up key, its own
HOME, and a network that is loopback alone. Tests choose versions with `on_versions`; fixtures are in conftest.py.

Which versions a run uses: every test runs on the newest version that it supports. One other version, which changes from
day to day, runs an eighth of the tests, which also changes, and always the core scenarios (`core`): so every test meets
every pinned version within sixteen days. FAIRLEAD_CLIS=both runs every test on both versions of the day; it can also
name versions that run every test: "2.1.77", "2.1.37,2.1.325", or "all" for every pinned one.
"""

import datetime
import os
import shutil
import socket
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tools.clis import NATIVE_SINCE, RELEASES, program_path

OLDEST, LAST_DIAL_IN, NEWEST = (release.version for release in RELEASES)
VERSIONS = (OLDEST, LAST_DIAL_IN, NEWEST)

API_KEY = "made-up-key-of-the-tests"

SPARED = Path(__file__).parent / "bin"
"""First in the CLI's PATH: stand-ins for programs that it starts but that no test checks."""

# Inherited by the worker processes of a run, which must agree even when midnight passes.
DAY = int(os.environ.setdefault("PYTEST_RUN_DAY", str(datetime.datetime.now(datetime.UTC).toordinal())))
PARTS = 8
"""The other version runs one of this many parts of the tests each time that its day comes."""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))


def since(version: str, first: str) -> bool:
    """Whether the version is `first` or newer."""
    return _numbers(version) >= _numbers(first)


def dials_in(version: str) -> bool:
    return not since(version, "2.1.121")


def chosen(usual: Sequence[str], asked: str, day: int) -> list[str]:
    """The versions of a run, oldest first: the requested ones, or the newest usual one and one other chosen by the day.

    Every version that a test supports is among the usual ones, so each test runs on at least one version on any day.
    """
    if asked == "all":
        return sorted(usual, key=_numbers)
    if asked not in ("", "both"):
        return sorted(asked.replace(",", " ").split(), key=_numbers)
    *others, newest = sorted(usual, key=_numbers)
    return [others[day % len(others)], newest] if others else [newest]


def has_its_turn(test: str, versions: int, day: int) -> bool:
    """Whether a test runs on the other version of the day, out of `versions` other versions.

    Each test gets its turn, whatever its name is.
    """
    return (zlib.crc32(test.encode()) + day // versions) % PARTS == 0


def on_versions(
    *usual: str, first: str = "", last: str = "", core: bool = False, daily: bool = True
) -> pytest.MarkDecorator:
    """Run a test on real CLIs; it takes the argument `version` (or the fixture `claude`).

    `usual` are the pinned versions that are worth a run, by default all of them. `first` and `last` are the oldest and
    the newest version for which the test holds: FAIRLEAD_CLIS never runs it outside them. A `core` scenario also runs
    on the other version of the day when it is not this test's turn. A test that is not `daily` waits for its turn on
    every version: it covers only old versions, and no rule needs it each day.
    """
    versions = parameters(*usual, first=first, last=last, core=core, daily=daily)
    return pytest.mark.parametrize("version", versions)


def parameters(
    *usual: str,
    first: str = "",
    last: str = "",
    core: bool = False,
    daily: bool = True,
    more: Sequence[object] = (),
) -> list[ParameterSet]:
    """The values of `on_versions`, for tests with further parameters."""
    unknown = set(usual) - set(VERSIONS)
    assert not unknown, f"no such CLI in tools/clis.py: {unknown}"

    def fits(version: str) -> bool:
        return since(version, first or version) and since(last or version, version)

    pinned = [version for version in usual or VERSIONS if fits(version)]
    assert pinned, "a test that is for no pinned version would never run"
    versions = [version for version in of_today(pinned) if fits(version)]
    # How many versions take turns in this place; 0 where the test always runs.
    others = len(pinned) - (1 if daily else 0)
    always = {*versions} if core or asked() else {*versions[-1:]} if daily else set[str]()
    turns = {version: 0 if version in always else others for version in versions}
    return [pytest.param(name, *more, marks=pytest.mark.cli(name, turns=count)) for name, count in turns.items()] or [
        pytest.param("none", *more, marks=pytest.mark.skip(reason="not for the versions of this run"))
    ]


def asked() -> str:
    """The requested versions, as they were named; empty for the usual choice."""
    return os.environ.get("FAIRLEAD_CLIS", "")


def of_today(usual: Sequence[str] = VERSIONS) -> list[str]:
    """The versions that this run uses for a test that supports all of these."""
    return chosen(usual, asked(), DAY)


def left_for_another_day(test: str, mark: pytest.Mark) -> bool:
    """Whether this version of the test, named without its parameters, is skipped today."""
    turns = mark.kwargs.get("turns", 0)
    return turns > 0 and not has_its_turn(test, turns, DAY)


def why_not_isolated() -> str | None:
    """Why the real CLI may not run here, or None when loopback is the only network."""
    others = [name for _, name in socket.if_nameindex() if name != "lo"]
    if others:
        return (
            f"not in a network namespace with loopback alone (there is {', '.join(others)}): "
            "run by `make test`, or with `tools/innet` in front"
        )
    return None


def why_not_installed(version: str) -> str | None:
    if not program_path(version).exists():
        return f"Claude Code {version} is not at {program_path(version)}: `make clis` fetches it"
    if not since(version, ".".join(map(str, NATIVE_SINCE))) and not shutil.which("node"):
        return f"Claude Code {version} is a script for node, and there is no node on PATH"
    return None


def program_folders() -> list[str]:
    """Where a real agent searches for programs: in the system's folders, and where node is installed."""
    node = shutil.which("node")
    folders = ["/usr/local/bin", "/usr/bin", "/bin"]
    if node and str(Path(node).parent) not in folders:
        folders.insert(0, str(Path(node).parent))
    return folders


def cli_env(home: Path, base_url: str) -> dict[str, str]:
    """The whole environment of a real CLI: only the location of node is inherited (the oldest version is a script)."""
    return {
        "PATH": ":".join([str(SPARED), *program_folders()]),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "ANTHROPIC_BASE_URL": base_url,
        "ANTHROPIC_API_KEY": API_KEY,
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # As root the CLI refuses some modes unless this declares a sandbox, which is true here.
        "IS_SANDBOX": "1",
    }
