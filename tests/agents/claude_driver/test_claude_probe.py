"""Detecting the installed CLI and the ways to drive it."""

import os
import re
from pathlib import Path

import pytest

from fairlead.agents.claude import probe
from fairlead.agents.claude.kind import ClaudeKind
from fairlead.agents.claude.probe import VersionProbe, find_executable, ways
from fairlead.agents.claude.settings import ClaudeSettings
from fairlead.model.agents import AgentInfo
from fairlead.model.errors import AgentMissing
from fairlead.system.clock import SystemClock

pytestmark = pytest.mark.process


def program(folder: Path, body: str, name: str = "claude") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.mark.rules("S004-003")
def test_whether_the_cli_dials_in_depends_on_the_version() -> None:
    assert ways((2, 1, 37))["dial-in"] == ways((2, 1, 120))["dial-in"] == "yes"
    assert ways((2, 1, 121))["dial-in"] == ways((2, 1, 325))["dial-in"] == "no: this version refuses local hosts"
    assert ways((2, 1, 325))["stdio"] == "yes"


def test_the_configured_executable_takes_precedence_over_path(tmp_path: Path) -> None:
    in_path, other = program(tmp_path / "bin", ""), program(tmp_path / "own", "", "my-claude")
    assert find_executable("", str(tmp_path / "bin")) == str(in_path)
    assert find_executable(str(other), str(tmp_path / "bin")) == str(other)
    with pytest.raises(AgentMissing, match="in PATH"):
        find_executable("", str(tmp_path))
    with pytest.raises(AgentMissing, match="--agent demo"):
        find_executable(str(tmp_path / "nothing"), str(tmp_path / "bin"))


async def test_info_contains_path_version_and_ways(tmp_path: Path) -> None:
    path = program(tmp_path, 'test "$1" = --version && test -z "$SECRET" && echo "2.1.325 (Claude Code)"')
    host = {"PATH": f"{tmp_path}:{os.defpath}", "SECRET": "x"}
    info = await ClaudeKind(ClaudeSettings(host=host), SystemClock()).info()
    assert info == AgentInfo(name="claude", path=str(path), version="2.1.325", ways=ways((2, 1, 325)))


async def test_info_without_a_cli_says_what_to_do(tmp_path: Path) -> None:
    info = await ClaudeKind(ClaudeSettings(host={"PATH": str(tmp_path)}), SystemClock()).info()
    assert info.path == ""
    assert "Install it" in info.problem


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("echo hello", "hello"),
        ("echo broken >&2; exit 1", "broken"),
        ("exit 0", "nothing"),
        ("head -c 1000000 /dev/zero", "did not print a version"),
    ],
)
async def test_a_program_that_is_not_the_cli_is_rejected_with_its_output(body: str, words: str, tmp_path: Path) -> None:
    path = program(tmp_path, body)
    with pytest.raises(AgentMissing, match=words):
        await VersionProbe(SystemClock()).ask([str(path)], {"PATH": os.defpath})


async def test_a_version_that_is_too_old_is_rejected_with_advice(tmp_path: Path) -> None:
    words = r"2\.1\.36 is older than the oldest version that Fairlead supports \(2\.1\.37\)\. Update it: .* update"
    path = program(tmp_path, "echo '2.1.36 (Claude Code)'")
    with pytest.raises(AgentMissing, match=words):
        await VersionProbe(SystemClock()).ask([str(path)], {"PATH": os.defpath})
    info = await ClaudeKind(ClaudeSettings(host={"PATH": f"{tmp_path}:{os.defpath}"}), SystemClock()).info()
    assert re.search(words, info.problem) and not info.ways


async def test_a_program_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "VERSION_SECONDS", 0.05)
    with pytest.raises(AgentMissing, match="did not answer"):
        await VersionProbe(SystemClock()).ask([str(program(tmp_path, "exec sleep 300"))], {"PATH": os.defpath})


async def test_the_version_is_probed_once_until_the_file_changes(tmp_path: Path) -> None:
    count = tmp_path / "count"
    path = program(tmp_path, f"echo x >> {count}; echo 2.1.37")
    prober = VersionProbe(SystemClock())
    env = {"PATH": os.defpath}
    assert await prober.ask([str(path)], env) == (2, 1, 37)
    await prober.ask([str(path)], env)
    assert count.read_text() == "x\n"
    program(tmp_path, f"echo x >> {count}; echo 2.1.325 ")
    assert await prober.ask([str(path)], env) == (2, 1, 325)
    with pytest.raises(AgentMissing, match="cannot be started"):
        await prober.ask([str(tmp_path / "gone")], env)
    broken = tmp_path / "broken"
    broken.write_text("#!/nonexistent/interpreter\n")
    broken.chmod(0o755)
    with pytest.raises(AgentMissing, match="cannot be started"):
        await prober.ask([str(broken)], env)
