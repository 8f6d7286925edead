"""`fairlead agents`: the agents that sessions can run, and how one is added."""

from pathlib import Path

import pytest

from cli.conftest import Fairlead
from fairlead.agents.acp.presets import PRESETS
from fairlead.config import load

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "gemini").write_text("#!/bin/sh\n")
    (programs / "gemini").chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("FAIRLEAD_CONFIG", raising=False)
    return tmp_path


def states(fairlead: Fairlead) -> dict[str, str]:
    return {row["name"]: row["state"] for row in fairlead("agents", "--json").lines}


def test_the_list_shows_what_is_installed_and_what_is_added(fairlead: Fairlead) -> None:
    assert states(fairlead)["gemini"] == "installed"
    assert states(fairlead)["opencode"] == "not installed"
    for name in ("gemini", "opencode"):
        assert fairlead("agents", "add", name).code == 0
    assert (states(fairlead)["gemini"], states(fairlead)["opencode"]) == ("ready", "missing")
    assert "gemini --acp" in fairlead("agents").out


@pytest.mark.parametrize("name", PRESETS)
def test_an_added_agent_is_in_the_settings(name: str, home: Path, fairlead: Fairlead) -> None:
    file = home / ".config" / "fairlead" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("port = 8000")
    assert fairlead("agents", "add", name).code == 0
    config = load({"HOME": str(home)}).config
    assert config.port == 8000
    assert config.agents[name].command == PRESETS[name].command
    assert config.agents[name].env == PRESETS[name].env


def test_an_agent_is_added_once_and_only_if_it_is_known(home: Path, fairlead: Fairlead) -> None:
    assert fairlead("agents", "add", "gemini").code == 0
    before = (home / ".config" / "fairlead" / "config.toml").read_text()
    again = fairlead("agents", "add", "gemini")
    assert again.code != 0 and "already" in again.err
    assert fairlead("agents", "add", "cobol").code != 0
    assert (home / ".config" / "fairlead" / "config.toml").read_text() == before
