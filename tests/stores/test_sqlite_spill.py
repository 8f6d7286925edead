"""Records too large for a row: files next to the database, invisible to readers."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fairlead.model.errors import Conflict, Damaged, Unavailable
from fairlead.model.ids import SessionId
from fairlead.model.store import Batch, Entry, ForkPoint, Lease
from fairlead.stores.sqlite import SqliteStore
from fairlead.stores.sqlite.spill import Spill
from fairlead_testing.store_conformance import assert_stored, batch, new_session, read_all, refusal, seqs


@pytest.fixture(params=["process", "power"])
async def store(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path, spill_above=1000, durability=request.param)
    yield store
    await store.close()


def files(store: SqliteStore) -> list[str]:
    return sorted(str(path.relative_to(store.folder)) for path in store.folder.glob("spill/*/*"))


LARGE = (
    Entry(1, 0, 0, "tool.ended", b'{"type":"tool.ended"}', "agent", b"\xff" * 1001),
    Entry(2, 0, 0, "tool.ended", b'{"x":"' + b"y" * 2000 + b'"}', "agent", b"z" * 3000),
    Entry(3, 0, 0, "tool.ended", b'{"x":"' + b"y" * 2000 + b'"}'),
    Entry(4, 0, 0, "text", b"{}", "agent", b"x" * 1000),
)


async def test_records_too_large_for_a_row_are_in_files_and_read_the_same(store: SqliteStore) -> None:
    session = new_session()
    lease, _, head = await store.claim(session)
    assert await store.append(lease, Batch(entries=LARGE), head) == 4
    assert_stored(await read_all(store, session), LARGE)
    assert_stored((await store.tail(session, None, 4)).entries, LARGE)
    assert [name.split("/")[1] for name in files(store)] == [session] * 4
    assert sum((store.folder / name).stat().st_size for name in files(store)) == 1001 + 2 * 2008 + 3000
    # A repeat is recognised without reading the files, and writes nothing new.
    before = files(store)
    assert await store.append(lease, Batch(entries=LARGE), head) == 4
    assert files(store) == before


async def test_a_refused_append_never_changes_a_file_that_an_entry_names(store: SqliteStore) -> None:
    session = new_session()
    lease, _, head = await store.claim(session)
    await store.append(lease, Batch(entries=LARGE[:1]), head)
    other = Entry(1, 0, 0, "tool.ended", b"{}", "agent", b"\xee" * 1001)
    await refusal(Conflict, store.append(lease, Batch(entries=(other,)), head))
    assert_stored(await read_all(store, session), LARGE[:1])


async def test_a_lost_or_changed_file_is_named_in_the_error(store: SqliteStore) -> None:
    session = new_session()
    lease, _, head = await store.claim(session)
    await store.append(lease, Batch(entries=LARGE[:1]), head)
    (name,) = files(store)
    (store.folder / name).write_bytes(b"other")
    error = await refusal(Damaged, store.read(session, 0, 1))
    assert name in error.message
    os.unlink(store.folder / name)
    error = await refusal(Damaged, store.read(session, 0, 1))
    assert name in error.message


async def test_a_failed_file_write_is_reported_and_leaves_nothing(store: SqliteStore) -> None:
    session = new_session()
    lease, _, head = await store.claim(session)
    (store.folder / "spill").write_bytes(b"in the way")
    await refusal(Unavailable, store.append(lease, Batch(entries=LARGE[:1]), head))
    os.unlink(store.folder / "spill")
    assert await store.append(lease, Batch(entries=LARGE[:1]), head) == 1


async def test_files_are_removed_with_their_log_unless_a_fork_shows_them(store: SqliteStore) -> None:
    parent, fork = new_session(), new_session()
    lease, _, head = await store.claim(parent)
    await store.append(lease, Batch(entries=LARGE), head)
    # A file that no entry names: its append was rejected.
    await refusal(Conflict, store.append(lease, Batch(entries=LARGE[:1]), 3))
    await store.claim(fork, ForkPoint(parent, 1))
    await store.erase(parent)
    assert len(files(store)) == 1
    assert_stored(await read_all(store, fork), LARGE[:1])
    # A session with the same id may exist again meanwhile; it has its own files.
    lease, _, head = await store.claim(parent)
    await store.append(lease, Batch(entries=LARGE), head)
    await store.erase(fork)
    assert_stored(await read_all(store, parent), LARGE)
    await store.erase(parent)
    assert files(store) == []
    assert os.listdir(store.folder / "spill") == []


def test_sweeping_leaves_files_that_are_named_newer_or_foreign(tmp_path: Path) -> None:
    spill = Spill(tmp_path, sync=False)
    old, named, newer = (spill.write(Lease(SessionId("s"), "a", epoch), 1, b"data") for epoch in (3, 4, 6))
    (tmp_path / "s" / "notes.txt").write_text("somebody's")
    spill.sweep("s", 5, lambda name: name == named)
    assert sorted(os.listdir(tmp_path / "s")) == sorted([named[2:], newer[2:], "notes.txt"])
    assert not (tmp_path / old).exists()
    spill.sweep("absent", 5, lambda name: False)


async def test_an_append_of_usual_size_writes_no_file(store: SqliteStore) -> None:
    session = new_session()
    lease, _, head = await store.claim(session)
    await store.append(lease, batch(1, 2), head)
    assert seqs(await read_all(store, session)) == [1, 2]
    assert not (store.folder / "spill").exists()
