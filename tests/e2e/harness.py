"""How tests run the real Claude Code CLI: where it lies, in what environment, and that it cannot reach the world.

Everything here keeps one promise: the real program gets an environment built from nothing, a made-up key, a HOME of
its own, and a network that is loopback alone. Tests choose versions with `on_versions`; fixtures are in conftest.py.
"""

import shutil
import socket
from pathlib import Path

import pytest

from tools.clis import RELEASES, program_path

OLDEST, LAST_DIAL_IN, NEWEST = (release.version for release in RELEASES)
VERSIONS = (OLDEST, LAST_DIAL_IN, NEWEST)

API_KEY = "made-up-key-of-the-tests"


def on_versions(*versions: str) -> pytest.MarkDecorator:
    """Runs a test once for each of these CLIs; it takes the argument `version` (or the fixture `claude`)."""
    unknown = set(versions) - set(VERSIONS)
    assert not unknown, f"no such CLI in tools/clis.py: {unknown}"
    return pytest.mark.parametrize(
        "version", [pytest.param(version, marks=pytest.mark.cli(version)) for version in versions or VERSIONS]
    )


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
    if version == OLDEST and not shutil.which("node"):
        return f"Claude Code {version} is a script for node, and there is no node on PATH"
    return None


def cli_env(home: Path, base_url: str) -> dict[str, str]:
    """The whole environment of a real CLI: nothing is inherited but where node lies (the oldest is a script)."""
    node = shutil.which("node")
    folders = ["/usr/local/bin", "/usr/bin", "/bin"]
    if node and str(Path(node).parent) not in folders:
        folders.insert(0, str(Path(node).parent))
    return {
        "PATH": ":".join(folders),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "ANTHROPIC_BASE_URL": base_url,
        "ANTHROPIC_API_KEY": API_KEY,
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # As root the CLI refuses some modes unless it is told that it is boxed in, which it is.
        "IS_SANDBOX": "1",
    }
