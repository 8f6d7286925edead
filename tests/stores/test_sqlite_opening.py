"""Opening a data folder: new, old, newer, foreign, damaged, in use."""

import asyncio
import fcntl
import json
import os
import sqlite3
import stat
import sys
from pathlib import Path

import msgspec
import pytest

from fairlead.model.errors import Damaged, FolderInUse, Unavailable
from fairlead.model.ids import SessionId
from fairlead.model.store import SessionFilter, Summary
from fairlead.stores.sqlite import SqliteStore, restore, upgrade
from fairlead.stores.sqlite.connections import connect, make_private
from fairlead.stores.sqlite.schema import APPLICATION_ID, FIRST, STEPS, migrate, own_version
from fairlead_testing.store_conformance import batch, new_session, read_all, refusal, seqs


async def test_a_new_folder_is_private(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "data"
    store = await SqliteStore.open(folder)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}
    await store.close()
    assert modes.pop("data") == 0o700
    assert set(modes.values()) == {0o600}


async def test_a_closed_store_leaves_complete_files_and_rejects_calls(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    session = new_session()
    lease, _, head = await store.claim(session)
    await store.append(lease, batch(1), head)
    await store.close()
    await store.close()
    assert sorted(os.listdir(tmp_path)) == ["fairlead.db", "fairlead.lock", "search.db"]
    for call in (
        store.append(lease, batch(2), 1),
        store.read(session, 0, 1),
        store.wait_indexed(),
        store.documents.put("s", "k", 1),
    ):
        await refusal(Unavailable, call)


# --- schema versions

OLDER = """
create table meta (name text primary key, value text not null) without rowid;
create table notes (id integer primary key, words text not null);
"""
NEWER = """
alter table notes add column at integer not null default 7;
create table tags (note integer, tag text);
create trigger tagged after insert on notes begin
    insert into tags values (new.id, 'new');
end;
"""


def older_file(file: Path, words: str = "kept") -> None:
    make_private(file)
    db = connect(file)
    migrate(db, file, (OLDER,))
    db.execute("insert into notes (words) values (?)", (words,))
    db.close()


def test_an_older_file_is_brought_up_to_date_with_its_data(tmp_path: Path) -> None:
    file = tmp_path / "old.db"
    older_file(file)
    db = connect(file)
    migrate(db, file, (OLDER, NEWER))
    assert db.execute("pragma user_version").fetchone() == (2,)
    assert db.execute("select words, at from notes").fetchall() == [("kept", 7)]
    db.execute("insert into notes (words) values ('second')")
    assert db.execute("select tag from tags").fetchall() == [("new",)]
    db.close()


def test_a_step_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "old.db"
    older_file(file)
    db = connect(file)
    with pytest.raises(sqlite3.OperationalError):
        migrate(db, file, (OLDER, NEWER + "create table notes (id);"))
    assert db.execute("pragma user_version").fetchone() == (1,)
    assert db.execute("select * from notes").fetchall() == [(1, "kept")]
    migrate(db, file, (OLDER, NEWER))
    assert db.execute("pragma user_version").fetchone() == (2,)
    db.close()


async def test_a_file_of_the_first_schema_opens_with_its_logs(tmp_path: Path) -> None:
    """The first released tables, filled by hand: every later version must still show their content."""
    file = tmp_path / "fairlead.db"
    make_private(file)
    db = connect(file)
    migrate(db, file, (FIRST,))
    session = new_session()
    db.execute("insert into logs (id, session, log_id, epoch) values (4, ?, 'the-log', 9)", (session,))
    db.execute("update meta set value = '9' where name = 'epoch'")
    db.execute(
        "insert into entries (log, seq, prev, epoch, at, kind, event, origin, raw)"
        " values (4, 2, 0, 9, 77, 'text', '{\"type\":\"text\",\"text\":\"old words\"}', 'agent', 'line')"
    )
    db.close()
    store = await SqliteStore.open(tmp_path)
    try:
        page = await store.read(session, 0, 10)
        assert (page.log_id, page.head) == ("the-log", 2)
        assert (page.entries[0].event, page.entries[0].raw) == (b'{"type":"text","text":"old words"}', b"line")
        await store.wait_indexed()
        assert [hit.seq for hit in await store.search("old")] == [2]
        lease, _, head = await store.claim(session)
        assert (lease.epoch, await store.append(lease, batch(3), head)) == (10, 3)
    finally:
        await store.close()


def first_schema(folder: Path) -> None:
    """A data folder of the first version."""
    file = folder / "fairlead.db"
    make_private(file)
    db = connect(file)
    migrate(db, file, (FIRST,))
    db.execute("insert into documents values ('s', 'k', '\"kept\"')")
    db.close()


def copies_in(folder: Path) -> list[Path]:
    return list(folder.glob("before-upgrade-*"))


async def test_a_backup_is_made_before_a_migration_and_can_be_restored(tmp_path: Path) -> None:
    first_schema(tmp_path)
    store = await SqliteStore.open(tmp_path)
    assert await store.documents.get("s", "k") == "kept"
    await store.close()
    (copy,) = copies_in(tmp_path)
    assert copy.name.startswith("before-upgrade-schema-1-")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    db = connect(copy, read_only=True)
    assert db.execute("pragma user_version").fetchone() == (1,)
    db.close()
    restore(copy, tmp_path / "restored")
    again = await SqliteStore.open(tmp_path / "restored")
    assert await again.documents.get("s", "k") == "kept"
    await again.close()
    # The next start has nothing to migrate.
    await (await SqliteStore.open(tmp_path)).close()
    assert copies_in(tmp_path) == [copy]


async def test_a_migration_can_be_refused_and_changes_nothing(tmp_path: Path) -> None:
    first_schema(tmp_path)
    error = await refusal(Damaged, SqliteStore.open(tmp_path, migration="refuse"))
    assert "--migrate backup" in error.message
    db = connect(tmp_path / "fairlead.db")
    assert db.execute("pragma user_version").fetchone() == (1,)
    db.close()
    assert copies_in(tmp_path) == []
    # A new folder has nothing to migrate.
    await (await SqliteStore.open(tmp_path / "new", migration="refuse")).close()


async def test_nothing_is_migrated_without_room_for_the_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first_schema(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(upgrade, "back_up", full)
    await refusal(Unavailable, SqliteStore.open(tmp_path))
    db = connect(tmp_path / "fairlead.db")
    assert db.execute("pragma user_version").fetchone() == (1,)
    db.close()


@pytest.mark.parametrize("knows_its_writer", [True, False])
async def test_a_newer_file_is_refused_with_the_version_that_wrote_it(tmp_path: Path, knows_its_writer: bool) -> None:
    await (await SqliteStore.open(tmp_path)).close()
    db = sqlite3.connect(tmp_path / "fairlead.db")
    db.execute(f"pragma user_version = {len(STEPS) + 2}")
    if knows_its_writer:
        db.execute("update meta set value = '9.8.7' where name = 'written_by'")
    else:
        db.execute("drop table meta")
    db.commit()
    db.close()
    before = (tmp_path / "fairlead.db").read_bytes()
    error = await refusal(Damaged, SqliteStore.open(tmp_path))
    assert own_version() in error.message
    assert "fairlead restore" in error.message
    assert error.data["schema"] == len(STEPS) + 2
    if knows_its_writer:
        assert "Install Fairlead 9.8.7 or newer" in error.message
    assert (tmp_path / "fairlead.db").read_bytes() == before


async def test_every_field_of_a_summary_has_its_column(tmp_path: Path) -> None:
    await (await SqliteStore.open(tmp_path)).close()
    db = sqlite3.connect(tmp_path / "fairlead.db")
    columns = {row[1] for row in db.execute("pragma table_info(sessions)")}
    db.close()
    assert columns == {field.name for field in msgspec.structs.fields(Summary)}


# --- damage


async def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fairlead.db").write_bytes(b"these are no pages of SQLite" * 100)
    error = await refusal(Damaged, SqliteStore.open(tmp_path))
    assert str(tmp_path / "fairlead.db") in error.message
    assert "fairlead restore" in error.message


async def test_a_database_of_another_program_is_refused_and_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "fairlead.db"
    db = sqlite3.connect(file)
    db.execute("create table photos (id)")
    db.commit()
    db.close()
    before = file.read_bytes()
    assert "another program" in (await refusal(Damaged, SqliteStore.open(tmp_path))).message
    assert file.read_bytes() == before


def spoil(file: Path, words: bytes) -> None:
    """Write over the first page that holds `words`."""
    data = file.read_bytes()
    page = data.index(words) // 4096 * 4096
    file.write_bytes(data[:page] + b"\xee" * 4096 + data[page + 4096 :])


async def filled(folder: Path) -> tuple[SessionId, int]:
    store = await SqliteStore.open(folder)
    session = new_session()
    lease, _, head = await store.claim(session)
    for _ in range(20):
        head = await store.append(lease, batch(*range(head + 1, head + 51)), head)
    await store.close()
    return session, head


async def test_a_malformed_table_is_refused(tmp_path: Path) -> None:
    await filled(tmp_path)
    file = tmp_path / "fairlead.db"
    spoil(file, b'"entry 1000"')
    error = await refusal(Damaged, SqliteStore.open(tmp_path))
    assert str(file) in error.message
    assert "fairlead restore" in error.message


async def test_a_malformed_page_is_reported_when_it_is_read(tmp_path: Path) -> None:
    session, head = await filled(tmp_path)
    file = tmp_path / "fairlead.db"
    spoil(file, b'"entry 1"')
    store = await SqliteStore.open(tmp_path)
    try:
        lease, _, _ = await store.claim(session)
        for call in (store.read(session, 0, 10), store.append(lease, batch(drop=(1,)), head)):
            error = await refusal(Damaged, call)
            assert str(file) in error.message
            assert "fairlead restore" in error.message
        # Calls that do not need that page still work.
        assert await store.append(lease, batch(head + 1), head) == head + 1
        assert seqs(await store.tail(session, None, 2)) == [head, head + 1]
    finally:
        await store.close()


async def test_a_failed_open_releases_the_folder(tmp_path: Path) -> None:
    (tmp_path / "fairlead.db").write_bytes(b"no database" * 100)
    await refusal(Damaged, SqliteStore.open(tmp_path))
    (tmp_path / "fairlead.db").unlink()
    await (await SqliteStore.open(tmp_path)).close()


# --- one gateway per folder

HOLD = """
import asyncio, sys
from pathlib import Path
from fairlead.stores.sqlite import SqliteStore, restore, upgrade

async def hold():
    store = await SqliteStore.open(Path(sys.argv[1]))
    print("open", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await store.close()

asyncio.run(hold())
"""


@pytest.mark.process
async def test_a_second_gateway_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    pipe = asyncio.subprocess.PIPE
    first = await asyncio.create_subprocess_exec(sys.executable, "-c", HOLD, str(tmp_path), stdin=pipe, stdout=pipe)
    assert first.stdout is not None
    assert await first.stdout.readline() == b"open\n"
    error = await refusal(FolderInUse, SqliteStore.open(tmp_path))
    assert f"pid {first.pid}" in error.message
    assert "running since 20" in error.message
    assert (error.code, error.data["pid"]) == ("folder_in_use", first.pid)
    # Killed, not closed: the kernel releases the lock, and the content of the file does not matter.
    first.kill()
    await first.wait()
    assert json.loads((tmp_path / "fairlead.lock").read_bytes())["pid"] == first.pid
    store = await SqliteStore.open(tmp_path)
    assert json.loads((tmp_path / "fairlead.lock").read_bytes())["pid"] == os.getpid()
    assert (await store.sessions(SessionFilter())).sessions == ()
    await store.close()


async def test_a_second_gateway_is_refused_before_the_first_has_written_its_pid(tmp_path: Path) -> None:
    first = os.open(tmp_path / "fairlead.lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(first, fcntl.LOCK_EX)
    error = await refusal(FolderInUse, SqliteStore.open(tmp_path))
    os.close(first)
    assert "in use by another gateway:" in error.message


async def test_entries_of_a_store_are_read_by_the_next_one(tmp_path: Path) -> None:
    session = new_session()
    for n in range(1, 4):
        store = await SqliteStore.open(tmp_path)
        lease, _, head = await store.claim(session)
        assert head == n - 1
        await store.append(lease, batch(n), head)
        await store.close()
    store = await SqliteStore.open(tmp_path)
    assert seqs(await read_all(store, session)) == [1, 2, 3]
    await store.close()


def test_the_file_contains_the_application_id() -> None:
    assert APPLICATION_ID.to_bytes(4, "big") == b"FARL"
