"""The documents of one node of a cell, in a file of its own: its database can then be made again from the streams."""

import sqlite3
from contextlib import ExitStack
from pathlib import Path

from fairlead.stores.sqlite.connections import connect, make_private
from fairlead.stores.sqlite.documents import SqliteDocuments
from fairlead.stores.sqlite.errors import translating
from fairlead.stores.sqlite.readers import Readers
from fairlead.stores.sqlite.writer import Writer
from fairlead.system.clock import Clock

FILE = "node.db"
TABLE = """
create table if not exists documents (space text not null, key text not null, value text not null, until integer,
    primary key (space, key)) without rowid
"""


class NodeDocuments(SqliteDocuments):
    def __init__(self, folder: Path, clock: Clock) -> None:
        file = folder / FILE
        make_private(file)
        with ExitStack() as undo, translating(file):
            writer: sqlite3.Connection = connect(file)
            undo.callback(writer.close)
            writer.execute("pragma journal_mode = wal")
            writer.execute("pragma synchronous = normal")
            writer.execute(TABLE)
            reader = connect(file, read_only=True)
            undo.pop_all()
        self._own_readers = Readers((reader,), file)
        self._own_writer = Writer(writer, file, lambda size: None)
        super().__init__(self._own_readers, self._own_writer, clock)

    async def close(self) -> None:
        await self._own_readers.close()
        await self._own_writer.close()
