"""`fairlead nodes` against a gateway alone, and the key of a cluster."""

from pathlib import Path

from cli.conftest import CliGateway, Fairlead


def test_a_gateway_alone_is_the_only_node(fairlead: Fairlead, gateway: CliGateway) -> None:
    lines = fairlead("nodes").out.splitlines()
    assert lines[0].split() == ["NAME", "STATE", "SINCE", "VERSION", "AGENTS", "FOLDERS"]
    assert lines[1].startswith("local (here)")
    (node,) = fairlead("nodes", "--json").lines
    assert (node["name"], node["here"], node["alive"]) == ("local", True, True)


def test_a_session_of_this_node_cannot_be_adopted(fairlead: Fairlead, gateway: CliGateway) -> None:
    unknown = "0a000000-0000-4000-8000-00000000dead"
    asked = fairlead("nodes", "adopt", unknown)
    assert asked.code == 2
    assert "--yes" in asked.err
    ran = fairlead("nodes", "adopt", unknown, "--yes")
    assert ran.code == 1
    assert "on this node already" in ran.err


def test_a_key_is_made_once_and_for_its_owner_alone(fairlead: Fairlead, tmp_path: Path) -> None:
    file = tmp_path / "cell.key"
    assert fairlead("nodes", "key", str(file)).code == 0
    assert file.stat().st_mode & 0o077 == 0
    assert len(file.read_text().strip()) == 64
    again = fairlead("nodes", "key", str(file))
    assert again.code != 0
    assert "exists already" in again.err
