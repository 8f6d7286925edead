"""The maintenance thread: updates the search index from the log and checkpoints the WAL, off the live path.

It sleeps without a timer while nothing is written.
"""

import asyncio
import logging
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

from fairlead.model.errors import Unavailable
from fairlead.stores.sqlite.errors import translate
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


class _Request(NamedTuple):
    work: Callable[[], None]
    done: Future[None]


class Maintenance:
    """Takes ownership of `db` and `index`. `shrink` asks the writer to truncate the WAL."""

    def __init__(self, db: sqlite3.Connection, index: Index, file: Path, shrink: Callable[[], None]) -> None:
        self._db = db
        self._index = index
        self._file = file
        self._shrink = shrink
        # None: new data was written. False: end.
        self._queue: queue.SimpleQueue[_Request | bool | None] = queue.SimpleQueue()
        self._notified = False
        self._written = 0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="fairlead-maintenance", daemon=True)
        self._thread.start()

    def on_write(self, size: int) -> None:
        """Schedule maintenance. Called on the loop after a commit."""
        self._written += size
        if not self._notified:
            self._notified = True
            self._queue.put(None)

    async def caught_up(self) -> None:
        await self._ask(self._catch_up)

    async def remove_texts(self, log: int, above: int) -> None:
        await self._ask(lambda: self._index.remove(log, above))

    async def close(self) -> None:
        self._closed = True
        self._queue.put(False)
        await asyncio.to_thread(self._thread.join)

    async def _ask(self, work: Callable[[], None]) -> None:
        if self._closed:
            raise Unavailable("The store is closed.")
        request = _Request(work, Future())
        self._queue.put(request)
        await asyncio.wrap_future(request.done)

    # --- the thread

    def _run(self) -> None:
        index_at: float | None = None
        checkpoint_at: float | None = None
        while True:
            due = [moment for moment in (index_at, checkpoint_at) if moment is not None]
            try:
                item = self._queue.get(timeout=max(min(due) - time.monotonic(), 0) if due else None)
            except queue.Empty:
                now = time.monotonic()
                if index_at is not None and index_at <= now:
                    index_at, checkpoint_at = None, now + _QUIET
                    self._notified = False
                    self._quietly(self._catch_up)
                    if self._written >= _CHECKPOINT_AFTER:
                        self._quietly(self._checkpoint)
                elif checkpoint_at is not None and checkpoint_at <= now:
                    checkpoint_at = None
                    self._quietly(self._checkpoint)
                continue
            if item is False:
                break
            if isinstance(item, _Request):
                self._settle(item)
            else:
                index_at = time.monotonic() + _GATHER
        self._index.close()
        self._db.close()

    def _settle(self, request: _Request) -> None:
        error = self._outcome(request.work)
        if request.done.set_running_or_notify_cancel():
            if error is None:
                request.done.set_result(None)
            else:
                request.done.set_exception(error)

    def _catch_up(self) -> None:
        while self._index.is_behind():
            self._index.advance()

    def _checkpoint(self) -> None:
        self._written = 0
        self._db.execute("pragma wal_checkpoint(passive)").fetchone()
        if os.path.getsize(f"{self._file}-wal") > _WAL_TOO_LONG:
            self._shrink()

    def _outcome(self, work: Callable[[], None]) -> Exception | None:
        try:
            work()
        except sqlite3.Error as error:
            return translate(error, self._index.file) or error
        except Exception as error:
            # A bug must not end the thread: a caller may be waiting for it.
            return error
        return None

    def _quietly(self, work: Callable[[], None]) -> None:
        """Run work without a waiting caller: if it fails (a full disk), it is tried again after the next write."""
        if (error := self._outcome(work)) is not None:
            _log.warning("maintenance of %s: %s", self._file, error)
