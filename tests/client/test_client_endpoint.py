"""How a command finds its gateway, and to which hosts it sends the token."""

import json
import os
from pathlib import Path

import pytest

from fairlead.client.endpoint import EndpointOptions, GatewayEndpoint, checked_url, is_on_loopback
from fairlead.client.errors import Denied, Unreachable, UsageError
from fairlead.system.proctable import start_mark


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with a token and the `server.json` of this process."""
    (tmp_path / "server.json").write_text(json.dumps({"url": "https://gateway.example:8443", "pid": os.getpid()}))
    (tmp_path / "admin-token").write_text("secret\n")
    return tmp_path


def test_address_and_token_are_read_from_the_data_folder(folder: Path) -> None:
    assert EndpointOptions(data=str(folder)).find({}) == GatewayEndpoint(
        "https://gateway.example:8443", "secret", own=True
    )
    assert EndpointOptions().find({"FAIRLEAD_DATA": str(folder)}).token == "secret"


def test_token_on_the_command_line_wins(folder: Path) -> None:
    assert EndpointOptions(token="mine", data=str(folder)).find({}).token == "mine"


def test_error_without_a_gateway_explains_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="fairlead serve"):
        EndpointOptions(data=str(tmp_path)).find({})


@pytest.mark.process
def test_file_of_a_dead_gateway_is_ignored(folder: Path) -> None:
    """Another program may use its port by now, and would receive the token."""
    dead = os.fork()
    if dead == 0:
        os._exit(0)
    os.waitpid(dead, 0)
    (folder / "server.json").write_text(json.dumps({"url": "http://127.0.0.1:7433", "pid": dead}))
    with pytest.raises(Unreachable):
        EndpointOptions(data=str(folder)).find({})


def test_file_of_a_dead_gateway_is_ignored_if_another_process_has_its_number(folder: Path) -> None:
    facts = {"url": "http://127.0.0.1:7433", "pid": os.getpid(), "started": start_mark(os.getpid())}
    (folder / "server.json").write_text(json.dumps(facts))
    assert EndpointOptions(data=str(folder)).find({}).url == "http://127.0.0.1:7433"
    (folder / "server.json").write_text(json.dumps({**facts, "started": "an-earlier-boot/1"}))
    with pytest.raises(Unreachable):
        EndpointOptions(data=str(folder)).find({})


@pytest.mark.parametrize("text", ["", "{", '{"url": 1}', '{"url": "http://x"}', '{"url": "http://x", "pid": -1}'])
def test_malformed_file_counts_as_no_gateway(folder: Path, text: str) -> None:
    (folder / "server.json").write_text(text)
    with pytest.raises(Unreachable):
        EndpointOptions(data=str(folder)).find({})


def test_stored_token_is_not_sent_to_other_hosts(folder: Path) -> None:
    env = {"FAIRLEAD_DATA": str(folder)}
    with pytest.raises(Denied, match="FAIRLEAD_TOKEN"):
        EndpointOptions(url="https://evil.example").find(env)
    assert EndpointOptions(url="http://127.0.0.1:9/").find(env) == GatewayEndpoint("http://127.0.0.1:9", "secret")
    assert EndpointOptions(url="https://gateway.example:8443/").find(env).token == "secret"
    assert EndpointOptions(url="https://proxy.example", data=str(folder)).find({}).token == "secret"
    assert EndpointOptions(url="https://evil.example", token="for them").find(env).token == "for them"


def test_error_for_a_missing_token_explains_how_to_set_one(folder: Path) -> None:
    (folder / "admin-token").unlink()
    with pytest.raises(Denied, match="FAIRLEAD_TOKEN"):
        EndpointOptions(data=str(folder)).find({})


@pytest.mark.parametrize("url", ["localhost:7433", "ftp://x", "http://", "http://a b", "http://x:99999"])
def test_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        checked_url(url)


def test_query_fragment_and_trailing_slash_are_removed_from_addresses() -> None:
    assert checked_url("https://x.example/base/?a#b") == "https://x.example/base"


def test_loopback() -> None:
    assert all(map(is_on_loopback, ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost", "https://127.9.9.9"]))
    assert not any(map(is_on_loopback, ["http://10.0.0.1", "http://localhost.evil.example", "https://example.org"]))
