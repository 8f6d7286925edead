"""The counts for usage stats in the embedded store: rebuilt when their file is lost."""

import sqlite3
from pathlib import Path

from fairlead.stores.sqlite import SqliteStore
from fairlead_testing.insight_conformance import NOON, USAGE, Log, called, counted, ended


async def test_the_counts_are_rebuilt_when_the_file_is_lost(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    log = await Log.new(store)
    await log.append(NOON, ended(usage=USAGE), called("a", "Bash"))
    before = await counted(store)
    assert before.spent
    await store.close()
    (tmp_path / "search.db").unlink()
    store = await SqliteStore.open(tmp_path)
    assert await counted(store) == before
    await store.close()


async def test_a_file_of_an_older_version_is_rebuilt(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    await (await Log.new(store)).append(NOON, ended(usage=USAGE))
    before = await counted(store)
    await store.close()
    old = sqlite3.connect(tmp_path / "search.db")
    old.executescript("drop table spent; drop table turned; pragma user_version = 3;")
    old.close()
    store = await SqliteStore.open(tmp_path)
    assert await counted(store) == before
    await store.close()


async def test_an_unreadable_entry_is_skipped(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    log = await Log.new(store)
    await log.append(NOON, ended(), ended(usage=USAGE))
    await store.close()
    db = sqlite3.connect(tmp_path / "fairlead.db")
    db.execute("update entries set event = '{\"usage\": 7}' where seq = 1")
    db.commit()
    db.close()
    (tmp_path / "search.db").unlink()
    store = await SqliteStore.open(tmp_path)
    assert [row.turns for row in (await counted(store)).turns] == [1]
    await store.close()
