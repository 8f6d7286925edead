"""A data folder moved into a cell and out of it is the same row by row, and cursors stay valid."""

import random
import sqlite3
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.model.errors import BadRequest, Damaged, FolderInUse, NotFound, TooLarge
from fairlead.model.ids import SessionId
from fairlead.model.store import (
    TRANSCRIPT,
    Batch,
    Checkpoint,
    Entry,
    ForkPoint,
    StoredReply,
    Summary,
)
from fairlead.notifications.api.resources import StoredResource
from fairlead.stores.nats.connection import Address, read_address
from fairlead.stores.nats.mending import mend
from fairlead.stores.nats.moving import move_to_cell, move_to_sqlite
from fairlead.stores.nats.store import NatsOptions, NatsStore
from fairlead.stores.nats.verifying import verify
from fairlead.stores.sqlite import SqliteStore
from fairlead_testing.store_conformance import batch, new_session, read_all
from stores.nats_servers import NatsServers, quick_folder

pytestmark = pytest.mark.process

OPTIONS = NatsOptions(node="one", key=b"the key of a cell of tests", patience_s=60)
SESSIONS = 1000


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServers]:
    with quick_folder(tmp_path_factory.mktemp("nats")) as folder:
        started = NatsServers(folder).start()
        yield started
        started.stop()


@pytest.fixture
def address(servers: NatsServers) -> Address:
    return read_address(f"{servers.urls}/{uuid.uuid4().hex[:8]}")


def contents(folder: Path) -> dict[str, Any]:
    """What must stay the same. Row numbers may differ: other rows refer to logs by their ids."""
    db = sqlite3.connect(folder / "fairlead.db")
    tables = {
        "logs": "select l.log_id, l.session, l.erased, p.log_id, l.base from logs l"
        " left join logs p on p.id = l.parent",
        "entries": "select l.log_id, seq, prev, e.epoch, at, kind, event, origin, raw, event_file, raw_file"
        " from entries e join logs l on l.id = e.log",
        "checkpoints": "select l.log_id, name, seq, data from checkpoints join logs l on l.id = log",
        "replies": "select l.log_id, key, reply from replies join logs l on l.id = log",
        "sessions": "select session, title, state, updated, deleted, agent_session, owner, shared from sessions",
        "shelf": "select kind, id, data from shelf",
        "order": "select kind, group_concat(id) from (select kind, id from shelf order by place) group by kind",
        "feed": "select group_concat(told) from (select told from feed order by seq)",
    }
    found = {name: sorted(db.execute(query).fetchall(), key=repr) for name, query in tables.items()}
    db.close()
    return found


def documents_of(folder: Path, file: str = "fairlead.db") -> list[Any]:
    db = sqlite3.connect(folder / file)
    rows = db.execute("select space, key, value from documents order by space, key").fetchall()
    db.close()
    return rows


async def fill(folder: Path, count: int, rng: random.Random) -> list[tuple[SessionId, str, int]]:
    """A folder with sessions, forks, large records, drops and deletions. Returns a cursor of each session that is
    left."""
    store = await SqliteStore.open(folder, spill_above=5000)
    sessions: list[tuple[SessionId, int]] = []
    for number in range(count):
        session = new_session()
        fork = rng.choice(sessions) if sessions and number % 7 == 0 else None
        lease, _, head = await store.claim(session, ForkPoint(*fork) if fork else None)
        seqs = range(head + 1, head + 1 + rng.randrange(1, 6))
        entries = tuple(
            Entry(
                seq,
                0,
                1_700_000_000_000 + number,
                rng.choice(("text", "user.message", "turn.ended")),
                b'{"type":"text","text":"entry %d of %d"}' % (seq, number),
                rng.choice(("agent", "gateway", "")),
                rng.choice((None, b"record", b"\xff\x00", b"large" * 2000 if number % 20 == 0 else b"small")),
            )
            for seq in seqs
        )
        summary = Summary(session=session, title=f"session {number}", updated=number, owner="ann", shared=("bob",))
        written = Batch(
            entries=entries,
            drop=tuple(seqs[:1]) if number % 3 == 0 else (),
            summary=summary,
            checkpoints=(Checkpoint("state", seqs[-1], b"\x00state"),),
            replies=(StoredReply("key", b'{"ok":1}'),),
        )
        head = await store.append(lease, written, head)
        sessions.append((session, head))
    for session, _ in rng.sample(sessions, count // 20):
        await store.erase(session)
    found = [Summary(session=new_session(), title="file", state=TRANSCRIPT, updated=1) for _ in range(3)]
    await store.list_found(found)
    await store.documents.put("users", "ann", {"name": "Ann"})
    await store.documents.put("login_codes", "short", 1, ttl_s=3600)
    await store.documents.put("children", "1", {"pid": 1})
    for number in range(5):
        row = StoredResource("task", f"t{number}", b'{"n":%d}' % number)
        await store.resources.write(1_700_000_000_000, puts=[row])
    await store.wait_indexed()
    cursors = []
    for session, head in sessions:
        kept = await store.summary(session)
        if kept is not None and not kept.deleted:
            cursors.append((session, (await store.read(session, 0, 1)).log_id, head))
    await store.close()
    return cursors


async def test_a_folder_moved_there_and_back_is_the_same(tmp_path: Path, address: Address, rng: random.Random) -> None:
    data = tmp_path / "data"
    cursors = await fill(data, SESSIONS, rng)
    before, documents = contents(data), documents_of(data)
    moved = await move_to_cell(data, address, OPTIONS)
    assert moved.sessions >= SESSIONS
    assert ("children", "1", '{"pid":1}') in documents_of(data, "node.db")

    here = await NatsStore.join(data, address, OPTIONS)
    other = await NatsStore.join(tmp_path / "other", address, NatsOptions(node="two", key=OPTIONS.key))
    for store in (here, other):
        for session, log_id, head in cursors:
            page = await store.read(session, head, 1)
            assert (page.log_id, page.head, page.entries) == (log_id, head, ())
    session, log_id, head = cursors[0]
    assert await read_all(other, session) == await read_all(here, session)
    large = [one for one in before["entries"] if one[9] or one[10]]
    assert large
    assert (await other.summary(session)).node == "one"  # type: ignore[union-attr]  # it is there
    await other.close()
    await here.close()
    assert contents(data) == before
    assert contents(tmp_path / "other") == before

    await move_to_sqlite(data, address, OPTIONS)
    back = await SqliteStore.open(data)
    for session, log_id, head in cursors:
        page = await back.read(session, head, 1)
        assert (page.log_id, page.head) == (log_id, head)
    await back.close()
    assert contents(data) == before
    assert documents_of(data) == documents
    assert not (data / "node.db").exists()


async def test_a_move_is_repeated_and_a_foreign_session_is_refused(
    tmp_path: Path, address: Address, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    await fill(data, 20, rng)
    before = contents(data)

    def crash(*_: Any) -> None:
        raise RuntimeError("crash")

    with monkeypatch.context() as patch:
        patch.setattr("fairlead.stores.nats.moving._become_projection", crash)
        with pytest.raises(RuntimeError, match="crash"):
            await move_to_cell(data, address, OPTIONS)
    again = await move_to_cell(data, address, OPTIONS)
    assert again.skipped >= 19
    assert contents(data)["entries"] == before["entries"]
    with pytest.raises(BadRequest, match="belongs to a cell"):
        await move_to_cell(data, address, OPTIONS)
    store = await NatsStore.join(data, address, OPTIONS)
    taken = new_session()
    await store.claim(taken)
    await store.close()
    foreign = await SqliteStore.open(tmp_path / "foreign")
    lease, _, head = await foreign.claim(taken)
    await foreign.append(lease, batch(1), head)
    await foreign.close()
    with pytest.raises(BadRequest, match=taken):
        await move_to_cell(tmp_path / "foreign", address, OPTIONS)


async def test_a_folder_in_use_or_with_a_large_document_is_not_moved(tmp_path: Path, address: Address) -> None:
    store = await SqliteStore.open(tmp_path / "data")
    with pytest.raises(FolderInUse):
        await move_to_cell(tmp_path / "data", address, OPTIONS)
    await store.documents.put("users", "ann", "x" * 100_000)
    await store.close()
    with pytest.raises(TooLarge):
        await move_to_cell(tmp_path / "data", address, OPTIONS)


async def test_only_a_folder_of_a_cell_is_taken_out_of_it(tmp_path: Path, address: Address) -> None:
    await (await SqliteStore.open(tmp_path / "data")).close()
    with pytest.raises(BadRequest, match="does not belong"):
        await move_to_sqlite(tmp_path / "data", address, OPTIONS)


# --- comparing and mending


async def test_nodes_are_compared_log_by_log(tmp_path: Path, address: Address) -> None:
    one = await NatsStore.join(tmp_path / "one", address, OPTIONS)
    two = await NatsStore.join(tmp_path / "two", address, NatsOptions(node="two", key=OPTIONS.key))
    sessions = [new_session() for _ in range(3)]
    for session in sessions:
        lease, _, head = await one.claim(session)
        await one.append(lease, batch(1, 2), head)
        await two.caught_up(session)
    comparison = await verify(address, OPTIONS)
    assert (comparison.nodes, comparison.silent, comparison.different) == ({"one": 3, "two": 3}, {}, {})
    await two._writer.do(lambda db: db.execute("update entries set event = '{}' where seq = 2 and log = 1").rowcount)
    comparison = await verify(address, OPTIONS)
    assert list(comparison.different) == [sessions[0]]
    await two.presence.close(goodbye=False)
    two.presence._task = None
    await two.close()
    comparison = await verify(address, OPTIONS)
    assert (comparison.nodes, list(comparison.silent)) == ({"one": 3}, ["two"])
    await one.close()


async def test_what_the_servers_lost_is_published_again(tmp_path: Path, address: Address) -> None:
    store = await NatsStore.join(tmp_path / "one", address, OPTIONS)
    lost, fine, erased, changed = (new_session() for _ in range(4))
    ids = {}
    for session in (lost, fine, erased, changed):
        lease, ids[session], head = await store.claim(session)
        await store.append(lease, batch(1, 2, summary=Summary(session=session, title=session)), head)
    await store.erase(erased)
    names = store._names
    for session in (lost, erased, changed):
        await store._js.purge(names.log_stream, names.log(session))
    await store.close()
    # Another node has written to a session since.
    other = await NatsStore.join(tmp_path / "two", address, NatsOptions(node="two", key=OPTIONS.key))
    lease, _, head = await other.claim(changed)
    await other.append(lease, Batch(entries=(Entry(1, 0, 1, "text", b'{"text":"other"}'),)), head)
    await other.close()
    db = sqlite3.connect(tmp_path / "one" / "fairlead.db")
    db.execute("update chains set last = last + 100 where session = ?", (changed,))
    db.commit()
    db.close()
    done = await mend(tmp_path / "one", address, OPTIONS)
    assert (sorted(done.mended), done.refused) == (sorted([lost, erased]), [changed])
    again = await NatsStore.join(tmp_path / "one", address, OPTIONS)
    lease, log_id, head = await again.claim(lost)
    assert (log_id, head) == (ids[lost], 2)
    await again.append(lease, batch(3), head)
    late = await NatsStore.join(tmp_path / "three", address, NatsOptions(node="three", key=OPTIONS.key))
    assert [entry.seq for entry in await read_all(late, lost)] == [1, 2, 3]
    assert (await late.read(lost, 0, 1)).log_id == ids[lost]
    tombstone = await late.summary(erased)
    assert tombstone is not None
    assert tombstone.deleted
    await late.close()
    await again.close()
    with pytest.raises(NotFound):
        await mend(tmp_path / "one", address, OPTIONS, new_session())


async def test_a_node_stops_at_the_start_if_the_servers_have_lost_messages(tmp_path: Path, address: Address) -> None:
    store = await NatsStore.join(tmp_path / "one", address, OPTIONS)
    await store.claim(new_session())
    await store.close()
    db = sqlite3.connect(tmp_path / "one" / "fairlead.db")
    db.execute("update positions set seq = seq + 1000")
    db.commit()
    db.close()
    with pytest.raises(Damaged, match="storage mend --all"):
        await NatsStore.join(tmp_path / "one", address, OPTIONS)
    await mend(tmp_path / "one", address, OPTIONS)
    await (await NatsStore.join(tmp_path / "one", address, OPTIONS)).close()
