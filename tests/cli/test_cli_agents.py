"""`fairlead agents`: the agents that sessions can run, and how one is added."""

from pathlib import Path

import pytest

from cli.conftest import Fairlead
from fairlead.agents.acp.presets import PRESETS
from fairlead.config import load


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings file. Of the presets only gemini is installed."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "gemini").write_text("#!/bin/sh\n")
    (programs / "gemini").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    settings = tmp_path / "config.toml"
    settings.write_text("port = 8000")
    return settings


def states(fairlead: Fairlead, file: Path) -> dict[str, str]:
    return {row["name"]: row["state"] for row in fairlead("agents", "--config", str(file), "--json").lines}


def test_the_list_shows_what_is_installed_and_what_is_added(fairlead: Fairlead, file: Path) -> None:
    before = states(fairlead, file)
    assert (before["gemini"], before["opencode"]) == ("installed", "not installed")
    for name in ("gemini", "opencode"):
        assert fairlead("agents", "add", name, "--config", str(file)).code == 0
    after = states(fairlead, file)
    assert (after["gemini"], after["opencode"]) == ("ready", "missing")
    assert "gemini --acp" in fairlead("agents", "--config", str(file)).out


@pytest.mark.parametrize("name", PRESETS)
def test_an_added_agent_is_in_the_settings(name: str, fairlead: Fairlead, file: Path) -> None:
    assert fairlead("agents", "add", name, "--config", str(file)).code == 0
    config = load({"HOME": str(file.parent)}, file=file).config
    assert config.port == 8000
    assert config.agents[name].command == PRESETS[name].command
    assert config.agents[name].env == PRESETS[name].env


def test_an_agent_is_added_once_and_only_if_it_is_known(fairlead: Fairlead, file: Path) -> None:
    assert fairlead("agents", "add", "gemini", "--config", str(file)).code == 0
    before = file.read_text()
    again = fairlead("agents", "add", "gemini", "--config", str(file))
    assert again.code != 0 and "already" in again.err
    assert fairlead("agents", "add", "cobol", "--config", str(file)).code != 0
    assert file.read_text() == before
