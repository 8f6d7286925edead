"""The contract that some modules import the standard library only (tools/standard_library.py)."""

import configparser
import subprocess
import sys

import pytest
from grimp import ImportGraph

from tools.rules import ROOT
from tools.standard_library import StandardLibraryContract

DAEMON = "import sys; sys.path.append(sys.argv[1]); import fairlead.keeper.daemon; print(*sys.modules)"


def found_in(*imports: tuple[str, str]) -> list[tuple[str, str]]:
    graph = ImportGraph()
    for module in ("ours", "ours.room", "ours.room.one", "ours.room.two"):
        graph.add_module(module)
    for importer, imported in imports:
        graph.add_import(importer=importer, imported=imported)
    contract = StandardLibraryContract(
        "name", session_options={}, contract_options={"source_modules": ["ours.room.one", "ours.room.two"]}
    )
    checked = contract.check(graph, verbose=False)
    found: list[tuple[str, str]] = checked.metadata["found"]
    assert checked.kept is not bool(found)
    return found


def test_standard_library_and_each_other_are_allowed() -> None:
    assert found_in(("ours.room.one", "json"), ("ours.room.one", "ours.room.two"), ("ours.other", "msgspec")) == []


def test_everything_else_is_found_also_in_the_packages_around() -> None:
    wrong = [("ours", "httpx"), ("ours.room", "ours.other"), ("ours.room.one", "msgspec")]
    assert found_in(*wrong) == wrong


@pytest.mark.process
def test_contract_names_all_modules_that_the_keeper_loads() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / ".importlinter")
    named = set(config["importlinter:contract:keeper"]["source_modules"].split())
    command = [sys.executable, "-I", "-S", "-c", DAEMON, str(ROOT / "src")]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    ours = {module for module in loaded if module.startswith("fairlead.")}
    assert ours - named == {"fairlead.keeper", "fairlead.system"}
    assert named <= ours
