"""SqliteStore: the adapter of the store port for one machine. It connects the parts, each of which has its own file.

Guarantees beyond the port:
    Reads see every append of this process that has returned.
    `prev` is the seq of the preceding entry in the log as it is read, also after drops (see `read`).
    Entries named in `drop` are gone when `append` returns, except the head and entries that a fork of the log shows.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from fairlead.model import store as port
from fairlead.model.errors import FairleadError
from fairlead.model.ids import SessionId
from fairlead.model.store.peers import Alone, Peers, Stop
from fairlead.model.usage_stats import UsageStats
from fairlead.notifications.api.resources import ResourceStore
from fairlead.stores.sqlite import erase as erasing
from fairlead.stores.sqlite import owners, projections, search, sessions, usage_stats
from fairlead.stores.sqlite import read as reading
from fairlead.stores.sqlite.append import Append, Spilled
from fairlead.stores.sqlite.connections import DATABASE, SPILL, Durability
from fairlead.stores.sqlite.crash_detection import mark_closed
from fairlead.stores.sqlite.documents import SqliteDocuments
from fairlead.stores.sqlite.maintenance import Maintenance
from fairlead.stores.sqlite.open import Opened, open_folder
from fairlead.stores.sqlite.readers import Readers
from fairlead.stores.sqlite.resources import SqliteResources
from fairlead.stores.sqlite.spill import Spill
from fairlead.stores.sqlite.upgrade import Migration, prepare
from fairlead.stores.sqlite.writer import Writer
from fairlead.system.clock import Clock, SystemClock

# Milliseconds that a node of a shared folder counts as alive. Only tests share one.
_PRESENCE = 10_000
_OF_SESSION = "log = (select id from logs where session = ?)"

_log = logging.getLogger(__name__)


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
        self._writer = Writer(opened.writer, self._file, lambda size: self._maintenance.on_write(size))
        self._maintenance = Maintenance(opened.maintenance, opened.index, self._file, self._writer.shrink)
        self._readers = Readers(opened.readers, self._file)
        self.documents: port.Documents = SqliteDocuments(self._readers, self._writer, clock)
        self.here = self.documents
        self.peers: Peers = Alone(node)
        self.resources: ResourceStore = SqliteResources(self._readers, self._writer)
        """Resources and their change feed; in this database, so that both are written in one transaction."""
        self._loop = asyncio.get_running_loop()
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
        migration: Migration = "backup",
        _alone: bool = True,
    ) -> "SqliteStore":
        """Open the data folder, creating missing files. Raises FolderInUse if another process uses it, Damaged if its
        database cannot be used. Records above `spill_above` bytes go to files. `migration`: what to do
        before an older database is migrated. `_alone=False` is for tests."""
        clock = clock or SystemClock()
        now = clock.now_ms()
        before = partial(prepare, folder, migration=migration, now_ms=now)
        opened = await asyncio.to_thread(open_folder, folder, durability, now, alone=_alone, prepare=before)
        spill = Spill(folder / SPILL, sync=durability == "power")
        store = cls(opened, folder, node, clock, spill, spill_above)
        await store._set_present()
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
            await self._set_present(0)
            if self._lock is not None:
                await self._writer.do(mark_closed)
        await self._readers.close()
        # Readers first: the last connection to a file checkpoints its WAL and removes it, which a reader cannot do.
        await self._maintenance.close()
        await self._writer.close()
        if self._lock is not None:
            self._lock.close()

    # --- the log

    async def append(self, lease: port.Lease, batch: port.Batch, expected_head: int) -> int:
        spilled = await self._spill_large(lease, batch)
        head: int = await self._writer.do(Append(lease, batch, expected_head, spilled))
        return head

    async def read(self, session: SessionId, after: int, limit: int, max_bytes: int = 4 << 20) -> port.Page:
        return await self._readers.do(reading.page_forward, self._spill, session, after, limit, max_bytes)

    async def tail(self, session: SessionId, before: int | None, limit: int, kinds: Sequence[str] = ()) -> port.Page:
        return await self._readers.do(reading.page_backward, self._spill, session, before, limit, tuple(kinds))

    async def find(self, session: SessionId, key: str) -> bytes | None:
        query = f"select cast(reply as blob) from replies where {_OF_SESSION} and key = ?"
        row = await self._readers.row(query, session, key)
        return None if row is None else row[0]

    async def checkpoint(self, session: SessionId, name: str) -> port.Checkpoint | None:
        query = f"select name, seq, data from checkpoints where {_OF_SESSION} and name = ?"
        row = await self._readers.row(query, session, name)
        return None if row is None else port.Checkpoint(*row)

    # --- projections

    async def write_projection(
        self, session: SessionId, view: str, derived: port.ProjectionWrite, expected: int
    ) -> None:
        await self._writer.do(projections.Derive(session, view, derived, expected))

    async def projection_state(self, session: SessionId, view: str) -> port.ProjectionState:
        return await self._readers.do(projections.read_state, session, view)

    async def rows(
        self, session: SessionId, view: str, after: int, limit: int, max_bytes: int = 4 << 20
    ) -> port.RowPage:
        return await self._readers.do(projections.read_page, session, view, after, limit, max_bytes)

    async def rows_tail(
        self, session: SessionId, view: str, before: int | None, limit: int, max_bytes: int = 4 << 20
    ) -> port.RowPage:
        bound = reading.NO_END if before is None else before
        return await self._readers.do(projections.read_page, session, view, bound, limit, max_bytes, newest=True)

    async def row_of(self, session: SessionId, view: str, key: str) -> int | None:
        return await self._readers.do(projections.row_of, session, view, key)

    # --- ownership

    async def claim(self, session: SessionId, fork: port.ForkPoint | None = None) -> tuple[port.Lease, str, int]:
        now = self._clock.now_ms()
        claimed: tuple[port.Lease, str, int] = await self._writer.do(
            lambda db: owners.claim(db, session, self.node, now, fork), changes_logs=True
        )
        return claimed

    async def release(self, lease: port.Lease) -> None:
        await self._writer.do(lambda db: owners.release(db, lease), changes_logs=True)

    async def home(self, session: SessionId) -> str:
        return ""

    async def owned_by(self, node: str) -> Sequence[SessionId]:
        rows = await self._readers.rows(
            "select session from logs where node = ? and session is not null order by id", node
        )
        return [SessionId(session) for (session,) in rows]

    async def caught_up(self, session: SessionId, seq: int | None = None, timeout_s: float = 10.0) -> None:
        return None

    def follow(self, heard: Callable[[port.LogChange], None]) -> Stop:
        return lambda: None

    # --- lists

    async def sessions(self, wanted: port.SessionFilter, seen_by: str | None = None) -> port.SessionPage:
        return await self._readers.do(sessions.list_sessions, wanted, seen_by)

    async def summary(self, session: SessionId) -> port.Summary | None:
        return await self._readers.do(sessions.get_summary, session)

    async def list_found(self, found: Sequence[port.Summary], gone: Sequence[SessionId] = ()) -> None:
        await self._writer.do(lambda db: sessions.list_found(db, found, gone))

    async def session_of(self, agent_session: str) -> SessionId | None:
        return await self._readers.do(sessions.session_of, agent_session)

    async def search(
        self, words: str, limit: int = 20, session: SessionId | None = None, seen_by: str | None = None
    ) -> Sequence[port.SearchHit]:
        return await self._readers.do(search.search, words, limit, session, seen_by, fts=self._fts)

    async def wait_indexed(self) -> None:
        await self._maintenance.caught_up()

    async def usage_stats(self, since: int, until: int, offset: int = 0, seen_by: str | None = None) -> UsageStats:
        return await self._readers.do(usage_stats.read, since, until, offset, seen_by)

    async def erase(self, session: SessionId) -> None:
        await self._writer.do(lambda db: erasing.tombstone(db, session), changes_logs=True)
        await self._remove_hidden()

    async def _set_present(self, milliseconds: int = _PRESENCE) -> None:
        """Let other nodes see that this one lives. With the folder's lock there are none, and nothing is written."""
        if self._lock is None:
            until = self._clock.now_ms() + milliseconds
            await self._writer.do(lambda db: owners.set_present(db, self.node, until))

    async def _spill_large(self, lease: port.Lease, batch: port.Batch) -> dict[int, Spilled]:
        spilled: dict[int, Spilled] = {}
        for entry in batch.entries:
            if max(len(entry.event), len(entry.raw or b"")) > self._spill_above:
                event = await self._spill_part(lease, entry.seq, entry.event)
                raw = await self._spill_part(lease, entry.seq, entry.raw)
                spilled[entry.seq] = Spilled(event, raw)
        return spilled

    async def _spill_part(self, lease: port.Lease, seq: int, data: bytes | None) -> str | None:
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
