"""Moves a data folder into a cell and out of it, while no gateway runs on it. Log ids and seqs stay, and with them the
cursors of clients.

Into the cell: every log becomes one object and one message that names it; then the folder is a projection of the cell.
What is there already is left out, so that a move that was interrupted is repeated. Out of the cell: the projection is a
whole data folder; what the node had for itself joins it.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from fairlead.model.errors import BadRequest, TooLarge
from fairlead.model.store import HERE, TRANSCRIPT, Summary
from fairlead.stores.nats import documents, found, resources
from fairlead.stores.nats import messages as m
from fairlead.stores.nats.applying import read_log
from fairlead.stores.nats.bucket import TOMBSTONE_S, Bucket, KeyWrite
from fairlead.stores.nats.cell import read_cell
from fairlead.stores.nats.connection import Address, JetStream, connect, make_streams
from fairlead.stores.nats.names import Names
from fairlead.stores.nats.objects import Objects
from fairlead.stores.nats.publishing import Outgoing, Publisher, Refused
from fairlead.stores.nats.store import NatsOptions, NatsStore
from fairlead.stores.sqlite.cell_mark import CellMark, read_mark, refuse_cell, set_mark
from fairlead.stores.sqlite.connections import DATABASE, SPILL, transaction
from fairlead.stores.sqlite.connections import connect as open_database
from fairlead.stores.sqlite.node_documents import FILE as NODE_FILE
from fairlead.stores.sqlite.node_documents import TABLE as NODE_TABLE
from fairlead.stores.sqlite.open import FolderLock
from fairlead.stores.sqlite.schema import migrate
from fairlead.stores.sqlite.sessions import get_summary
from fairlead.stores.sqlite.spill import Spill
from fairlead.system.clock import Clock, SystemClock

Progress = Callable[[int, int], None]
"""Called with the number of sessions that are done, and of all."""
_FILES: Final = "select event_file, raw_file from entries where event_file is not null or raw_file is not null"
_AT_ONCE: Final = 32


class Moved(msgspec.Struct):
    """What a move did."""

    sessions: int = 0
    skipped: int = 0
    documents: int = 0


@asynccontextmanager
async def _connected(address: Address, options: NatsOptions) -> Any:
    client = await connect(address, f"fairlead {options.node} (storage)", options.creds, options.patience_s or 30.0)
    try:
        js = JetStream(client, Names(address.cell))
        await make_streams(js, address)
        yield js
    finally:
        await client.close()


# --- into a cell


async def move_to_cell(
    folder: Path, address: Address, options: NatsOptions, progress: Progress = lambda done, total: None
) -> Moved:
    """Move a folder into a cell. FolderInUse while a gateway runs on it; BadRequest if the cell has a session with the
    same id and another content."""
    clock = SystemClock()
    with closing(FolderLock(folder, clock.now_ms())), closing(open_database(folder / DATABASE)) as db:
        migrate(db, folder / DATABASE)
        refuse_cell(db, folder)
        for space, key, value in db.execute("select space, key, value from documents"):
            if space not in HERE and len(value) > documents.LARGEST:
                raise TooLarge(f"document {key} of {space}", len(value), documents.LARGEST)
        async with _connected(address, options) as js:
            mark = await read_cell(js, address, options.key)
            mover = _Mover(db, js, folder, options.node, clock)
            moved = await mover.move(progress)
        _become_projection(db, folder, mark, mover.chains, options.node)
    return moved


class _Mover:
    def __init__(self, db: sqlite3.Connection, js: JetStream, folder: Path, node: str, clock: Clock) -> None:
        self._db = db
        self._js = js
        self._names = js.names
        self._node = node
        self._clock = clock
        self._spill = Spill(folder / SPILL, sync=False)
        self._objects = Objects(js, js.names)
        self._publisher = Publisher(js, js.names.log_stream, expires=False)
        self.chains: dict[str, int] = {}
        self.moved = Moved()

    async def move(self, progress: Progress) -> Moved:
        names = [name for row in self._db.execute(_FILES).fetchall() for name in row if name is not None]
        for name in names:
            await self._objects.put(name, await asyncio.to_thread(self._spill.read, name))
        logs = self._db.execute("select id, session, erased from logs order by id").fetchall()
        tombstones = self._db.execute(
            "select session from sessions where deleted = 1"
            " and session not in (select erased from logs where erased is not null)"
        ).fetchall()
        # Forks before the erased logs that they show: a node that follows meanwhile keeps what a fork shows. An erased
        # log of a session that was made again comes before its new log, as in a chain.
        again = {session for _, session, _ in logs}
        work = [(log, erased, True) for log, session, erased in logs if session is None and erased in again]
        work += [(log, session, False) for log, session, _ in logs if session is not None]
        work += [(log, erased, True) for log, session, erased in logs if session is None and erased not in again]
        work += [(0, session, True) for (session,) in tombstones]
        for number, (log, session, is_erased) in enumerate(work):
            await (self._erased(log, session) if is_erased else self._log(log, session))
            progress(number + 1, len(work))
        await self._move_keys()
        return self.moved

    async def _log(self, log: int, session: str) -> None:
        whole = read_log(self._db, log)
        head = whole.rows[-1].seq if whole.rows else whole.base
        (epoch,) = self._db.execute("select epoch from logs where id = ?", (log,)).fetchone()
        blob = f"move/{whole.log_id}/{head}"
        if await self._is_there(session, lambda op: isinstance(op, m.Mend) and op.blob == blob):
            return
        await self._objects.put(blob, m.encode(whole))
        await self._publish(session, m.Mend("", epoch, self._node, blob, head))

    async def _erased(self, log: int, session: str) -> None:
        summary = get_summary(self._db, session) or Summary(session=session)  # type: ignore[arg-type]  # from the database
        if not log:
            if not await self._is_there(session, lambda op: isinstance(op, m.Erase)):
                await self._publish(session, m.Erase("", summary))
            return
        (forked_at,) = self._db.execute("select forked_at from logs where id = ?", (log,)).fetchone()
        kept = read_log(self._db, log, up_to=forked_at)
        if await self._is_there(session, lambda op: isinstance(op, m.Erase) and op.log_id == kept.log_id):
            return
        await self._objects.put(f"kept/{kept.log_id}", m.encode(kept))
        await self._publish(session, m.Erase(kept.log_id, summary, f"kept/{kept.log_id}"))

    async def _is_there(self, session: str, same: Callable[[m.Op | None], bool]) -> bool:
        """Whether an earlier move has published this. BadRequest if the cell has another session of this id."""
        if session in self.chains:
            return False
        last = await self._js.last_of(self._names.log_stream, self._names.log(session))
        if last is None:
            return False
        if not same(m.decode(last.body)):
            raise BadRequest(
                f"The cell has a session {session} already, with another content: choose another cell.", session=session
            )
        self.chains[session] = last.seq
        self.moved.skipped += 1
        return True

    async def _publish(self, session: str, op: m.Op) -> None:
        message = Outgoing(self._names.log(session), m.encode(op), self.chains.get(session, 0))
        try:
            self.chains[session] = await self._publisher.publish(message)
        except Refused:
            raise BadRequest(f"Session {session} was changed in the cell meanwhile: repeat the move.") from None
        self.moved.sessions += 1

    async def _move_keys(self) -> None:
        """Documents of the cell, sessions in files, resources and the feed. Their order is kept."""
        bucket = Publisher(self._js, self._names.bucket_stream, expires=True)
        maker = Bucket(self._js, self._names, None, self._clock)  # type: ignore[arg-type]  # nothing is applied here
        waiting: list[KeyWrite] = []
        for write in self._writes():
            waiting.append(write)
            self.moved.documents += 1
            if len(waiting) == _AT_ONCE:
                await self._send(bucket, maker, waiting)
        await self._send(bucket, maker, waiting)

    async def _send(self, publisher: Publisher, maker: Bucket, waiting: list[KeyWrite]) -> None:
        for write in waiting:
            await publisher.publish(maker.outgoing(write))
        waiting.clear()

    def _writes(self) -> Iterator[KeyWrite]:
        now = self._clock.now_ms()
        for space, key, value, until in self._db.execute("select space, key, value, until from documents").fetchall():
            if space not in HERE and (until is None or until > now):
                ttl = None if until is None else (until - now) / 1000
                yield KeyWrite((documents.KIND, space, key), value.encode(), ttl_s=ttl)
        listed = f"select session from sessions where state = '{TRANSCRIPT}' and deleted = 0"
        for (session,) in self._db.execute(listed).fetchall():
            summary = get_summary(self._db, session)
            if summary is not None:
                data = msgspec.json.encode(msgspec.structs.replace(summary, node=self._node))
                yield KeyWrite((found.KIND, session), data)
        for kind, id, data in self._db.execute("select kind, id, data from shelf order by place").fetchall():
            value = msgspec.json.encode(resources.ItemValue(0, data.encode()))
            yield KeyWrite((resources.ITEM, kind, id), value)
        oldest = now - resources.FEED_TTL_S * 1000
        for seq, at, item in self._db.execute("select seq, at, told from feed order by seq").fetchall():
            if at > oldest:
                entry = msgspec.json.encode(resources.FeedValue(at, msgspec.Raw(item.encode())))
                # The key is the same if the move is repeated.
                ttl = max(resources.FEED_TTL_S - (now - at) / 1000, TOMBSTONE_S / 24)
                yield KeyWrite((resources.FEED, f"{self._node}-{seq}"), entry, ttl_s=ttl)


def _become_projection(db: sqlite3.Connection, folder: Path, mark: CellMark, chains: dict[str, int], node: str) -> None:
    """Mark the folder. Its documents that are of this machine go into the node's own file; the rest of the small state
    is read again from the bucket, which is whole."""
    here = [row for row in db.execute("select space, key, value, until from documents") if row[0] in HERE]
    with closing(sqlite3.connect(folder / NODE_FILE)) as own:
        own.execute(NODE_TABLE)
        own.executemany("insert or replace into documents values (?, ?, ?, ?)", here)
        own.commit()
    (folder / NODE_FILE).chmod(0o600)
    with transaction(db):
        set_mark(db, mark)
        rows = [(session, last, node) for session, last in chains.items()]
        db.executemany("insert or replace into chains values (?, ?, ?)", rows)
        db.execute("update chains set home = '' where session in (select session from sessions where deleted = 1)")
        db.execute("update logs set node = ''")
        db.execute("update sessions set node = ? where deleted = 0", (node,))
        for table in ("documents", "shelf", "feed", "positions", "nodes"):
            db.execute(f"delete from {table}")
        db.execute("delete from meta where name = 'running'")


# --- out of a cell


async def move_to_sqlite(folder: Path, address: Address, options: NatsOptions) -> None:
    """Take a folder out of its cell: it becomes a data folder for one gateway, with everything that the cell has."""
    with closing(open_database(folder / DATABASE, read_only=True)) as db:
        if read_mark(db) is None:
            raise BadRequest(f"{folder} does not belong to a cell.", folder=str(folder))
    store = await NatsStore.join(folder, address, options)
    try:
        for row in await store._readers.rows(_FILES):
            for name in filter(None, row):
                await store._readers.outside(partial(store._spill.read, name))
    finally:
        await store.close()
    with closing(FolderLock(folder, SystemClock().now_ms())), closing(open_database(folder / DATABASE)) as db:
        leave_cell(db, folder)


def leave_cell(db: sqlite3.Connection, folder: Path) -> None:
    own = folder / NODE_FILE
    rows: list[Any] = []
    if own.exists():
        with closing(sqlite3.connect(own)) as node:
            rows = node.execute("select space, key, value, until from documents").fetchall()
    with transaction(db):
        db.executemany("insert or replace into documents (space, key, value, until) values (?, ?, ?, ?)", rows)
        db.execute("delete from meta where name = 'cell'")
        db.execute("delete from positions")
        db.execute("delete from chains")
        db.execute("update logs set node = ''")
        db.execute("update sessions set node = ''")
        # Later claims must get higher epochs than those of the cell.
        db.execute(
            "update meta set value = max(cast(value as integer), (select coalesce(max(epoch), 0) from logs))"
            " where name = 'epoch'"
        )
    for end in ("", "-wal", "-shm"):
        own.with_name(f"{own.name}{end}").unlink(missing_ok=True)
