"""A full disk, a poisoned call, a lost file: the caller gets an error, others go on, nothing acknowledged is lost."""

import asyncio
import base64
import resource
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fairlead.model.errors import BadRequest, Conflict, Damaged, Fenced, Unavailable
from fairlead.model.ids import SessionId
from fairlead.model.store import Batch, Entry, Lease, SessionFilter, Summary
from fairlead.stores.sqlite import SqliteStore
from fairlead.stores.sqlite.errors import translate, translating
from fairlead.stores.sqlite.writer import Outcome, WriteJob, _WriterSignal
from fairlead_testing.store_conformance import batch, entry, new_session, read_all, refusal, seqs


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path)
    yield store
    await store.close()


def large(seq: int, size: int = 300_000) -> Batch:
    return Batch(entries=(entry(seq, raw=b"x" * size),))


async def test_a_full_database_rejects_appends_and_works_again_once_there_is_room(store: SqliteStore) -> None:
    session, other = new_session(), new_session()
    lease, _, head = await store.claim(session)
    lease2, _, head2 = await store.claim(other)
    head = await store.append(lease, batch(1, 2), head)

    async def limit(pages: int) -> None:
        await store._writer.do(lambda db: db.execute(f"pragma max_page_count = {pages}").fetchone())

    (pages,) = await store._writer.do(lambda db: db.execute("pragma page_count").fetchone())
    await limit(pages + 3)
    errors = await asyncio.gather(
        store.append(lease, large(3), head), store.append(lease2, large(1), head2), return_exceptions=True
    )
    assert [type(error) for error in errors] == [Unavailable, Unavailable]
    assert "is full: make room" in str(errors[0])
    assert seqs(await read_all(store, session)) == [1, 2]
    # An append that needs no further page still succeeds, next to one that fails.
    outcomes = await asyncio.gather(
        store.append(lease, large(3), head), store.append(lease2, batch(1), head2), return_exceptions=True
    )
    assert isinstance(outcomes[0], Unavailable)
    assert outcomes[1] == 1
    await limit(1_000_000)
    assert await store.append(lease, large(3), head) == 3
    assert await store.append(lease2, large(2), 1) == 2
    assert seqs(await read_all(store, session)) == [1, 2, 3]
    assert seqs(await read_all(store, other)) == [1, 2]


FULL_DISK_SESSION = SessionId("11111111-1111-4111-8111-111111111111")
FULL_DISK = """
import asyncio, json, resource, sys
from pathlib import Path
from fairlead.model.errors import Unavailable
from fairlead.model.store import Batch, Entry
from fairlead.stores.sqlite import SqliteStore

async def fill(folder):
    store = await SqliteStore.open(folder)
    lease, _, head = await store.claim("11111111-1111-4111-8111-111111111111")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
    refused = 0
    while refused < 3:
        words, raw = b'{"text":"words"}', b"x" * 20_000
        batch = Batch(entries=tuple(Entry(head + n, 0, 0, "text", words, "agent", raw) for n in (1, 2)))
        try:
            head = await store.append(lease, batch, head)
            print(head, flush=True)
        except Unavailable as error:
            refused += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(await store.append(lease, batch, head), flush=True)
    await store.wait_indexed()
    print("found", len(await store.search("words", limit=1000)), flush=True)
    await store.close()

asyncio.run(fill(Path(sys.argv[1])))
"""


@pytest.mark.fault
async def test_a_full_disk_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """The kernel does not let any file grow past 1 MiB: the effect of a full disk, without filling one."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FULL_DISK, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await child.communicate()
    assert child.returncode == 0
    *heads, found = output.decode().splitlines()
    acknowledged = int(heads[-1])
    assert found == f"found {acknowledged}"
    store = await SqliteStore.open(tmp_path)
    assert seqs(await read_all(store, FULL_DISK_SESSION)) == list(range(1, acknowledged + 1))
    await store.close()


async def test_a_poisoned_call_fails_without_the_others(store: SqliteStore) -> None:
    leases = [(await store.claim(new_session()))[0] for _ in range(6)]
    # A surrogate has no UTF-8, so SQLite rejects it: an error in the middle of the shared transaction.
    poisoned = Batch(entries=(Entry(1, 0, 0, "\ud800", b"{}"),))
    outcomes = await asyncio.gather(
        *(store.append(lease, poisoned if n == 2 else batch(1), 5 if n == 4 else 0) for n, lease in enumerate(leases)),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [int, int, UnicodeEncodeError, int, Conflict, int]
    for n, lease in enumerate(leases):
        assert seqs(await read_all(store, lease.session)) == ([] if n in (2, 4) else [1])
    assert await store.append(leases[2], batch(1), 0) == 1


async def test_calls_that_wait_for_a_commit_share_the_next_one(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = [(await store.claim(new_session()))[0] for _ in range(50)]
    delivered: list[int] = []
    deliver = store._writer._deliver

    def counted(group: list[WriteJob], outcomes: list[Outcome]) -> None:
        delivered.append(len(group))
        deliver(group, outcomes)

    monkeypatch.setattr(store._writer, "_deliver", counted)
    release = threading.Event()
    holding = asyncio.ensure_future(store._writer.do(lambda _: release.wait(20)))
    await asyncio.sleep(0)
    while not store._writer._queue.empty():
        await asyncio.sleep(0.001)
    appending = [asyncio.ensure_future(store.append(lease, batch(1), 0)) for lease in leases]
    await asyncio.sleep(0)
    release.set()
    await holding
    assert await asyncio.gather(*appending) == [1] * 50
    assert delivered == [1, 50]


async def test_calls_of_one_commit_see_each_other_in_order(store: SqliteStore) -> None:
    session = new_session()
    lease, _, head = await store.claim(session)
    release = threading.Event()
    holding = asyncio.ensure_future(store._writer.do(lambda _: release.wait(20)))
    appending = asyncio.ensure_future(store.append(lease, batch(1, 2), head))
    claiming = asyncio.ensure_future(store.claim(session))
    late = asyncio.ensure_future(store.append(lease, batch(3), 2))
    await asyncio.sleep(0)
    release.set()
    await holding
    assert await appending == 2
    assert (await claiming)[2] == 2
    await refusal(Fenced, late)


async def test_the_writer_reads_its_state_again_when_another_connection_changed_the_file(store: SqliteStore) -> None:
    session = new_session()
    lease, _, head = await store.claim(session)
    head = await store.append(lease, batch(1), head)
    other = sqlite3.connect(store.folder / "fairlead.db", isolation_level=None)
    other.execute("update logs set epoch = epoch + 1 where session = ?", (session,))
    other.close()
    await refusal(Fenced, store.append(lease, batch(2), head))
    assert await store.append(Lease(session, lease.node, lease.epoch + 1), batch(2), head) == 2


def test_programming_errors_are_not_translated(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError), translating(tmp_path):
        sqlite3.connect(":memory:").execute("no statement")
    assert translate(sqlite3.ProgrammingError("closed"), tmp_path) is None
    with pytest.raises(Unavailable), translating(tmp_path):
        sqlite3.connect(f"file:{tmp_path}/absent?mode=ro", uri=True)
    (tmp_path / "garbage").write_bytes(b"x" * 5000)
    with pytest.raises(Damaged), translating(tmp_path):
        sqlite3.connect(tmp_path / "garbage").execute("select * from sqlite_master")


async def test_an_invalid_cursor_is_refused(store: SqliteStore) -> None:
    for before in ("no cursor", "!!", "bm8gY3Vyc29y", "\ud800"):
        await refusal(BadRequest, store.sessions(SessionFilter(before=before)))


async def test_numbers_and_text_beyond_sqlites_range_are_accepted(store: SqliteStore) -> None:
    lease, _, head = await store.claim(new_session())
    await store.append(lease, batch(1, 2, summary=Summary(session=lease.session, title="T")), head)
    for huge in (1 << 62, 1 << 63, 1 << 80):
        assert seqs(await store.read(lease.session, 0, huge)) == [1, 2]
        assert seqs(await store.read(lease.session, -huge, huge)) == [1, 2]
        assert seqs(await store.read(lease.session, huge, huge)) == []
        assert seqs(await store.tail(lease.session, huge, huge)) == [1, 2]
        assert seqs(await store.tail(lease.session, -huge, huge)) == []
        assert len((await store.sessions(SessionFilter(limit=huge))).sessions) == 1
        for updated in (huge, -huge):
            before = base64.urlsafe_b64encode(f"{updated} x".encode()).decode()
            assert len((await store.sessions(SessionFilter(before=before))).sessions) == (updated > 0)
    assert (await store.sessions(SessionFilter(words="\ud800 \0 T"))).sessions == ()


async def test_an_append_is_stored_although_its_event_loop_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A loop that ends without closing its store gets no result; its last append is stored all the same."""
    session = new_session()
    held, release = threading.Event(), threading.Event()

    def hold(_: sqlite3.Connection) -> None:
        held.set()
        release.wait(20)

    def run() -> SqliteStore:
        async def begin() -> SqliteStore:
            store = await SqliteStore.open(tmp_path)
            lease, _, head = await store.claim(session)
            holding = asyncio.ensure_future(store._writer.do(hold))
            appending = asyncio.ensure_future(store.append(lease, batch(1), head))
            await asyncio.to_thread(held.wait)
            holding.cancel()
            appending.cancel()
            return store

        return asyncio.run(begin())

    abandoned = await asyncio.to_thread(run)
    release.set()
    abandoned._writer._queue.put(_WriterSignal.CLOSE)
    await asyncio.to_thread(abandoned._writer._thread.join)
    assert "could be acknowledged" in caplog.text
    other = await SqliteStore.open(tmp_path, _alone=False)
    assert seqs(await read_all(other, session)) == [1]
    await other.close()
    await asyncio.to_thread(release_everything, abandoned)


def release_everything(store: SqliteStore) -> None:
    """Do the work of `close` without the loop that it needs."""
    store._maintenance._thread.submit(store._maintenance._end).result()
    store._maintenance._thread.shutdown()
    store._readers._threads.shutdown()
    while not store._readers._idle.empty():
        store._readers._idle.get_nowait().close()
    assert store._lock is not None
    store._lock.close()
