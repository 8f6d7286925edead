"""Resources and their feed in the database: one transaction, positions that grow, a bounded feed."""

import sqlite3
from pathlib import Path

import pytest

from fairlead.notifications.api.feed import Change
from fairlead.notifications.api.resources import StoredResource
from fairlead.stores.sqlite import SqliteStore
from fairlead.stores.sqlite.crash_detection import new_log_ids


def made(number: int) -> Change:
    return Change(resource="task", action="create", id=str(number), name=f"task {number}")


async def test_a_change_and_its_feed_entry_are_written_together(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    (entry,) = await store.resources.write(7, puts=[StoredResource("task", "a", b'{"n":1}')], items=[made(1)])
    assert (entry.seq, entry.at, entry.item) == (1, 7, made(1))
    with pytest.raises(Exception, match="constraint"):
        # The row cannot be written, so the feed gets no entry either.
        await store.resources.write(8, puts=[StoredResource("task", None, b"{}")], items=[made(2)])  # type: ignore[arg-type]  # the fault
    assert (await store.resources.feed(0, 10)).head == 1
    await store.close()


async def test_lists_are_newest_first_and_an_edit_keeps_its_position(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    for name in "abc":
        await store.resources.write(1, puts=[StoredResource("task", name, name.encode())])
    await store.resources.write(1, puts=[StoredResource("task", "a", b"A"), StoredResource("project", "a", b"other")])
    rows = await store.resources.scan("task", None, 2)
    assert [data for _, data in rows] == [b"c", b"b"]
    assert [data for _, data in await store.resources.scan("task", rows[-1][0], 2)] == [b"A"]
    assert (await store.resources.get("task", "a"), await store.resources.get("task", "z")) == (b"A", None)
    await store.resources.write(1, removes=[("task", "b")])
    assert await store.resources.count("task") == 2
    await store.close()


async def test_the_feed_keeps_the_last_entries_and_reports_the_first_one_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.stores.sqlite.resources.FEED_KEPT", 3)
    store = await SqliteStore.open(tmp_path)
    for number in range(1, 8):
        await store.resources.write(number, items=[made(number)])
    page = await store.resources.feed(0, 10)
    assert ([entry.seq for entry in page.entries], page.first, page.head) == ([5, 6, 7], 5, 7)
    assert [entry.seq for entry in (await store.resources.feed(5, 1)).entries] == [6]
    await store.close()
    # Positions continue after a restart, and the feed keeps its id.
    again = await SqliteStore.open(tmp_path)
    (entry,) = await again.resources.write(9, items=[made(8)])
    assert (entry.seq, (await again.resources.feed(7, 1)).feed) == (8, page.feed)
    await again.close()


async def test_lost_or_restored_positions_give_the_feed_a_new_id(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    before = (await store.resources.feed(0, 1)).feed
    await store.close()
    db = sqlite3.connect(tmp_path / "fairlead.db")
    new_log_ids(db)
    db.commit()
    db.close()
    store = await SqliteStore.open(tmp_path)
    assert (await store.resources.feed(0, 1)).feed != before
    await store.close()
