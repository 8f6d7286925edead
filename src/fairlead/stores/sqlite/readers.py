"""Reader threads, each with a read-only connection: they see every commit and never wait for the writer."""

import asyncio
import queue
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from fairlead.model.errors import Unavailable
from fairlead.stores.sqlite.errors import translating

T = TypeVar("T")
P = ParamSpec("P")
Read = Callable[Concatenate[sqlite3.Connection, P], T]


class Readers:
    """One thread for each connection in `dbs`; takes ownership of them."""

    def __init__(self, dbs: Sequence[sqlite3.Connection], file: Path) -> None:
        self._file = file
        self._idle: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        for db in dbs:
            self._idle.put(db)
        self._threads = ThreadPoolExecutor(len(dbs), "fairlead-reader")
        self._closed = False

    async def do(self, read: Read[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `read` in a thread; all its queries see one snapshot of the database."""
        return await self.outside(lambda: self._in_snapshot(read, *args, **kwargs))

    async def row(self, query: str, *values: object) -> Any:
        """Return the first row of a query; None if it has no row."""
        return await self.do(lambda db: db.execute(query, values).fetchone())

    async def outside(self, work: Callable[[], T]) -> T:
        """Run other slow work that must not block the loop, such as reading a large file."""
        if self._closed:
            raise Unavailable("The store is closed.")
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def close(self) -> None:
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)
        while not self._idle.empty():
            self._idle.get_nowait().close()

    async def rows(self, query: str, *values: object) -> list[Any]:
        return await self.do(lambda db: db.execute(query, values).fetchall())

    def _in_snapshot(self, read: Read[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        db = self._idle.get()
        try:
            with translating(self._file):
                db.execute("begin")
                return read(db, *args, **kwargs)
        finally:
            if db.in_transaction:
                db.execute("rollback")
            self._idle.put(db)
