"""Small JSON values by namespace and key."""

from typing import Any

import msgspec

from fairlead.stores.sqlite.readers import Readers
from fairlead.stores.sqlite.writer import Writer


class SqliteDocuments:
    def __init__(self, readers: Readers, writer: Writer) -> None:
        self._readers = readers
        self._writer = writer

    async def get(self, space: str, key: str) -> Any | None:
        row = await self._readers.row("select value from documents where space = ? and key = ?", space, key)
        return None if row is None else msgspec.json.decode(row[0])

    async def put(self, space: str, key: str, value: Any) -> None:
        await self._change("insert or replace into documents values (?, ?, ?)", space, key, _text(value))

    async def add(self, space: str, key: str, value: Any) -> bool:
        return await self._change("insert or ignore into documents values (?, ?, ?)", space, key, _text(value))

    async def delete(self, space: str, key: str) -> bool:
        return await self._change("delete from documents where space = ? and key = ?", space, key)

    async def list(self, space: str) -> dict[str, Any]:
        rows = await self._readers.rows("select key, value from documents where space = ? order by key", space)
        return {key: msgspec.json.decode(value) for key, value in rows}

    async def _change(self, statement: str, *values: str) -> bool:
        """Run a statement. Returns whether a row changed, which is True for exactly one of many callers, since one
        thread makes all changes."""
        return bool(await self._writer.do(lambda db: db.execute(statement, values).rowcount > 0))


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
