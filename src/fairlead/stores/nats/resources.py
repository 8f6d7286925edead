"""The resources of the cell and their change feed: rows and entries of one write are one atomic batch.

A row's position in lists is the sequence of its first message, and travels in its value from then on. The position of a
feed entry is the sequence of its message.
"""

import sqlite3
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.model.errors import Conflict
from fairlead.model.store import Stop
from fairlead.notifications.api.feed import FeedEntry, FeedItem
from fairlead.notifications.api.resources import RowAsRead, StoredResource
from fairlead.stores.nats.bucket import Bucket, KeyChange, KeyWrite
from fairlead.stores.nats.publishing import Refused
from fairlead.stores.sqlite.readers import Readers
from fairlead.stores.sqlite.resources import FEED_KEPT, SqliteResources

ITEM: Final = "item"
FEED: Final = "feed"
FEED_TTL_S: Final = 30 * 24 * 3600
_ROWS: Final = "select id, data, place from shelf where kind = ? order by place desc limit -1 offset ?"
_ROW: Final = "select place, data from shelf where kind = ? and id = ?"


class ItemValue(msgspec.Struct, frozen=True):
    """The value of a row's key. `place` 0: the sequence of this message."""

    place: int
    data: bytes


class FeedValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of an entry's key. An entry that is written again keeps its position: `seq` and `prev`."""

    at: int
    item: msgspec.Raw
    seq: int = 0
    prev: int = 0


class NatsResources:
    """Implements `notifications.api.resources.ResourceStore`. `local` answers the reads."""

    def __init__(self, bucket: Bucket, readers: Readers, local: SqliteResources) -> None:
        self._bucket = bucket
        self._readers = readers
        self._local = local
        self._listeners: list[Callable[[Sequence[FeedEntry]], None]] = []
        self.keys: dict[int, str] = {}
        """The key of each feed entry, by its position."""
        self.get, self.scan, self.count, self.feed = local.get, local.scan, local.count, local.feed
        bucket.handle(ITEM, _Items())
        bucket.handle(FEED, _Feed(self))

    async def write(
        self,
        at: int,
        puts: Sequence[StoredResource] = (),
        removes: Sequence[tuple[str, str]] = (),
        items: Sequence[FeedItem] = (),
        most: Mapping[str, int] | None = None,
        expected: Sequence[RowAsRead] = (),
    ) -> tuple[FeedEntry, ...]:
        while True:
            revisions = {(row.kind, row.id): self._bucket.revision(ITEM, row.kind, row.id) for row in expected}
            await self._check(expected)
            writes = await self._rows(puts, removes, most or {}, revisions)
            keys = [uuid.uuid4().hex for _ in items]
            writes += [
                KeyWrite((FEED, key), msgspec.json.encode(FeedValue(at, _raw(item))), ttl_s=FEED_TTL_S)
                for key, item in zip(keys, items, strict=True)
            ]
            if not writes:
                return ()
            try:
                last = await self._bucket.write(*writes)
            except Refused:
                continue
            if not items:
                return ()
            page = await self.feed(last - len(items), len(items))
            return page.entries

    async def forget(self, user: str) -> None:
        def find(db: sqlite3.Connection) -> list[tuple[int, int, str, int]]:
            query = "select seq, at, told, prev from feed where instr(told, ?)"
            return db.execute(query, (f'"{user}"',)).fetchall()

        for seq, at, text, prev in await self._readers.do(find):
            item = msgspec.json.decode(text, type=FeedItem)
            if item.seen is not None and user in item.seen and seq in self.keys:
                left = msgspec.structs.replace(item, seen=tuple(other for other in item.seen if other != user))
                value = msgspec.json.encode(FeedValue(at, _raw(left), seq, prev))
                await self._bucket.write(KeyWrite((FEED, self.keys[seq]), value, ttl_s=FEED_TTL_S))

    def listen(self, heard: Callable[[Sequence[FeedEntry]], None]) -> Stop:
        self._listeners.append(heard)
        return lambda: self._listeners.remove(heard)

    def tell(self, entry: FeedEntry) -> None:
        for heard in tuple(self._listeners):
            heard((entry,))

    async def _check(self, expected: Sequence[RowAsRead]) -> None:
        for row in expected:
            found = await self._readers.row(_ROW, row.kind, row.id)
            if (None if found is None else found[1].encode()) != row.data:
                raise Conflict(found[0] if found else 0)

    async def _rows(
        self,
        puts: Sequence[StoredResource],
        removes: Sequence[tuple[str, str]],
        most: Mapping[str, int],
        revisions: Mapping[tuple[str, str], int],
    ) -> list[KeyWrite]:
        """The messages of the rows. A subject is in a batch once: a row that is removed and put is put."""
        writes: dict[tuple[str, str], KeyWrite] = {}
        for kind, id in removes:
            if (kind, id) in revisions or self._bucket.revision(ITEM, kind, id):
                writes[kind, id] = KeyWrite((ITEM, kind, id), None, revisions.get((kind, id)))
        new: dict[str, int] = {}
        for put in puts:
            found = await self._readers.row(_ROW, put.kind, put.id)
            place = 0 if found is None or (put.kind, put.id) in writes else found[0]
            new[put.kind] = new.get(put.kind, 0) + (found is None)
            value = msgspec.json.encode(ItemValue(place, put.data))
            writes[put.kind, put.id] = KeyWrite((ITEM, put.kind, put.id), value, revisions.get((put.kind, put.id)))
        for kind, number in most.items():
            for id, _, _ in await self._readers.rows(_ROWS, kind, max(number - new.get(kind, 0), 0)):
                writes.setdefault((kind, id), KeyWrite((ITEM, kind, id), None))
        for (kind, id), revision in revisions.items():
            if (kind, id) not in writes:
                found = await self._readers.row(_ROW, kind, id)
                if found is not None:
                    # A condition needs a message: the row is written again as it is.
                    value = msgspec.json.encode(ItemValue(found[0], found[1].encode()))
                    writes[kind, id] = KeyWrite((ITEM, kind, id), value, revision)
        return list(writes.values())


class _Items:
    """The rows; implements `bucket.KeyHandler`."""

    def apply(self, db: sqlite3.Connection, change: KeyChange) -> None:
        if change.data is None:
            db.execute("delete from shelf where kind = ? and id = ?", change.key)
            return
        value = msgspec.json.decode(change.data, type=ItemValue)
        db.execute(
            "insert into shelf (place, kind, id, data) values (?, ?, ?, ?)"
            " on conflict (kind, id) do update set data = excluded.data, place = excluded.place",
            (value.place or change.seq, *change.key, value.data.decode()),
        )

    def applied(self, change: KeyChange, outcome: None) -> None:
        return None

    def sweep(self, db: sqlite3.Connection, keys: frozenset[tuple[str, ...]]) -> None:
        for row in db.execute("select kind, id from shelf").fetchall():
            if row not in keys:
                db.execute("delete from shelf where kind = ? and id = ?", row)


class _Feed:
    """The entries; implements `bucket.KeyHandler`."""

    def __init__(self, resources: NatsResources) -> None:
        self._resources = resources
        self._positions: dict[tuple[str, ...], int] = {}

    def apply(self, db: sqlite3.Connection, change: KeyChange) -> FeedEntry | int | None:
        """Returns a new entry, or the position of one that was there."""
        if change.data is None:
            return None
        value = msgspec.json.decode(change.data, type=FeedValue)
        seq, text = value.seq or change.seq, bytes(value.item).decode()
        if db.execute("update feed set told = ? where seq = ?", (text, seq)).rowcount:
            return seq
        (before,) = db.execute("select max(seq) from feed where seq < ?", (seq,)).fetchone()
        # What came before the first entry that is here is unknown: readers before it have a gap.
        prev = value.prev or (seq - 1 if before is None else before)
        db.execute("insert into feed (seq, at, told, prev) values (?, ?, ?, ?)", (seq, value.at, text, prev))
        old = db.execute("select seq from feed order by seq desc limit 1 offset ?", (FEED_KEPT,)).fetchone()
        if old is not None:
            db.execute("delete from feed where seq <= ?", old)
        return FeedEntry(seq, value.at, msgspec.json.decode(text, type=FeedItem), prev)

    def applied(self, change: KeyChange, outcome: Any) -> None:
        if outcome is not None:
            seq = outcome if isinstance(outcome, int) else outcome.seq
            self._resources.keys[seq] = change.key[0]
            self._positions[change.key] = seq
            if len(self._positions) > 2 * FEED_KEPT:
                self._forget_old()
            if isinstance(outcome, FeedEntry):
                self._resources.tell(outcome)

    def _forget_old(self) -> None:
        kept = sorted(self._positions.items(), key=lambda item: item[1])[-FEED_KEPT:]
        self._positions = dict(kept)
        self._resources.keys = {seq: key[0] for key, seq in kept}

    def sweep(self, db: sqlite3.Connection, keys: frozenset[tuple[str, ...]]) -> None:
        positions = {self._positions[key] for key in keys if key in self._positions}
        for (seq,) in db.execute("select seq from feed").fetchall():
            if seq not in positions:
                db.execute("delete from feed where seq = ?", (seq,))


def _raw(item: FeedItem) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(item))
