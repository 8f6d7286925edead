"""Runs projections: each is reduced from its session's log while it is in use, and its rows have a separate hub.

Rules
    A row is stored before it is sent to a client. One `derive` is in flight; entries that are appended meanwhile go
    together into the next one.
    A projector that is level with the log receives entries as they are appended. A projector that is behind (at its
    start, or because too many entries waited) reads the log a page at a time. So it never delays the log and needs
    little memory.
    A projector may stop at any time: the next one continues from the stored rows and produces the same rows.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from fairlead.model.errors import Conflict, FairleadError, NotFound, Unavailable
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry, Page, ProjectionRow, ProjectionWrite, ReducerCheckpoint, Store
from fairlead.model.views import ROW, NewRow, Projection, Reducer, ReplaceRow, Resumable, row_entry, transient_entry
from fairlead.sessions.dependencies import CoreDependencies
from fairlead.sessions.fanout.hub import Hub
from fairlead.system.tasks import TaskSet

WAITING = 1 << 20
"""Bytes of entries that may wait to be reduced (as for a subscription); beyond this they are read from the log."""
STRIDE = 100
"""Entries reduced before other tasks get a turn on the loop."""
PAGE_BYTES = 256 << 10
CHECKPOINT_EVERY = 200
BYTES_PER_ENTRY = 100
"""Checkpoint interval: at least `CHECKPOINT_EVERY` entries. Large checkpoints are written less often, so that their
bytes per entry stay below the size of the entry's row."""
UNLOAD_AFTER_S = 120.0
"""Seconds without a subscription or a query after which a projector is unloaded."""
MOST_IDLE = 64
"""Projectors without a subscription that stay loaded: a reducer's state may take a megabyte."""

log = logging.getLogger("fairlead.views")

T = TypeVar("T")


class ProjectionFailed(FairleadError, code="view_failed"):
    """A reducer raised an unexpected exception. The gateway's log has the traceback."""

    def __init__(self, view: str, session: SessionId) -> None:
        super().__init__(
            f"The view {view} cannot read session {session}: see the gateway's log.", view=view, session=session
        )


class RowSource:
    """A projection's rows as an `EntrySource`: `seq` is the ordinal."""

    def __init__(self, store: Store, view: str) -> None:
        self._store = store
        self._view = view

    async def read(self, session: SessionId, after: int, limit: int, max_bytes: int = 4 << 20) -> Page:
        page = await self._store.rows(session, self._view, after, limit, max_bytes)
        return Page(page.log_id, tuple(row_entry(row) for row in page.rows), page.head)


class Projector:
    """Runs one projection of one session, from `start` to `stop`. `source` is the session's hub; `ended` is called when
    the projector ends."""

    def __init__(
        self, services: CoreDependencies, view: Projection, source: Hub, ended: Callable[["Projector"], None]
    ) -> None:
        self.view = view
        self.session = source.session
        self.feed = Hub(source.session, RowSource(services.store, view.name), of=source)
        self._services = services
        self.mark_used()
        self._source = source
        self._ended = ended
        self.reducer: Reducer = view.fold(source.session)
        self.seq = 0
        self.head = 0
        self._stored = 0
        """The rows of all entries up to this seq are in the store, whichever projector made them."""
        self._stored_head = 0
        self._since_memory = 0
        self._memory_bytes = 0
        self._waiting: list[Entry] = []
        self._waiting_bytes = 0
        self._collected = 0
        """The last entry that was received from the hub or read from the log."""
        self._behind = True
        self._leaving = False
        self._named = {"session": self.session, "view": view.name}
        self._wake = asyncio.Event()
        self._asked: list[tuple[int, Callable[[], Any], asyncio.Future[Any]]] = []
        self._task: asyncio.Task[None] | None = None
        self.feed.on_live = self._running

    @property
    def idle(self) -> bool:
        return self.feed.empty and not self._asked

    def start(self) -> None:
        self._leave = self._source.follow(self.feed, self._on_entries)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def unload(self) -> None:
        """Finish the batch in progress and store a checkpoint, from which the next projector continues."""
        self._leaving = True
        self._wake.set()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def stop(self) -> None:
        """Cancel the task. Nothing is lost: the next projector continues from the stored rows."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def wait_until(self, seq: int, then: Callable[["Projector"], T]) -> T:
        """Wait until the log up to `seq` is reduced and its rows are stored; return the result of `then`, which runs
        between two batches."""
        self.mark_used()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._asked.append((seq, lambda: then(self), future))
        self._wake.set()
        return await future

    def mark_used(self) -> None:
        self.last_used = self._services.clock.monotonic()

    # --- the task

    def _on_entries(self, entries: Sequence[Entry]) -> None:
        if self._behind:
            return
        if entries[0].prev > self._collected:
            # Entries of another node that were not published here.
            self._read_from_log()
            self._wake.set()
            return
        self._collected = max(self._collected, entries[-1].seq)
        self._waiting.extend(entries)
        self._waiting_bytes += sum(len(entry.event) + len(entry.raw or b"") for entry in entries)
        if self._waiting_bytes > WAITING:
            self._read_from_log()
        self._wake.set()

    def _read_from_log(self) -> None:
        self._behind = True
        self._waiting = []
        self._waiting_bytes = 0

    async def _run(self) -> None:
        why: FairleadError = NotFound("session", self.session)
        try:
            await self._load()
            while not self._leaving:
                self._wake.clear()
                entries = await self._next()
                for first in range(0, len(entries), STRIDE):
                    self.feed.busy = True
                    try:
                        if not await self._project(entries[first : first + STRIDE]):
                            break
                    finally:
                        self.feed.finish_batch()
                self._answer()
                if not entries and not self._behind and not self._waiting and not self._leaving:
                    await self._wake.wait()
            if (checkpoint := self._checkpoint(1)) is not None:
                await self._store((), checkpoint)
        except NotFound:
            log.info("the session of a view is gone", extra=self._named)
        except Exception:
            log.exception("a view failed", extra=self._named)
            why = ProjectionFailed(self.view.name, self.session)
        finally:
            self._leave()
            self._ended(self)
            for _, _, future in self._asked:
                if not future.done():
                    future.set_exception(why)
            self._asked.clear()
            self.feed.fail(why)

    async def _load(self) -> None:
        """Restore the stored checkpoint. Rows between the checkpoint and the last stored row are made again, but only
        counted."""
        found = await self._patiently(lambda: self._services.store.projection_state(self.session, self.view.name))
        self.reducer = self.view.fold(self.session)
        self.seq = self.head = self._since_memory = 0
        self._stored, self._stored_head = found.seq, found.head
        if found.memory is not None:
            try:
                self.reducer.restore(found.memory.data)
                self.seq, self.head = found.memory.seq, found.memory.head
            except Exception:
                # Written by another version of the projection: everything can be made again from the log.
                log.exception("cannot read the checkpoint of a view", extra=self._named)
                self.reducer = self.view.fold(self.session)
        self._read_from_log()

    async def _next(self) -> Sequence[Entry]:
        """The entries after `seq`; empty if there are none yet."""
        if not self._behind:
            entries = [entry for entry in self._waiting if entry.seq > self.seq]
            self._waiting = []
            self._waiting_bytes = 0
            return entries
        # From here on `_on_entries` collects new entries: each is in the page, or it waits and this page was the last.
        self._behind = False
        self._collected = self.seq
        read = self._services.store.read
        page = await self._patiently(lambda: read(self.session, self.seq, STRIDE, PAGE_BYTES))
        if page.entries:
            self._read_from_log()
        else:
            # The entry at the head may be gone: it counts as reduced.
            self.seq = max(self.seq, page.head)
            self._collected = max(self._collected, self.seq)
            self._resume_numbers()
        return page.entries

    def _running(self, first_time: bool) -> Sequence[Entry]:
        if not isinstance(self.reducer, Resumable):
            return ()
        return [transient_entry(self.head, 0, item.data) for item in self.reducer.running(fresh=first_time)]

    async def _project(self, entries: Sequence[Entry]) -> bool:
        """Reduce, store and publish the entries. False: the projector reloaded, so the entries after these are void."""
        made: list[ProjectionRow | ReplaceRow] = []
        published: list[Entry] = []
        for entry in entries:
            new = entry.seq > self._stored
            if new:
                self._resume_numbers()
            for item in self.reducer.step(entry):
                if isinstance(item, NewRow):
                    self.head += 1
                if not new:
                    continue
                if isinstance(item, NewRow):
                    row = ProjectionRow(self.head, entry.seq, entry.at, item.data, item.key)
                    made.append(row)
                    published.append(row_entry(row))
                elif isinstance(item, ReplaceRow):
                    made.append(item)
                else:
                    published.append(transient_entry(self.head, entry.at, item.data))
            self.seq = entry.seq
        self._since_memory += len(entries)
        memory = self._checkpoint(max(CHECKPOINT_EVERY, self._memory_bytes // BYTES_PER_ENTRY))
        if not made and memory is None:
            # Nothing to wait for, but other tasks get a turn all the same.
            await asyncio.sleep(0)
        elif not await self._store(made, memory):
            return False
        self._publish(published)
        return True

    def _resume_numbers(self) -> None:
        """Check at the last stored row that the repeated rows have the same count; log a changed projection if not."""
        if self.seq <= self._stored and self.head != self._stored_head:
            log.error("a view makes other rows than before: it needs a new name", extra=self._named)
            self.head = self._stored_head

    async def _store(self, made: Sequence[ProjectionRow | ReplaceRow], memory: ReducerCheckpoint | None) -> bool:
        """Store rows and checkpoint. False: another writer stored more rows, and this projector continues from them."""
        derived = ProjectionWrite(made=tuple(made), seq=self.seq, head=self.head, memory=memory)
        store, expected = self._services.store, self._stored
        try:
            await self._patiently(lambda: store.write_projection(self.session, self.view.name, derived, expected))
        except Conflict:
            log.warning("another writer stored rows of a view", extra=self._named)
            await self._load()
            self.feed.resync()
            return False
        self._stored, self._stored_head = self.seq, self.head
        if memory is not None:
            self._since_memory = 0
            self._memory_bytes = len(memory.data)
        return True

    def _publish(self, published: Sequence[Entry]) -> None:
        for kind, entries in itertools.groupby(published, lambda entry: entry.kind):
            if kind == ROW:
                self.feed.publish(tuple(entries))
            else:
                for entry in entries:
                    self.feed.publish_transient(entry)

    def _checkpoint(self, least: int) -> ReducerCheckpoint | None:
        """The reducer's checkpoint, if at least so many entries were reduced since the last one."""
        if self._since_memory < least or self.seq < self._stored:
            return None
        return ReducerCheckpoint(self.seq, self.head, self.reducer.snapshot())

    def _answer(self) -> None:
        """Resolve the callers of `wait_until` whose seq is reached. Runs between two batches."""
        waiting = []
        for seq, then, future in self._asked:
            if future.done():
                continue
            if max(seq, self._stored) > self.seq:
                waiting.append((seq, then, future))
            else:
                future.set_result(then())
        self._asked = waiting

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await call()
            except Unavailable as error:
                if self._leaving:
                    raise
                log.error("store unavailable", extra={**self._named, "error": error.message})
                await self._services.clock.sleep(self._services.limits.retry_s)


class Projections:
    """The loaded projectors: started on the first request for a projection, unloaded after some time without use."""

    def __init__(
        self, services: CoreDependencies, feed: Callable[[SessionId], Hub], drop_feed: Callable[[SessionId], None]
    ) -> None:
        self._services = services
        self._feed = feed
        self._drop_feed = drop_feed
        self._projectors: dict[tuple[SessionId, str], Projector] = {}
        self._leaving = TaskSet()

    def get(self, session: SessionId, name: str) -> Projector:
        """Return the projector, started if need be. The caller has checked that the session has a log."""
        found = self._projectors.get((session, name))
        if found is None:
            view = self._services.views.get(name)
            if view is None:
                raise NotFound("view", name)
            self._make_room()
            found = Projector(self._services, view, self._feed(session), self._ended)
            self._projectors[session, name] = found
            found.start()
        return found

    def _make_room(self) -> None:
        """Unload the least recently used idle projectors: reading a thousand sessions in a row must not fill memory."""
        idle = sorted((one for one in self._projectors.values() if one.idle), key=lambda one: one.last_used)
        for projector in idle[: max(0, len(idle) - MOST_IDLE + 1)]:
            self._forget(projector)
            self._leaving.spawn(projector.unload())

    def _ended(self, projector: Projector) -> None:
        self._forget(projector)
        self._drop_feed(projector.session)

    def _forget(self, projector: Projector) -> None:
        key = (projector.session, projector.view.name)
        if self._projectors.get(key) is projector:
            del self._projectors[key]

    async def sweep(self) -> None:
        now = self._services.clock.monotonic()
        for projector in tuple(self._projectors.values()):
            if projector.idle and now - projector.last_used >= UNLOAD_AFTER_S:
                # A request from now on gets a new projector and does not wait for the end of this one.
                self._forget(projector)
                await projector.unload()

    async def drop(self, session: SessionId) -> None:
        """Stop all projectors of a session that is being removed."""
        for projector in tuple(self._projectors.values()):
            if projector.session == session:
                await projector.stop()

    async def stop(self) -> None:
        await asyncio.gather(*(projector.stop() for projector in self._projectors.values()), self._leaving.wait())
