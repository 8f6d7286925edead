"""The writer thread: takes all waiting jobs and commits them in one transaction (group commit).

Rules
    Only this thread writes to `fairlead.db`.
    A job checks before it writes: a job that raises a FairleadError has written nothing, and fails alone.
    Any other error rolls back the whole transaction; its jobs are then repeated one by one, so that each gets
    its own outcome. Jobs may therefore run twice, but only one run is ever committed.
    The loop is woken once per commit, for all finished jobs.
    This thread does not checkpoint the WAL, except for the last step of `shrink`.
"""

import asyncio
import enum
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from fairlead.model.errors import FairleadError, Unavailable
from fairlead.stores.sqlite.append import Append, Appender, AppenderCall
from fairlead.stores.sqlite.connections import BUSY_MS, transaction
from fairlead.stores.sqlite.errors import translate
from fairlead.stores.sqlite.projections import Derive

Call = Callable[[sqlite3.Connection], Any]
Outcome = Any | BaseException

# Limits of a commit: large enough to share its cost among many jobs, small enough that the first does not wait long.
_GROUP_JOBS = 512
_GROUP_BYTES = 8 << 20
# Calls that may wait in the queue; further callers wait outside, in order.
_QUEUED = 4096

_log = logging.getLogger(__name__)


class _WriterSignal(enum.Enum):
    CLOSE = enum.auto()
    SHRINK = enum.auto()


class WriteJob(NamedTuple):
    """`changes_logs`: the call changes the owner of a log, or forks or erases one."""

    future: asyncio.Future[Any]
    call: Append | AppenderCall | Call
    changes_logs: bool
    size: int


class Writer:
    """Takes ownership of `db`. `committed` is called on the loop with the number of bytes added."""

    def __init__(self, db: sqlite3.Connection, file: Path, committed: Callable[[int], None]) -> None:
        self._db = db
        self._file = file
        self._committed = committed
        self._loop = asyncio.get_running_loop()
        self._appender = Appender(db)
        self._room = asyncio.Semaphore(_QUEUED)
        self._queue: queue.SimpleQueue[WriteJob | _WriterSignal] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="fairlead-writer", daemon=True)
        self._thread.start()

    async def do(self, call: Append | AppenderCall | Call, *, changes_logs: bool = False) -> Any:
        """Run a call in the writer thread. It is durable when this returns; cancelling does not undo it."""
        async with self._room:
            if self._closed:
                raise Unavailable("The store is closed.")
            future: asyncio.Future[Any] = self._loop.create_future()
            size = call.size if isinstance(call, Append | AppenderCall | Derive) else 0
            self._queue.put(WriteJob(future, call, changes_logs, size))
            return await future

    async def close(self) -> None:
        """Finish the queued jobs, then end the thread and close its connection."""
        self._closed = True
        self._queue.put(_WriterSignal.CLOSE)
        await asyncio.to_thread(self._thread.join)

    def shrink(self) -> None:
        """Truncate the WAL before the next commit. Callable from any thread; fast only right after a checkpoint."""
        self._queue.put(_WriterSignal.SHRINK)

    # --- the thread

    def _run(self) -> None:
        order: _WriterSignal | None = None
        while order is not _WriterSignal.CLOSE:
            group, order = self._take()
            if group:
                self._settle(group, self._commit(group))
            if order is _WriterSignal.SHRINK:
                self._shrink()
        self._db.close()

    def _take(self) -> tuple[list[WriteJob], _WriterSignal | None]:
        group: list[WriteJob] = []
        size = 0
        item = self._queue.get()
        while isinstance(item, WriteJob):
            group.append(item)
            size += item.size
            if len(group) >= _GROUP_JOBS or size >= _GROUP_BYTES:
                return group, None
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return group, None
        return group, item

    def _shrink(self) -> None:
        # An append must never wait for a reader that still needs the WAL: truncating is tried again later.
        self._db.execute("pragma busy_timeout = 0")
        try:
            self._db.execute("pragma wal_checkpoint(truncate)")
        except sqlite3.Error as error:
            _log.warning("the WAL of %s could not be truncated, and is tried again later: %s", self._file, error)
        finally:
            self._db.execute(f"pragma busy_timeout = {BUSY_MS}")

    def _commit(self, group: list[WriteJob]) -> list[Outcome]:
        try:
            return self._transaction(group)
        except Exception as error:
            if len(group) > 1:
                return [outcome for job in group for outcome in self._commit([job])]
            return [self._translated(error)]

    def _transaction(self, group: list[WriteJob]) -> list[Outcome]:
        try:
            with transaction(self._db):
                self._appender.begin()
                outcomes = [self._one(job) for job in group]
                self._appender.flush()
            return outcomes
        except BaseException:
            self._appender.roll_back()
            raise

    def _one(self, job: WriteJob) -> Outcome:
        try:
            if isinstance(job.call, Append):
                return self._appender.append(job.call)
            if isinstance(job.call, AppenderCall):
                return job.call.run(self._db, self._appender)
            self._appender.flush()
            result = job.call(self._db)
        except FairleadError as refusal:
            return refusal
        if job.changes_logs:
            self._appender.invalidate()
        return result

    def _translated(self, error: Exception) -> BaseException:
        if isinstance(error, sqlite3.Error) and (ours := translate(error, self._file)) is not None:
            ours.__cause__ = error
            return ours
        return error

    def _settle(self, group: list[WriteJob], outcomes: list[Outcome]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._deliver, group, outcomes)
        except RuntimeError:
            _log.warning("the event loop was closed before %d writes could be acknowledged", len(group))

    # --- the loop

    def _deliver(self, group: list[WriteJob], outcomes: list[Outcome]) -> None:
        size = 0
        for job, outcome in zip(group, outcomes, strict=True):
            failed = isinstance(outcome, BaseException)
            size += 0 if failed else job.size
            if job.future.cancelled():
                continue
            if failed:
                job.future.set_exception(outcome)
            else:
                job.future.set_result(outcome)
        self._committed(size)
