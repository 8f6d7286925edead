"""The maintenance thread: updates the search index from the log and checkpoints the WAL, off the live path.

There is no timer while nothing is written.
"""

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fairlead.model.errors import Unavailable
from fairlead.stores.sqlite.errors import translating
from fairlead.stores.sqlite.search import Index

# Seconds that new entries are collected before they are indexed: one transaction for a stream of deltas and its end.
_GATHER = 0.25
# Seconds without a write after which the WAL is checkpointed, so that a quiet gateway's data is in one file.
_QUIET = 5.0
# Bytes written after which it is checkpointed in any case; SQLite's own default is about 4 MB.
_CHECKPOINT_AFTER = 8 << 20
# A WAL of this size has not been reset for long (there was always a writer or a reader): the writer truncates it.
_WAL_TOO_LONG = 64 << 20

_log = logging.getLogger(__name__)


class Maintenance:
    """Takes ownership of `db` and `index`. `shrink` asks the writer to truncate the WAL."""

    def __init__(self, db: sqlite3.Connection, index: Index, file: Path, shrink: Callable[[], None]) -> None:
        self._db = db
        self._index = index
        self._file = file
        self._shrink = shrink
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "fairlead-maintenance")
        self._notified = False
        self._quiet: asyncio.TimerHandle | None = None
        self._written = 0
        self._closed = False

    def on_write(self, size: int) -> None:
        """Schedule maintenance. Called on the loop after a commit."""
        self._written += size
        if not self._notified:
            self._notified = True
            self._loop.call_later(_GATHER, self._on_gathered)

    async def caught_up(self) -> None:
        await self._do(self._catch_up)

    async def remove_texts(self, log: int, above: int) -> None:
        await self._do(lambda: self._index.remove(log, above))

    async def close(self) -> None:
        self._closed = True
        await self._loop.run_in_executor(self._thread, self._end)
        self._thread.shutdown()

    async def _do(self, work: Callable[[], None]) -> None:
        if self._closed:
            raise Unavailable("The store is closed.")
        await self._loop.run_in_executor(self._thread, self._translated, work)

    def _on_gathered(self) -> None:
        if self._quiet is not None:
            self._quiet.cancel()
        self._quiet = self._loop.call_later(_QUIET, self._start, self._checkpoint)
        self._start(self._catch_up_after_writes)

    def _start(self, work: Callable[[], None]) -> None:
        if not self._closed:
            self._thread.submit(self._quietly, work)

    # --- the thread

    def _catch_up_after_writes(self) -> None:
        self._notified = False
        self._quietly(self._catch_up)
        if self._written >= _CHECKPOINT_AFTER:
            self._checkpoint()

    def _catch_up(self) -> None:
        while self._index.is_behind():
            self._index.advance()

    def _checkpoint(self) -> None:
        self._written = 0
        self._db.execute("pragma wal_checkpoint(passive)").fetchone()
        if os.path.getsize(f"{self._file}-wal") > _WAL_TOO_LONG:
            self._shrink()

    def _end(self) -> None:
        self._index.close()
        self._db.close()

    def _translated(self, work: Callable[[], None]) -> None:
        with translating(self._index.file):
            work()

    def _quietly(self, work: Callable[[], None]) -> None:
        """Run work without a waiting caller: if it fails (a full disk), it is tried again after the next write."""
        try:
            self._translated(work)
        except Exception as error:
            _log.warning("maintenance of %s: %s", self._file, error)
