"""Small JSON values by namespace and key."""

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec

from fairlead.model.store import DocumentHeard
from fairlead.model.store.peers import Stop
from fairlead.stores.sqlite.readers import Readers
from fairlead.stores.sqlite.writer import Call, Writer
from fairlead.system.clock import Clock

Condition = Callable[[str | None], bool]
"""Whether a document may be changed that has this text; None: there is none."""

_PUT = "insert or replace into documents (space, key, value, until) values (?, ?, ?, ?)"
_DELETE = "delete from documents where space = ? and key = ?"
_EXPIRED = "delete from documents where until <= ?"
_GET = "select value from documents where space = ? and key = ? and (until is null or until > ?)"
_LIST = "select key, value from documents where space = ? and (until is null or until > ?) order by key"


class DocumentListeners:
    """The listeners of each space."""

    def __init__(self) -> None:
        self._by_space: dict[str, list[DocumentHeard]] = {}

    def add(self, space: str, heard: DocumentHeard) -> Stop:
        self._by_space.setdefault(space, []).append(heard)

        def stop() -> None:
            if heard in (listeners := self._by_space.get(space, [])):
                listeners.remove(heard)

        return stop

    def has(self, space: str) -> bool:
        return bool(self._by_space.get(space))

    def notify(self, space: str, key: str, text: str | bytes | None) -> None:
        for heard in tuple(self._by_space.get(space, ())):
            # Decoded for each one: a listener may keep the value and change it.
            heard(key, None if text is None else msgspec.json.decode(text))


class SqliteDocuments:
    def __init__(self, readers: Readers, writer: Writer, clock: Clock) -> None:
        self._readers = readers
        self._writer = writer
        self._clock = clock
        self._listeners = DocumentListeners()
        self._changes: set[asyncio.Task[bool]] = set()

    async def get(self, space: str, key: str) -> Any | None:
        row = await self._readers.row(_GET, space, key, self._clock.now_ms())
        return None if row is None else msgspec.json.decode(row[0])

    async def put(self, space: str, key: str, value: Any, ttl_s: float | None = None) -> None:
        await self._change(space, key, _text(value), None, ttl_s)

    async def add(self, space: str, key: str, value: Any, ttl_s: float | None = None) -> bool:
        return await self._change(space, key, _text(value), lambda found: found is None, ttl_s)

    async def swap(self, space: str, key: str, value: Any | None, expected: Any | None) -> bool:
        wanted = canonical(expected)
        return await self._change(
            space,
            key,
            None if value is None else _text(value),
            lambda found: canonical(None if found is None else msgspec.json.decode(found)) == wanted,
        )

    async def delete(self, space: str, key: str) -> bool:
        return await self._change(space, key, None, lambda found: found is not None)

    async def list(self, space: str) -> dict[str, Any]:
        rows = await self._readers.rows(_LIST, space, self._clock.now_ms())
        return {key: msgspec.json.decode(value) for key, value in rows}

    def listen(self, space: str, heard: DocumentHeard) -> Stop:
        return self._listeners.add(space, heard)

    async def _change(
        self, space: str, key: str, text: str | None, condition: Condition | None, ttl_s: float | None = None
    ) -> bool:
        """Put or delete a document if the condition holds; it holds for exactly one of many callers, since one thread
        makes all changes."""
        now = self._clock.now_ms()
        until = None if ttl_s is None else now + round(ttl_s * 1000)

        def change(db: sqlite3.Connection) -> bool:
            if condition is not None:
                found = db.execute(_GET, (space, key, now)).fetchone()
                if not condition(None if found is None else found[0]):
                    return False
            if text is None:
                db.execute(_DELETE, (space, key))
            else:
                db.execute(_PUT, (space, key, text, until))
            if until is not None:
                db.execute(_EXPIRED, (now,))
            return True

        if not self._listeners.has(space):
            return bool(await self._writer.do(change))
        # A task of its own: if the caller is cancelled, the change is made nevertheless, and listeners hear of it.
        task = asyncio.create_task(self._change_and_notify(change, space, key, text))
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return await asyncio.shield(task)

    async def _change_and_notify(self, change: Call, space: str, key: str, text: str | None) -> bool:
        changed = bool(await self._writer.do(change))
        if changed:
            self._listeners.notify(space, key, text)
        return changed


def canonical(value: Any) -> bytes:
    """The JSON of a value, equal for equal values: in Python, 1 and True are equal too."""
    return msgspec.json.encode(value, order="deterministic")


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
