"""Sessions that are known only from the files of a node: each node lists its own for all."""

import asyncio
import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from fairlead.model.ids import SessionId
from fairlead.model.store import TRANSCRIPT, Summary
from fairlead.stores.nats.bucket import Bucket, KeyChange, KeyWrite
from fairlead.stores.sqlite import sessions

KIND: Final = "found"
# Messages that are on their way at a time.
_AT_ONCE: Final = 64


class FoundSessions:
    """Implements `bucket.KeyHandler`."""

    def __init__(self, bucket: Bucket, node: str) -> None:
        self._bucket = bucket
        self._node = node
        self._digests: dict[str, bytes] = {}
        bucket.handle(KIND, self)

    async def publish(self, found: Sequence[Summary], gone: Sequence[SessionId]) -> None:
        """Publish what differs from the list."""
        writes = []
        for summary in found:
            data = msgspec.json.encode(msgspec.structs.replace(summary, node=self._node))
            if self._digests.get(summary.session) != _digest(data):
                writes.append(KeyWrite((KIND, summary.session), data))
        writes += [KeyWrite((KIND, session), None) for session in gone if session in self._digests]
        for part in _parts(writes):
            await asyncio.gather(*(self._bucket.write(write) for write in part))

    def apply(self, db: sqlite3.Connection, change: KeyChange) -> None:
        (session,) = change.key
        if change.data is None:
            sessions.list_found(db, (), (SessionId(session),))
        else:
            sessions.list_found(db, (msgspec.json.decode(change.data, type=Summary),), ())

    def applied(self, change: KeyChange, outcome: None) -> None:
        (session,) = change.key
        if change.data is None:
            self._digests.pop(session, None)
        else:
            self._digests[session] = _digest(change.data)

    def sweep(self, db: sqlite3.Connection, keys: frozenset[tuple[str, ...]]) -> None:
        query = f"select session from sessions where state = '{TRANSCRIPT}' and deleted = 0"
        gone = [SessionId(session) for (session,) in db.execute(query).fetchall() if (session,) not in keys]
        sessions.list_found(db, (), gone)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _parts(writes: Sequence[KeyWrite]) -> Iterable[Sequence[KeyWrite]]:
    return (writes[start : start + _AT_ONCE] for start in range(0, len(writes), _AT_ONCE))
