"""Off the live path: copying the WAL back, keeping it short, and finishing an interrupted erase."""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from fairlead.model.errors import NotFound, Unavailable
from fairlead.model.store import Batch, Checkpoint, ForkPoint, Lease, StoredReply
from fairlead.stores.sqlite import SqliteStore, erase, maintenance
from fairlead_testing.store_conformance import batch, entry, new_session, read_all, refusal, seqs
from patience import PATIENCE


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path)
    yield store
    await store.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


def wal(store: SqliteStore) -> Path:
    return store.folder / "fairlead.db-wal"


async def grow(store: SqliteStore, megabytes: int) -> None:
    lease, _, head = await store.claim(new_session())
    for n in range(1, megabytes + 1):
        head = await store.append(lease, Batch(entries=(entry(n, raw=b"x" * (1 << 20)),)), head)


async def test_a_long_wal_is_copied_back_without_the_writer(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "_CHECKPOINT_AFTER", 1 << 20)
    await grow(store, 3)
    await until(lambda: (store.folder / "fairlead.db").stat().st_size > 3 << 20)
    assert wal(store).stat().st_size > 0


async def test_a_quiet_store_has_its_data_in_one_file(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_QUIET", 0.01)
    await grow(store, 1)
    await until(lambda: (store.folder / "fairlead.db").stat().st_size > 1 << 20)


async def test_a_wal_that_is_too_long_is_truncated(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_CHECKPOINT_AFTER", 1 << 20)
    monkeypatch.setattr(maintenance, "_WAL_TOO_LONG", 1 << 20)
    await grow(store, 3)
    await until(lambda: wal(store).stat().st_size == 0)
    lease, _, head = await store.claim(new_session())
    assert await store.append(lease, batch(1), head) == 1


async def test_appends_do_not_wait_for_a_reader_that_needs_the_wal(store: SqliteStore) -> None:
    await grow(store, 1)
    reader = sqlite3.connect(store.folder / "fairlead.db", isolation_level=None)
    reader.execute("begin")
    reader.execute("select count(*) from entries").fetchone()
    store._writer.shrink()
    lease, _, head = await store.claim(new_session())
    assert await store.append(lease, batch(1), head) == 1
    assert wal(store).stat().st_size > 0
    reader.close()
    store._writer.shrink()
    await until(lambda: wal(store).stat().st_size == 0)
    # The busy timeout is restored: a short lock by another program does not fail an append.
    assert (await store._writer.do(lambda db: db.execute("pragma busy_timeout").fetchone()))[0] == 5000


async def test_failed_maintenance_is_logged_and_retried(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(maintenance, "_GATHER", 0.01)
    store._maintenance._index._db.execute("pragma busy_timeout = 0")
    other = sqlite3.connect(store.folder / "search.db", isolation_level=None)
    other.execute("begin immediate")
    lease, _, head = await store.claim(new_session())
    head = await store.append(lease, batch(1), head)
    await until(lambda: "maintenance of" in caplog.text)
    other.execute("rollback")
    other.close()
    await store.append(lease, batch(2), head)
    async with asyncio.timeout(PATIENCE):
        while len(await store.search("entry")) < 2:
            await asyncio.sleep(0.01)


# --- erasing


async def long_log(store: SqliteStore, length: int = 1200) -> Lease:
    lease, _, head = await store.claim(new_session())
    await store.append(lease, batch(*range(1, length + 1)), head)
    return lease


def rows(store: SqliteStore, table: str) -> int:
    db = sqlite3.connect(store.folder / "fairlead.db")
    (count,) = db.execute(f"select count(*) from {table}").fetchone()
    db.close()
    return int(count)


async def test_erasing_a_long_log_does_not_block_other_calls(store: SqliteStore) -> None:
    lease = await long_log(store, 5000)
    other, _, head = await store.claim(new_session())
    erased = asyncio.ensure_future(store.erase(lease.session))
    appended = 0
    while not erased.done():
        head = await store.append(other, batch(head + 1), head)
        appended += 1
    await erased
    assert appended > 3
    assert rows(store, "entries") == head
    assert rows(store, "logs") == 1


async def test_all_rows_of_an_erased_log_are_removed(store: SqliteStore) -> None:
    lease, _, head = await store.claim(new_session())
    await store.append(lease, batch(1, checkpoints=(Checkpoint("c", 1, b""),), replies=(StoredReply("k", b""),)), head)
    await store.erase(lease.session)
    assert [rows(store, table) for table in ("logs", "entries", "checkpoints", "replies")] == [0, 0, 0, 0]


async def test_an_interrupted_erase_is_finished_by_the_next_start(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    lease = await long_log(store)
    await store.wait_indexed()
    # The state after a kill right after the first commit.
    await store._writer.do(lambda db: erase.tombstone(db, lease.session), changes_logs=True)
    await refusal(NotFound, store.read(lease.session, 0, 1))
    assert await store.search("entry") == ()
    await store.close()
    assert rows(store, "entries") == 1200
    store = await SqliteStore.open(tmp_path)
    assert store._leftovers is not None
    await store._leftovers
    assert (rows(store, "entries"), rows(store, "logs")) == (0, 0)
    await store.close()
    index = sqlite3.connect(tmp_path / "search.db")
    assert index.execute("select count(*) from texts").fetchone() == (0,)
    index.close()


async def test_leftovers_that_cannot_be_removed_do_not_prevent_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = await SqliteStore.open(tmp_path)
    lease = await long_log(store, 3)
    await store._writer.do(lambda db: erase.tombstone(db, lease.session), changes_logs=True)
    await store.close()

    def full(db: sqlite3.Connection, log: int) -> int | None:
        raise Unavailable("full")

    with monkeypatch.context() as patch:
        patch.setattr(erase, "remove_slice", full)
        store = await SqliteStore.open(tmp_path)
        assert store._leftovers is not None
        await store._leftovers
        assert "not removed yet: full" in caplog.text
    await store.erase(lease.session)
    assert rows(store, "entries") == 0
    await store.close()


async def test_closing_interrupts_the_removal_of_leftovers(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    lease = await long_log(store)
    await store._writer.do(lambda db: erase.tombstone(db, lease.session), changes_logs=True)
    await store.close()
    store = await SqliteStore.open(tmp_path)
    await store.close()
    store = await SqliteStore.open(tmp_path)
    assert store._leftovers is not None
    await store._leftovers
    assert rows(store, "entries") == 0
    await store.close()


async def test_a_parent_is_removed_with_its_last_fork(store: SqliteStore) -> None:
    lease = await long_log(store, 10)
    forks = [(await store.claim(new_session(), ForkPoint(lease.session, seq)))[0] for seq in (7, 4)]
    await store.erase(lease.session)
    assert rows(store, "entries") == 7
    await store.erase(forks[0].session)
    assert rows(store, "entries") == 4
    assert seqs(await read_all(store, forks[1].session)) == [1, 2, 3, 4]
    await store.erase(forks[1].session)
    assert (rows(store, "entries"), rows(store, "logs")) == (0, 0)


async def test_a_parent_drops_entries_again_once_its_fork_is_gone(store: SqliteStore) -> None:
    lease = await long_log(store, 4)
    fork, _, _ = await store.claim(new_session(), ForkPoint(lease.session, 3))
    await store.append(lease, batch(5, drop=(2,)), 4)
    await store.erase(fork.session)
    await store.append(lease, batch(6, drop=(2,)), 5)
    assert seqs(await read_all(store, lease.session)) == [1, 3, 4, 5, 6]
