"""Where a command finds its gateway, and whom it gives the token to."""

import json
import os
from pathlib import Path

import pytest

from fairlead.cli.endpoint import Endpoint, EndpointOptions, checked_url, is_loopback
from fairlead.cli.errors import Denied, Unreachable, UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with a token, on which this process serves."""
    (tmp_path / "server.json").write_text(json.dumps({"url": "https://gateway.example:8443", "pid": os.getpid()}))
    (tmp_path / "admin-token").write_text("secret\n")
    return tmp_path


def test_the_data_folder_tells_address_and_token(folder: Path) -> None:
    assert EndpointOptions(data=str(folder)).find({}) == Endpoint("https://gateway.example:8443", "secret", own=True)
    assert EndpointOptions().find({"FAIRLEAD_DATA": str(folder)}).token == "secret"


def test_a_token_of_the_command_line_counts(folder: Path) -> None:
    assert EndpointOptions(token="mine", data=str(folder)).find({}).token == "mine"


def test_nobody_serving_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="fairlead serve"):
        EndpointOptions(data=str(tmp_path)).find({})


def test_the_file_of_a_gateway_that_died_is_not_believed(folder: Path) -> None:
    """Its port may be another program's by now, which would get the token."""
    dead = os.fork()
    if dead == 0:
        os._exit(0)
    os.waitpid(dead, 0)
    (folder / "server.json").write_text(json.dumps({"url": "http://127.0.0.1:7433", "pid": dead}))
    with pytest.raises(Unreachable):
        EndpointOptions(data=str(folder)).find({})


@pytest.mark.parametrize("text", ["", "{", '{"url": 1}', '{"url": "http://x"}', '{"url": "http://x", "pid": -1}'])
def test_a_broken_file_is_no_gateway(folder: Path, text: str) -> None:
    (folder / "server.json").write_text(text)
    with pytest.raises(Unreachable):
        EndpointOptions(data=str(folder)).find({})


def test_the_kept_token_is_not_sent_to_strangers(folder: Path) -> None:
    env = {"FAIRLEAD_DATA": str(folder)}
    with pytest.raises(Denied, match="FAIRLEAD_TOKEN"):
        EndpointOptions(url="https://evil.example").find(env)
    assert EndpointOptions(url="http://127.0.0.1:9/").find(env) == Endpoint("http://127.0.0.1:9", "secret")
    assert EndpointOptions(url="https://gateway.example:8443/").find(env).token == "secret"
    assert EndpointOptions(url="https://proxy.example", data=str(folder)).find({}).token == "secret"
    assert EndpointOptions(url="https://evil.example", token="for them").find(env).token == "for them"


def test_a_missing_token_says_how_to_give_one(folder: Path) -> None:
    (folder / "admin-token").unlink()
    with pytest.raises(Denied, match="FAIRLEAD_TOKEN"):
        EndpointOptions(data=str(folder)).find({})


@pytest.mark.parametrize("url", ["localhost:7433", "ftp://x", "http://", "http://a b", "http://x:99999"])
def test_what_is_not_an_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        checked_url(url)


def test_addresses_lose_what_does_not_belong_to_them() -> None:
    assert checked_url("https://x.example/base/?a#b") == "https://x.example/base"


def test_loopback() -> None:
    assert all(map(is_loopback, ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost", "https://127.9.9.9"]))
    assert not any(map(is_loopback, ["http://10.0.0.1", "http://localhost.evil.example", "https://example.org"]))
