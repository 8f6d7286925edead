"""The cell's small state: the last value of each key, in a stream that is laid out as a NATS key-value bucket.

The whole bucket is read at every start, since it is small and compacted: what the local database has and the bucket has
not was removed while this node was away, and its tombstone may have expired.
"""

import heapq
import math
import sqlite3
from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec

from fairlead.stores.nats.connection import JetStream, StoredMessage
from fairlead.stores.nats.follower import Follower
from fairlead.stores.nats.names import Names, key_of
from fairlead.stores.nats.publishing import Outgoing, Publisher, Refused
from fairlead.stores.sqlite.writer import Writer
from fairlead.system.clock import Clock

TOMBSTONE_S: Final = 24 * 3600
# Milliseconds after its end for which the revision of a key is remembered.
_FORGET_MS: Final = 3600 * 1000
_OPERATION: Final = "KV-Operation"
_TTL: Final = "Nats-TTL"
_UNTIL: Final = "Fl-Until"
"""When a value with a time to live ends, in milliseconds since 1970: the server removes it without a message."""


class KeyChange(msgspec.Struct, frozen=True):
    """A new value of a key (without its kind); None: it is gone."""

    key: tuple[str, ...]
    seq: int
    data: bytes | None
    until: int | None = None


class KeyWrite(msgspec.Struct, frozen=True):
    """`data` None: remove the key. `expected`: the sequence of the key's last message; None: no condition."""

    key: tuple[str, ...]
    data: bytes | None
    expected: int | None = None
    ttl_s: float | None = None


class KeyHandler(Protocol):
    """Applies the changes of one kind of keys (the first part of the key)."""

    def apply(self, db: sqlite3.Connection, change: KeyChange) -> Any:
        """In the writer thread, in one transaction with other changes."""

    def applied(self, change: KeyChange, outcome: Any) -> None:
        """On the loop, when the change is stored."""

    def sweep(self, db: sqlite3.Connection, keys: frozenset[tuple[str, ...]]) -> None:
        """Remove everything that is not among the bucket's keys, after the whole bucket was read."""


class Bucket:
    def __init__(self, js: JetStream, names: Names, writer: Writer, clock: Clock) -> None:
        self._names = names
        self._writer = writer
        self._clock = clock
        self._handlers: dict[str, KeyHandler] = {}
        self._revisions: dict[tuple[str, ...], int] = {}
        self._ends: list[tuple[int, int, tuple[str, ...]]] = []
        """A heap of the keys that expire: the time, the sequence, the key."""
        self._seen: dict[str, set[tuple[str, ...]]] | None = {}
        self._publisher = Publisher(js, names.bucket_stream, expires=True)
        self._js = js
        self.follower = Follower(js, names.bucket_stream, f"{names.live_bucket}.>", self._apply, 0)

    def handle(self, kind: str, handler: KeyHandler) -> None:
        self._handlers[kind] = handler

    async def start(self) -> None:
        """Read the whole bucket, then follow it."""
        last = await self._js.last_seq(self._names.bucket_stream)
        await self.follower.start()
        await self.follower.reached(last, timeout_s=600)
        seen, self._seen = self._seen or {}, None

        def sweep(db: sqlite3.Connection) -> None:
            for kind, handler in self._handlers.items():
                handler.sweep(db, frozenset(seen.get(kind, ())))

        await self._writer.do(sweep)

    def revision(self, *key: str) -> int:
        """The sequence of the key's last message here; 0 without one. Read it before the value: then a change in
        between makes the condition fail."""
        return self._revisions.get(key, 0)

    async def write(self, *writes: KeyWrite) -> int:
        """Write all or nothing; return the sequence of the last one, when the local database has it. Raises Refused
        after it caught up with what refused it, Unavailable."""
        try:
            seq = await self._publisher.publish_all([self.outgoing(write) for write in writes])
        except Refused as refused:
            await self.follower.reached(refused.last)
            conditional = [write for write in writes if write.expected is not None]
            for write in conditional:
                if refused.last < (write.expected or 0) or len(conditional) == 1:
                    # Also if the last message of the key has expired, or was forgotten here.
                    self._revisions[write.key] = refused.last
            raise
        await self.follower.reached(seq)
        return seq

    async def look_up(self, *key: str) -> bool:
        """Catch up with the leader's last change of a key; False if the key never had one. Read again afterwards: the
        change may have come since the last read."""
        found = await self._js.last_of(self._names.bucket_stream, self._names.key(*key))
        if found is not None:
            await self.follower.reached(found.seq)
        return found is not None

    def outgoing(self, write: KeyWrite) -> Outgoing:
        """The message of a change."""
        headers: dict[str, str] = {}
        ttl = TOMBSTONE_S if write.data is None else write.ttl_s
        if write.data is None:
            headers[_OPERATION] = "DEL"
        elif ttl is not None:
            headers[_UNTIL] = str(self._clock.now_ms() + round(ttl * 1000))
        if ttl is not None:
            # Whole seconds, and at least one.
            headers[_TTL] = f"{max(1, math.ceil(ttl))}s"
        return Outgoing(self._names.key(*write.key), write.data or b"", write.expected, headers)

    async def _apply(self, group: Sequence[StoredMessage]) -> None:
        changes: list[tuple[KeyHandler, KeyChange]] = []
        for message in group:
            kind, *key = key_of(message.subject)
            gone = message.headers.get(_OPERATION) in ("DEL", "PURGE") or "Nats-Marker-Reason" in message.headers
            until = message.headers.get(_UNTIL)
            change = KeyChange(tuple(key), message.seq, None if gone else message.body, int(until) if until else None)
            if (handler := self._handlers.get(kind)) is not None:
                changes.append((handler, change))
            if self._seen is not None:
                keys = self._seen.setdefault(kind, set())
                keys.discard(change.key) if gone else keys.add(change.key)
        outcomes = await self._writer.do(lambda db: [handler.apply(db, change) for handler, change in changes])
        # After the commit: who reads a revision and then the value must not find a newer revision with an older value.
        for message in group:
            self._remember(message)
        for (handler, change), outcome in zip(changes, outcomes, strict=True):
            handler.applied(change, outcome)

    def _remember(self, message: StoredMessage) -> None:
        """Remember the revision of a key, until some time after its last message has expired."""
        key, now = key_of(message.subject), self._clock.now_ms()
        self._revisions[key] = message.seq
        until = now + TOMBSTONE_S * 1000 if _OPERATION in message.headers else int(message.headers.get(_UNTIL, 0))
        if until:
            heapq.heappush(self._ends, (until + _FORGET_MS, message.seq, key))
        while self._ends and self._ends[0][0] < now:
            _, seq, old = heapq.heappop(self._ends)
            if self._revisions.get(old) == seq:
                del self._revisions[old]
