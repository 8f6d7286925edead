"""The settings choose the store, and say what is missing."""

import builtins
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.config import Config
from fairlead.model.errors import BadRequest, FairleadError
from fairlead.stores.nats.store import NatsStore
from fairlead.stores.sqlite import SqliteStore
from fairlead.system.clock import SystemClock
from fairlead.wiring.stores import default_node, nats_options, open_store, read_cluster_key
from stores.nats_servers import NatsServers


def failed(error: FairleadError) -> None:
    raise AssertionError(error)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    file = tmp_path / "cell.key"
    file.write_text("0123456789abcdef0123456789abcdef\n")
    file.chmod(0o600)
    return file


async def test_sqlite_is_the_default(tmp_path: Path) -> None:
    store = await open_store(Config(data=str(tmp_path)), SystemClock(), failed)
    assert type(store) is SqliteStore
    await store.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServers]:
    started = NatsServers(tmp_path / "nats").start()
    yield started
    started.stop()


@pytest.mark.process
async def test_an_address_of_nats_servers_opens_a_cell(tmp_path: Path, server: NatsServers, key: Path) -> None:
    config = Config(
        data=str(tmp_path / "data"),
        store=f"{server.urls}/team",
        node="paris",
        cluster_key=str(key),
        shared=("/srv/work",),
        roots=("/home/me",),
    )
    store = await open_store(config, SystemClock(), failed)
    assert isinstance(store, NatsStore)
    assert (store.node, store.address.cell) == ("paris", "team")
    # The description goes out with the next renewal.
    await store.presence._renew()
    (node,) = store.peers.nodes()
    assert (node.info.shared, node.info.roots) == (("/srv/work",), ("/home/me",))
    twin = store.presence.on_twin
    with pytest.raises(AssertionError, match="another"):
        twin("another gateway has this name")
    await store.close()


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, key: Path) -> None:
    real = builtins.__import__

    def without_nats(name: str, *rest: Any, **more: Any) -> Any:
        if name == "fairlead.stores.nats.store":
            raise ModuleNotFoundError("No module named 'nats'", name="nats.aio")
        return real(name, *rest, **more)

    monkeypatch.delitem(sys.modules, "fairlead.stores.nats.store")
    monkeypatch.setattr(builtins, "__import__", without_nats)
    with pytest.raises(BadRequest, match=r"fairlead\[cluster\]"):
        nats_options(Config(store="nats://one/main", cluster_key=str(key)))


def test_a_cluster_key_is_needed_private_and_long(tmp_path: Path, key: Path) -> None:
    assert read_cluster_key(str(key)) == b"0123456789abcdef0123456789abcdef"
    with pytest.raises(BadRequest, match="--cluster-key"):
        read_cluster_key("")
    with pytest.raises(BadRequest, match="cannot be read"):
        read_cluster_key(str(tmp_path / "none"))
    key.chmod(0o644)
    with pytest.raises(BadRequest, match="chmod 600"):
        read_cluster_key(str(key))
    key.chmod(0o600)
    key.write_text("short")
    with pytest.raises(BadRequest, match="too short"):
        read_cluster_key(str(key))


@pytest.mark.parametrize(("host", "node"), [("paris.example.org", "paris"), ("höst 1", "h-st-1"), ("...", "node")])
def test_the_name_of_the_machine_names_the_node(monkeypatch: pytest.MonkeyPatch, host: str, node: str) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert default_node() == node
