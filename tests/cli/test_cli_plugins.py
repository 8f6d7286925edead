"""`fairlead plugins` against a running gateway: what is shown before a plugin is enabled, and what runs afterwards."""

import shutil
import time
from collections.abc import Iterator

import pytest

from cli.conftest import CliGateway, Fairlead
from patience import PATIENCE
from plugins.harness import BOARD, write_plugin


@pytest.fixture
def board(gateway: CliGateway, fairlead: Fairlead) -> Iterator[CliGateway]:
    """The sample plugin in the folder of the gateway that all tests share."""
    folder = gateway.data / "plugins"
    shutil.copytree(BOARD, folder / "board", ignore=shutil.ignore_patterns("__pycache__"))
    yield gateway
    fairlead("plugins", "disable", "board")
    shutil.rmtree(folder)


def test_a_plugin_is_enabled_after_it_was_shown_and_listed_with_its_port(fairlead: Fairlead, board: CliGateway) -> None:
    assert "board  disabled" in fairlead("plugins").out
    asked = fairlead("plugins", "enable", "board")
    assert asked.code == 2 and "server.py" in asked.out and str(board.data / "plugins" / "board") in asked.out
    assert "--yes" in asked.err and "board  disabled" in fairlead("plugins").out
    assert fairlead("plugins", "enable", "board", "--yes").code == 0
    end = time.monotonic() + PATIENCE
    while (listed := fairlead("plugins", "--json").lines[0])["state"] != "running":
        assert time.monotonic() < end, listed
    row = fairlead("plugins").out.splitlines()[-1].split()
    assert row == ["board", "running", str(listed["port"]), str(listed["pid"]), "good", "0", "Board"]
    assert fairlead("plugins", "disable", "board").code == 0
    assert "board  disabled" in fairlead("plugins").out


def test_problems_are_reported(fairlead: Fairlead, board: CliGateway) -> None:
    broken = write_plugin(board.data / "plugins", "broken")
    (broken / "manifest.json").write_text("{}")
    assert "broken: manifest.json does not fit" in fairlead("plugins").err
    ran = fairlead("plugins", "enable", "broken", "--yes")
    assert ran.code == 1 and "does not fit" in ran.err
    assert fairlead("plugins", "enable", "other", "--yes").code == 5
    assert fairlead("plugins", "disable", "other").code == 5


def test_output_for_scripts_is_lines_of_json(fairlead: Fairlead, board: CliGateway) -> None:
    (line,) = fairlead("plugins", "enable", "board", "--yes", "--json").lines
    assert line["name"] == "board" and line["enabled"] and line["digest"]
    (gone,) = fairlead("plugins", "disable", "board", "--json").lines
    assert gone["state"] == "disabled" and not gone["enabled"]
