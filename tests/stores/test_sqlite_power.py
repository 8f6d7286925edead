"""After a power cut no old cursor is accepted as a position in a log that may have lost its end."""

import json
import sqlite3
from pathlib import Path

import pytest

from fairlead.stores.sqlite import SqliteStore
from fairlead.stores.sqlite.connections import Durability
from fairlead.stores.sqlite.crash_detection import mark_open
from fairlead_testing.store_conformance import batch, new_session, seqs


def killed_store(folder: Path, boot: str, durability: Durability) -> None:
    """Leave the file as a gateway leaves it that was running and never closed it."""
    db = sqlite3.connect(folder / "fairlead.db")
    db.execute(
        "insert or replace into meta values ('running', ?)", (json.dumps({"boot": boot, "durability": durability}),)
    )
    db.execute("insert into nodes values ('other', 9000000000000)")
    db.execute("update logs set node = 'other'")
    db.commit()
    db.close()


async def reopened(folder: Path, boot: str = "", durability: Durability = "process") -> tuple[str, str]:
    """The log's id before and after. With `boot`, the store was not closed and `boot` was the machine's boot id."""
    store = await SqliteStore.open(folder, durability=durability)
    session = new_session()
    lease, before, head = await store.claim(session)
    await store.append(lease, batch(1, 2), head)
    await store.close()
    if boot:
        killed_store(folder, boot, durability)
    store = await SqliteStore.open(folder, durability=durability)
    try:
        # The owner of the lock is alone, whatever presence a dead node has left.
        _, after, head = await store.claim(session)
        assert head == 2
        page = await store.read(session, 1, 10)
        assert (page.log_id, seqs(page)) == (after, [2])
        return before, after
    finally:
        await store.close()


BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


async def test_a_closed_store_keeps_its_log_ids(tmp_path: Path) -> None:
    before, after = await reopened(tmp_path)
    assert before == after


async def test_a_killed_store_keeps_its_log_ids(tmp_path: Path) -> None:
    before, after = await reopened(tmp_path, BOOT)
    assert before == after


async def test_a_power_cut_gives_new_log_ids(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before, after = await reopened(tmp_path, "an earlier one")
    assert before != after
    assert "during a power cut" in caplog.text


async def test_a_power_cut_that_cannot_have_lost_entries_keeps_the_log_ids(tmp_path: Path) -> None:
    before, after = await reopened(tmp_path, "an earlier one", "power")
    assert before == after


def test_a_machine_without_a_boot_id(tmp_path: Path) -> None:
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute("create table meta (name text primary key, value text)")
    assert not mark_open(db, "process", tmp_path / "absent")
    assert not mark_open(db, "process", tmp_path / "absent")
