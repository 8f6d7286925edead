"""`fairlead storage`: a folder goes into a cell and comes back, and mistakes are explained."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.conftest import Fairlead
from fairlead.cli.errors import ExitCode
from fairlead.model.ids import SessionId
from fairlead.model.store import Summary
from fairlead.stores.sqlite import SqliteStore
from fairlead_testing.store_conformance import batch, new_session
from stores.nats_servers import NatsServers

pytestmark = pytest.mark.process


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServers]:
    started = NatsServers(tmp_path / "nats").start()
    yield started
    started.stop()


@pytest.fixture
def key(tmp_path: Path) -> str:
    file = tmp_path / "cell.key"
    file.write_text("0123456789abcdef0123456789abcdef")
    file.chmod(0o600)
    return str(file)


async def fill(folder: Path) -> SessionId:
    store = await SqliteStore.open(folder)
    session = new_session()
    lease, _, head = await store.claim(session)
    await store.append(lease, batch(1, 2, summary=Summary(session=session, title="moved")), head)
    await store.close()
    return session


def test_a_folder_goes_into_a_cell_and_comes_back(
    fairlead: Fairlead, tmp_path: Path, server: NatsServers, key: str
) -> None:
    data, store = tmp_path / "data", f"{server.urls}/main"
    session = asyncio.run(fill(data))
    cell = ("--cluster-key", key, "--node", "one", "--data", str(data))
    moved = fairlead("storage", "move", "--to", store, *cell)
    assert moved.code == 0, moved.err
    assert f"--store {store}" in moved.err
    refused = fairlead("serve", "--data", str(data), "--agent", "demo", "--port", "0")
    assert refused.code != 0
    assert f"--store {store}" in refused.err
    again = fairlead("storage", "move", "--to", store, *cell)
    assert again.code != 0
    assert "belongs to a cell" in again.err
    mended = fairlead("storage", "mend", "--all", "--store", store, "--cluster-key", key, "--data", str(data), "--json")
    assert mended.lines == [{"mended": [], "refused": []}]
    silent = fairlead("storage", "verify", "--store", store, "--cluster-key", key, "--data", str(data))
    assert "No gateway of the cell answers" in silent.err
    back = fairlead("storage", "move", "--to", "sqlite", "--store", store, *cell, "--json")
    assert back.lines == [{"folder": str(data), "store": "sqlite"}]

    async def title() -> str:
        opened = await SqliteStore.open(data)
        found = await opened.summary(session)
        await opened.close()
        return found.title if found is not None else ""

    assert asyncio.run(title()) == "moved"


def test_mistakes_are_explained(fairlead: Fairlead, tmp_path: Path, key: str) -> None:
    data = ("--data", str(tmp_path / "data"))
    for words, hint in (
        (("move", "--to", "sqlite", *data), "--store nats://"),
        (("move", "--to", "http://x", "--cluster-key", key, *data), "is not a store"),
        (("move", "--to", "nats://127.0.0.1:1", *data), "cluster key"),
        (("mend", "--cluster-key", key, *data), "--all"),
        (("verify", *data), "--store nats://"),
    ):
        ran = fairlead("storage", *words)
        assert ran.code in (ExitCode.USAGE, ExitCode.FAILED), (words, ran)
        assert hint in ran.err, (words, ran.err)
