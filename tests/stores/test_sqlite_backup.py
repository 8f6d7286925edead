"""Backup of a running store, and restore into a new one."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fairlead.model.errors import BadRequest, Damaged, FolderInUse, NotFound, Unavailable
from fairlead.model.store import Batch, Checkpoint, Entry, StoredReply, Summary
from fairlead.stores.sqlite import SqliteStore, backup, restore
from fairlead_testing.store_conformance import assert_stored, batch, entry, new_session, read_all, refusal, seqs
from stores.sqlite_stores import back_up


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "data", spill_above=1000)
    yield store
    await store.close()


LARGE = Entry(2, 0, 0, "text", b'{"type":"text","text":"large"}', "agent", b"\xff\x00" * 5000)


async def test_a_backup_restores_everything_under_new_log_ids(store: SqliteStore, tmp_path: Path) -> None:
    session = new_session()
    lease, log_id, head = await store.claim(session)
    stored = Batch(
        entries=(entry(1), LARGE),
        summary=Summary(session=session, title="kept"),
        checkpoints=(Checkpoint("c", 2, b"state"),),
        replies=(StoredReply("k", b"reply"),),
    )
    await store.append(lease, stored, head)
    await store.documents.put("space", "key", {"a": 1})
    progress: list[tuple[int, int]] = []
    await back_up(store, tmp_path / "backup", lambda done, total: progress.append((done, total)))
    assert progress[-1][0] == progress[-1][1] > 0
    await store.append(lease, batch(3), 2)

    restore(tmp_path / "backup", tmp_path / "second")
    second = await SqliteStore.open(tmp_path / "second")
    try:
        page = await second.read(session, 0, 10)
        assert page.log_id != log_id
        assert_stored(page.entries, stored.entries)
        assert await second.checkpoint(session, "c") == Checkpoint("c", 2, b"state")
        assert await second.find(session, "k") == b"reply"
        assert await second.summary(session) == stored.summary
        assert await second.documents.get("space", "key") == {"a": 1}
        await second.wait_indexed()
        assert [hit.seq for hit in await second.search("large")] == [2]
        newer, _, head = await second.claim(session)
        assert newer.epoch > lease.epoch
        assert await second.append(newer, batch(3), head) == 3
    finally:
        await second.close()


async def test_a_backup_during_writes_is_a_copy_of_one_moment(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "_PAGES", 8)
    progress: list[int] = []
    leases = [(await store.claim(new_session()))[0] for _ in range(2)]
    for lease in leases:
        await store.append(lease, Batch(entries=tuple(entry(n, raw=b"x" * 900) for n in range(1, 1001))), 0)
    stop = asyncio.Event()

    async def write() -> None:
        head = 1000
        while not stop.is_set():
            # Both logs grow in step: in a copy of one moment they are at most one entry apart.
            for lease in leases:
                await store.append(lease, batch(head + 1), head)
            head += 1

    writing = asyncio.ensure_future(write())
    await back_up(store, tmp_path / "backup", lambda done, _: progress.append(done))
    stop.set()
    await writing
    # The backup never started over, whatever was written meanwhile.
    assert progress == sorted(progress)
    assert len(progress) > 50
    restore(tmp_path / "backup", tmp_path / "second")
    second = await SqliteStore.open(tmp_path / "second")
    first, other = [seqs(await read_all(second, lease.session, limit=500)) for lease in leases]
    await second.close()
    assert first == list(range(1, len(first) + 1))
    assert other == list(range(1, len(other) + 1))
    assert len(other) <= len(first) <= len(other) + 1


async def test_a_backup_never_replaces_a_file(store: SqliteStore, tmp_path: Path) -> None:
    (tmp_path / "backup").write_bytes(b"mine")
    await refusal(BadRequest, back_up(store, tmp_path / "backup"))
    assert (tmp_path / "backup").read_bytes() == b"mine"


async def test_a_backup_to_a_missing_folder_names_the_path(store: SqliteStore, tmp_path: Path) -> None:
    error = await refusal(Unavailable, back_up(store, tmp_path / "absent" / "backup"))
    assert str(tmp_path / "absent" / "backup") in error.message


async def test_a_failed_backup_leaves_no_partial_file(store: SqliteStore, tmp_path: Path) -> None:
    lease, _, head = await store.claim(new_session())
    await store.append(lease, Batch(entries=(entry(1), LARGE)), head)
    for file in (tmp_path / "data" / "spill").glob("*/*"):
        os.unlink(file)
    await refusal(Damaged, back_up(store, tmp_path / "backup"))
    assert os.listdir(tmp_path) == ["data"]


async def test_restore_replaces_only_with_overwrite(store: SqliteStore, tmp_path: Path) -> None:
    session = new_session()
    lease, _, head = await store.claim(session)
    await store.append(lease, batch(1), head)
    await back_up(store, tmp_path / "backup")
    await store.append(lease, batch(2), 1)
    with pytest.raises(FolderInUse):
        restore(tmp_path / "backup", store.folder, overwrite=True)
    await store.close()
    with pytest.raises(BadRequest, match="--force"):
        restore(tmp_path / "backup", store.folder)
    restore(tmp_path / "backup", store.folder, overwrite=True)
    assert sorted(os.listdir(store.folder)) == ["fairlead.db", "fairlead.lock"]
    again = await SqliteStore.open(store.folder)
    assert seqs(await read_all(again, session)) == [1]
    await again.close()


def test_a_missing_or_damaged_backup_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "fairlead.db").write_bytes(b"what is there")
    with pytest.raises(NotFound):
        restore(tmp_path / "absent", folder, overwrite=True)
    (tmp_path / "garbage").write_bytes(b"garbage" * 1000)
    with pytest.raises(Damaged):
        restore(tmp_path / "garbage", folder, overwrite=True)
    db = sqlite3.connect(tmp_path / "foreign")
    db.execute("create table photos (id)")
    db.commit()
    db.close()
    with pytest.raises(Damaged, match="another program"):
        restore(tmp_path / "foreign", folder, overwrite=True)
    assert (folder / "fairlead.db").read_bytes() == b"what is there"
    assert sorted(os.listdir(folder)) == ["fairlead.db", "fairlead.lock"]


async def test_a_backup_with_a_broken_page_is_refused(store: SqliteStore, tmp_path: Path) -> None:
    lease, _, head = await store.claim(new_session())
    await store.append(lease, Batch(entries=tuple(entry(n) for n in range(1, 501))), head)
    await back_up(store, tmp_path / "backup")
    whole = (tmp_path / "backup").read_bytes()
    (tmp_path / "backup").write_bytes(whole[: len(whole) // 2] + b"\xee" * 4096 + whole[len(whole) // 2 + 4096 :])
    with pytest.raises(Damaged):
        restore(tmp_path / "backup", tmp_path / "second")
    assert os.listdir(tmp_path / "second") == ["fairlead.lock"]


async def test_a_plain_copy_of_a_closed_folder_restores_too(store: SqliteStore, tmp_path: Path) -> None:
    session = new_session()
    lease, _, head = await store.claim(session)
    await store.append(lease, batch(1), head)
    await store.close()
    restore(store.folder / "fairlead.db", tmp_path / "second")
    second = await SqliteStore.open(tmp_path / "second")
    assert seqs(await read_all(second, session)) == [1]
    await second.close()
