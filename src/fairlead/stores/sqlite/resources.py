"""Resources and their change feed. A change and its feed entry are written in one transaction: neither exists without
the other, even after a crash. For that, and for lists by position, they are tables and not documents."""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence

import msgspec

from fairlead.model.errors import Conflict
from fairlead.model.store.peers import Stop
from fairlead.notifications.api.feed import FeedEntry, FeedItem, FeedPage
from fairlead.notifications.api.resources import RowAsRead, StoredResource
from fairlead.stores.sqlite.readers import Readers
from fairlead.stores.sqlite.writer import Call, Writer

FEED_KEPT = 10_000
"""Number of entries that the feed keeps."""
_decoder = msgspec.json.Decoder(FeedItem)


class SqliteResources:
    """Implements `notifications.api.resources.ResourceStore`."""

    def __init__(self, readers: Readers, writer: Writer) -> None:
        self._readers = readers
        self._writer = writer
        self._listeners: list[Callable[[Sequence[FeedEntry]], None]] = []
        self._changes: set[asyncio.Task[tuple[FeedEntry, ...]]] = set()

    async def write(
        self,
        at: int,
        puts: Sequence[StoredResource] = (),
        removes: Sequence[tuple[str, str]] = (),
        items: Sequence[FeedItem] = (),
        most: Mapping[str, int] | None = None,
        expected: Sequence[RowAsRead] = (),
    ) -> tuple[FeedEntry, ...]:
        texts = [msgspec.json.encode(one).decode() for one in items]

        def change(db: sqlite3.Connection) -> tuple[FeedEntry, ...]:
            check_rows(db, expected)
            db.executemany("delete from shelf where kind = ? and id = ?", removes)
            db.executemany(
                "insert into shelf (kind, id, data) values (?, ?, ?)"
                " on conflict (kind, id) do update set data = excluded.data",
                [(put.kind, put.id, put.data.decode()) for put in puts],
            )
            for kind, number in (most or {}).items():
                db.execute(
                    "delete from shelf where kind = ? and place <="
                    " (select place from shelf where kind = ? order by place desc limit 1 offset ?)",
                    (kind, kind, number),
                )
            insert = "insert into feed (at, told) values (?, ?) returning seq"
            seqs = [int(db.execute(insert, (at, text)).fetchone()[0]) for text in texts]
            if seqs:
                db.execute("update feed set prev = seq - 1 where seq >= ?", (seqs[0],))
                db.execute("delete from feed where seq <= ?", (seqs[-1] - FEED_KEPT,))
            return tuple(FeedEntry(seq, at, one, seq - 1) for seq, one in zip(seqs, items, strict=True))

        # A task of its own: if the caller is cancelled, the entries are stored nevertheless, and listeners hear of it.
        task = asyncio.create_task(self._change_and_notify(change))
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return await asyncio.shield(task)

    async def get(self, kind: str, id: str) -> bytes | None:
        row = await self._readers.row("select data from shelf where kind = ? and id = ?", kind, id)
        return None if row is None else str(row[0]).encode()

    async def scan(self, kind: str, before: int | None, limit: int) -> tuple[tuple[int, bytes], ...]:
        query = "select place, data from shelf where kind = ? and place < ? order by place desc limit ?"
        rows = await self._readers.rows(query, kind, 2**62 if before is None else before, limit)
        return tuple((place, data.encode()) for place, data in rows)

    async def count(self, kind: str) -> int:
        return int((await self._readers.row("select count(*) from shelf where kind = ?", kind))[0])

    async def feed(self, after: int, limit: int) -> FeedPage:
        def read(db: sqlite3.Connection) -> FeedPage:
            (feed,) = db.execute("select value from meta where name = 'feed_id'").fetchone()
            # Two queries: each reads only one end of the index.
            (first,) = db.execute("select coalesce((select prev + 1 from feed order by seq limit 1), 1)").fetchone()
            (head,) = db.execute("select coalesce(max(seq), 0) from feed").fetchone()
            rows = db.execute("select seq, at, told, prev from feed where seq > ? order by seq limit ?", (after, limit))
            entries = tuple(FeedEntry(seq, at, _decoder.decode(data), prev) for seq, at, data, prev in rows)
            return FeedPage(feed, entries, first, head)

        return await self._readers.do(read)

    def listen(self, heard: Callable[[Sequence[FeedEntry]], None]) -> Stop:
        self._listeners.append(heard)
        return lambda: self._listeners.remove(heard)

    async def forget(self, user: str) -> None:
        def change(db: sqlite3.Connection) -> None:
            rows = db.execute("select seq, told from feed where instr(told, ?)", (f'"{user}"',)).fetchall()
            for seq, text in rows:
                notice = _decoder.decode(text)
                if notice.seen is not None and user in notice.seen:
                    left = msgspec.structs.replace(notice, seen=tuple(other for other in notice.seen if other != user))
                    db.execute("update feed set told = ? where seq = ?", (msgspec.json.encode(left).decode(), seq))

        await self._writer.do(change)

    async def _change_and_notify(self, change: Call) -> tuple[FeedEntry, ...]:
        entries: tuple[FeedEntry, ...] = await self._writer.do(change)
        if entries:
            for heard in tuple(self._listeners):
                heard(entries)
        return entries


def check_rows(db: sqlite3.Connection, expected: Sequence[RowAsRead]) -> None:
    for row in expected:
        found = db.execute("select place, data from shelf where kind = ? and id = ?", (row.kind, row.id)).fetchone()
        if (None if found is None else found[1].encode()) != row.data:
            raise Conflict(found[0] if found else 0)
