"""SqliteStore: the adapter of the store port for one machine. It connects the parts, each of which has its own file.

Guarantees beyond the port:
    Reads see every append of this process that has returned.
    `prev` is the seq of the preceding entry in the log as it is read, also after drops (see `read`).
    No page is ever `truncated`: logs are removed completely or not at all.
    Entries named in `drop` are gone when `append` returns, except the head and entries that a fork of the log shows.
    The answer to a cursor above the head of its log (a power cut took the last entries) is a Reset.
"""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from fairlead.model.errors import FairleadError, NoOwner, Unavailable
from fairlead.model.ids import SessionId
from fairlead.model.store import (
    Batch,
    Checkpoint,
    Documents,
    Entry,
    ForkPoint,
    Lease,
    Page,
    ProjectionState,
    ProjectionWrite,
    Reset,
    RowPage,
    SearchHit,
    SessionFilter,
    SessionPage,
    Summary,
)
from fairlead.model.usage_stats import UsageStats
from fairlead.notifications.api.resources import ResourceStore
from fairlead.stores.sqlite import backup, owners, projections, search, sessions, usage_stats
from fairlead.stores.sqlite import erase as erasing
from fairlead.stores.sqlite import read as reading
from fairlead.stores.sqlite.append import Append, Spilled
from fairlead.stores.sqlite.connections import DATABASE, SEARCH, SPILL, Durability
from fairlead.stores.sqlite.crash_detection import mark_closed
from fairlead.stores.sqlite.documents import SqliteDocuments
from fairlead.stores.sqlite.maintenance import Maintenance
from fairlead.stores.sqlite.open import Opened, open_folder
from fairlead.stores.sqlite.readers import Readers
from fairlead.stores.sqlite.resources import SqliteResources
from fairlead.stores.sqlite.spill import Spill
from fairlead.stores.sqlite.subscriptions import Subscriptions
from fairlead.stores.sqlite.writer import Writer
from fairlead.system.clock import Clock, SystemClock, within

# Seconds that a node counts as alive after a renewal. It may rely on a part of that only, since clocks differ.
_PRESENCE = 10.0
_BELIEVED = 0.7
# Pages given back to the file system per transaction.
_VACUUM_PAGES = 256

_log = logging.getLogger(__name__)

Handler = Callable[[bytes], Awaitable[bytes]]


class SqliteStore:
    """Open it with `await SqliteStore.open(folder)`; one per data folder, used from one event loop."""

    def __init__(self, opened: Opened, folder: Path, node: str, clock: Clock, spill: Spill, spill_above: int) -> None:
        self.folder = folder
        self.node = node
        self._clock = clock
        self._lock = opened.lock
        self._spill = spill
        self._spill_above = spill_above
        self._fts = opened.fts
        self._file = folder / DATABASE
        self._writer = Writer(opened.writer, self._file, self._committed)
        self._maintenance = Maintenance(opened.maintenance, opened.index, self._file, self._writer.shrink)
        self._readers = Readers(opened.readers, self._file)
        self._documents = SqliteDocuments(self._readers, self._writer)
        self._shelf = SqliteResources(self._readers, self._writer)
        self._subscriptions = Subscriptions(self.read, shared=opened.lock is None)
        self._served: dict[SessionId, Handler] = {}
        self._erasing = asyncio.Lock()
        self._leftovers: asyncio.Task[None] | None = None
        self._open = True

    @classmethod
    async def open(
        cls,
        folder: Path,
        *,
        node: str = "local",
        durability: Durability = "process",
        clock: Clock | None = None,
        spill_above: int = 64 << 20,
        _alone: bool = True,
    ) -> "SqliteStore":
        """Open the data folder, creating missing files. Raises FolderInUse if another process uses it, Damaged if its
        database cannot be used. Records above `spill_above` bytes go to files. `_alone=False` is for tests."""
        clock = clock or SystemClock()
        opened = await asyncio.to_thread(open_folder, folder, durability, clock.now_ms(), alone=_alone)
        spill = Spill(folder / SPILL, sync=durability == "power")
        store = cls(opened, folder, node, clock, spill, spill_above)
        await store.renew()
        store._leftovers = asyncio.create_task(store._resume_erasing())
        return store

    async def close(self) -> None:
        if not self._open:
            return
        self._open = False
        if self._leftovers is not None:
            self._leftovers.cancel()
            with suppress(asyncio.CancelledError):
                await self._leftovers
        with suppress(FairleadError):
            await self._writer.do(owners.present(self.node, 0) if self._lock is None else mark_closed)
        await self._readers.close()
        self._subscriptions.wake_all()
        # Readers first: the last connection to a file checkpoints its WAL and removes it, which a reader cannot do.
        await self._maintenance.close()
        await self._writer.close()
        if self._lock is not None:
            self._lock.release()

    @property
    def documents(self) -> Documents:
        return self._documents

    @property
    def resources(self) -> ResourceStore:
        """Resources and their change feed; in this database, so that both are written in one transaction."""
        return self._shelf

    # --- the log

    async def append(self, lease: Lease, batch: Batch, expected_head: int) -> int:
        spilled = await self._spill_large(lease, batch)
        head: int = await self._writer.do(Append(lease, batch, expected_head, spilled))
        return head

    async def read(self, session: SessionId, after: int, limit: int, max_bytes: int = 4 << 20) -> Page:
        return await self._readers.do(
            lambda db: reading.page_forward(db, self._spill, session, after, limit, max_bytes)
        )

    async def tail(self, session: SessionId, before: int | None, limit: int, kinds: Sequence[str] = ()) -> Page:
        return await self._readers.do(
            lambda db: reading.page_backward(db, self._spill, session, before, limit, tuple(kinds))
        )

    def subscribe(self, session: SessionId, after: int, log_id: str | None = None) -> AsyncIterator[Entry | Reset]:
        return self._subscriptions.subscribe(session, after, log_id)

    async def find(self, session: SessionId, key: str) -> bytes | None:
        def run(db: sqlite3.Connection) -> bytes | None:
            row = db.execute(
                "select cast(reply as blob) from replies"
                " where log = (select id from logs where session = ?) and key = ?",
                (session, key),
            ).fetchone()
            return None if row is None else row[0]

        return await self._readers.do(run)

    async def checkpoint(self, session: SessionId, name: str) -> Checkpoint | None:
        def run(db: sqlite3.Connection) -> Checkpoint | None:
            row = db.execute(
                "select name, seq, data from checkpoints"
                " where log = (select id from logs where session = ?) and name = ?",
                (session, name),
            ).fetchone()
            return None if row is None else Checkpoint(*row)

        return await self._readers.do(run)

    # --- projections

    async def write_projection(self, session: SessionId, view: str, derived: ProjectionWrite, expected: int) -> None:
        await self._writer.do(projections.Derive(session, view, derived, expected))

    async def projection_state(self, session: SessionId, view: str) -> ProjectionState:
        return await self._readers.do(lambda db: projections.read_state(db, session, view))

    async def rows(self, session: SessionId, view: str, after: int, limit: int, max_bytes: int = 4 << 20) -> RowPage:
        return await self._readers.do(lambda db: projections.page_forward(db, session, view, after, limit, max_bytes))

    async def rows_tail(
        self, session: SessionId, view: str, before: int | None, limit: int, max_bytes: int = 4 << 20
    ) -> RowPage:
        return await self._readers.do(lambda db: projections.page_backward(db, session, view, before, limit, max_bytes))

    async def row_of(self, session: SessionId, view: str, key: str) -> int | None:
        return await self._readers.do(lambda db: projections.row_of(db, session, view, key))

    # --- ownership

    async def claim(self, session: SessionId, fork: ForkPoint | None = None) -> tuple[Lease, str, int]:
        claimed: tuple[Lease, str, int] = await self._writer.do(
            owners.claim(session, self.node, self._clock.now_ms(), fork), session
        )
        return claimed

    async def renew(self) -> float:
        """Renew this node's presence. Writes nothing while this process holds the folder's lock: there can be no other
        node to read it."""
        began = self._clock.monotonic()
        if self._lock is None:
            await self._writer.do(owners.present(self.node, self._clock.now_ms() + int(_PRESENCE * 1000)))
        return max(_PRESENCE * _BELIEVED - (self._clock.monotonic() - began), 0.0)

    async def release(self, lease: Lease) -> None:
        await self._writer.do(owners.release(lease), lease.session)

    async def owner(self, session: SessionId) -> Lease | None:
        return await self._readers.do(lambda db: owners.owner(db, session))

    async def owned_by(self, node: str) -> Sequence[SessionId]:
        return await self._readers.do(lambda db: owners.owned_by(db, node))

    # --- commands: one process, so the handler is called directly

    async def serve(self, lease: Lease, handler: Handler) -> Callable[[], Awaitable[None]]:
        self._served[lease.session] = handler

        async def stop() -> None:
            if self._served.get(lease.session) is handler:
                del self._served[lease.session]

        return stop

    async def command(self, session: SessionId, payload: bytes, timeout: float = 5.0) -> bytes:
        handler = self._served.get(session)
        if handler is None:
            raise NoOwner(session)
        try:
            return await within(self._clock, timeout, handler(payload))
        except TimeoutError:
            raise Unavailable(f"Session {session} did not answer within {timeout:g} s.", session=session) from None

    # --- lists

    async def sessions(self, wanted: SessionFilter, seen_by: str | None = None) -> SessionPage:
        return await self._readers.do(lambda db: sessions.list_sessions(db, wanted, seen_by))

    async def summary(self, session: SessionId) -> Summary | None:
        return await self._readers.do(lambda db: sessions.get_summary(db, session))

    async def list_found(self, found: Sequence[Summary], gone: Sequence[SessionId] = ()) -> None:
        await self._writer.do(lambda db: sessions.list_found(db, found, gone))

    async def session_of(self, agent_session: str) -> SessionId | None:
        return await self._readers.do(lambda db: sessions.session_of(db, agent_session))

    async def search(
        self, words: str, limit: int = 20, session: SessionId | None = None, seen_by: str | None = None
    ) -> Sequence[SearchHit]:
        return await self._readers.do(lambda db: search.search(db, words, limit, session, seen_by, fts=self._fts))

    async def wait_indexed(self) -> None:
        await self._maintenance.caught_up()

    async def usage_stats(self, since: int, until: int, offset: int = 0, seen_by: str | None = None) -> UsageStats:
        return await self._readers.do(lambda db: usage_stats.read(db, since, until, offset, seen_by))

    async def erase(self, session: SessionId) -> None:
        await self._writer.do(lambda db: erasing.tombstone(db, session), session)
        await self._remove_hidden()

    async def sizes(self) -> dict[str, int]:
        def run(db: sqlite3.Connection) -> int:
            (free,), (page,) = (db.execute(f"pragma {name}").fetchone() for name in ("freelist_count", "page_size"))
            return int(free) * int(page)

        free = await self._readers.do(run)
        files = await self._readers.outside(self._file_sizes)
        return {**files, "free": free}

    # --- beyond the port

    async def vacuum(self) -> int:
        """Give free pages back to the file system, in small steps; returns the number of bytes."""
        freed = 0
        while pages := await self._writer.do(_vacuum_slice):
            freed += pages
        return freed

    async def backup(self, target: Path, progress: backup.Progress | None = None) -> None:
        """Copy the current state into one new file; `progress` is called on the loop."""
        loop = asyncio.get_running_loop()

        def report(done: int, total: int) -> None:
            if progress is not None:
                loop.call_soon_threadsafe(progress, done, total)

        await asyncio.to_thread(backup.back_up, self._file, self._spill, target, report)

    # --- internal

    def _committed(self, changed: set[SessionId], size: int) -> None:
        for session in changed:
            self._subscriptions.wake(session)
        self._maintenance.on_write(size)

    async def _spill_large(self, lease: Lease, batch: Batch) -> dict[int, Spilled]:
        spilled: dict[int, Spilled] = {}
        for entry in batch.entries:
            if max(len(entry.event), len(entry.raw or b"")) > self._spill_above:
                event = await self._spill_part(lease, entry.seq, entry.event)
                raw = await self._spill_part(lease, entry.seq, entry.raw)
                spilled[entry.seq] = Spilled(event, raw)
        return spilled

    async def _spill_part(self, lease: Lease, seq: int, data: bytes | None) -> str | None:
        if data is None or len(data) <= self._spill_above:
            return None
        return await self._readers.outside(lambda: self._spill.write(lease, seq, data))

    async def _resume_erasing(self) -> None:
        try:
            await self._remove_hidden()
        except FairleadError as error:
            _log.warning("erased sessions in %s are not removed yet: %s", self._file, error)

    async def _remove_hidden(self) -> None:
        async with self._erasing:
            for log in await self._readers.do(erasing.hidden):
                kept: int | None = None
                while kept is None:
                    kept = await self._writer.do(partial(erasing.remove_slice, log=log))
                await self._maintenance.remove_texts(log, kept)
                await self._writer.do(partial(erasing.finish, spill=self._spill, log=log))

    def _file_sizes(self) -> dict[str, int]:
        return {
            "database": _size(self._file),
            "wal": _size(Path(f"{self._file}-wal")),
            "search": _size(self.folder / SEARCH) + _size(self.folder / f"{SEARCH}-wal"),
            "spill": self._spill.size(),
        }


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _vacuum_slice(db: sqlite3.Connection) -> int:
    (before,) = db.execute("pragma freelist_count").fetchone()
    db.execute(f"pragma incremental_vacuum({_VACUUM_PAGES})").fetchall()
    (after,) = db.execute("pragma freelist_count").fetchone()
    (page,) = db.execute("pragma page_size").fetchone()
    return int((before - after) * page)
