"""The documents of the cell: changes are published with a condition, reads are local."""

import sqlite3
from collections.abc import Callable
from typing import Any, Final

import msgspec

from fairlead.model.errors import FairleadError, TooLarge
from fairlead.model.store import DocumentHeard, Stop
from fairlead.stores.nats.bucket import Bucket, KeyChange, KeyWrite
from fairlead.stores.nats.connection import TRANSIENT
from fairlead.stores.nats.publishing import Refused
from fairlead.stores.sqlite.documents import DocumentListeners, SqliteDocuments, canonical
from fairlead.system.clock import Clock

KIND: Final = "doc"
LARGEST: Final = 64 << 10


class NatsDocuments:
    """Implements `bucket.KeyHandler` and `model.store.Documents`. `local` are the documents in the local database."""

    def __init__(self, bucket: Bucket, local: SqliteDocuments, clock: Clock) -> None:
        self._bucket = bucket
        self._clock = clock
        self._local = local
        self._listeners = DocumentListeners()
        bucket.handle(KIND, self)

    async def get(self, space: str, key: str) -> Any | None:
        found = await self._local.get(space, key)
        if found is None:
            # Another node may have written it a moment ago.
            try:
                if await self._bucket.look_up(KIND, space, key):
                    found = await self._local.get(space, key)
            except (*TRANSIENT, FairleadError):
                return None
        return found

    async def list(self, space: str) -> dict[str, Any]:
        return await self._local.list(space)

    async def put(self, space: str, key: str, value: Any, ttl_s: float | None = None) -> None:
        await self._bucket.write(KeyWrite((KIND, space, key), _encoded(value), None, ttl_s))

    async def add(self, space: str, key: str, value: Any, ttl_s: float | None = None) -> bool:
        return await self._change(space, key, _encoded(value), lambda found: found is None, ttl_s)

    async def delete(self, space: str, key: str) -> bool:
        return await self._change(space, key, None, lambda found: found is not None)

    async def swap(self, space: str, key: str, value: Any | None, expected: Any | None) -> bool:
        wanted = canonical(expected)
        data = None if value is None else _encoded(value)
        return await self._change(space, key, data, lambda found: canonical(found) == wanted)

    def listen(self, space: str, heard: DocumentHeard) -> Stop:
        return self._listeners.add(space, heard)

    async def _change(
        self, space: str, key: str, data: bytes | None, condition: Callable[[Any], bool], ttl_s: float | None = None
    ) -> bool:
        asked_leader = False
        while True:
            revision = self._bucket.revision(KIND, space, key)
            found = await self._local.get(space, key)
            if not condition(found):
                # What is here may be old: a condition that fails by it is looked up once.
                if asked_leader or not await self._bucket.look_up(KIND, space, key):
                    return False
                asked_leader = True
                continue
            if data is None and found is None:
                return True
            try:
                await self._bucket.write(KeyWrite((KIND, space, key), data, revision, ttl_s))
            except Refused:
                continue
            return True

    # --- KeyHandler

    def apply(self, db: sqlite3.Connection, change: KeyChange) -> bool:
        """Returns whether anything changed: at a start, the whole bucket is applied again."""
        found = db.execute("select value, until from documents where space = ? and key = ?", change.key).fetchone()
        if change.data is None:
            db.execute("delete from documents where space = ? and key = ?", change.key)
            return found is not None
        if change.until is not None:
            db.execute("delete from documents where until <= ?", (self._clock.now_ms(),))
        row = (change.data.decode(), change.until)
        db.execute(
            "insert or replace into documents (space, key, value, until) values (?, ?, ?, ?)", (*change.key, *row)
        )
        return bool(found != row)

    def applied(self, change: KeyChange, outcome: bool) -> None:
        if outcome:
            space, key = change.key
            self._listeners.notify(space, key, change.data)

    def sweep(self, db: sqlite3.Connection, keys: frozenset[tuple[str, ...]]) -> None:
        for row in db.execute("select space, key from documents").fetchall():
            if row not in keys:
                db.execute("delete from documents where space = ? and key = ?", row)


def _encoded(value: Any) -> bytes:
    data = msgspec.json.encode(value)
    if len(data) > LARGEST:
        raise TooLarge("document", len(data), LARGEST)
    return data
