"""Reads transcript files into logs: the whole file when a session is opened or imported, later the rows since then.

Rule: the events and the file offset are stored in one append, so a crash repeats nothing.
"""

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field

import msgspec

from fairlead.model import events as ev
from fairlead.model.ids import SessionId
from fairlead.model.transcripts import TranscriptPage, TranscriptReader, Transcripts
from fairlead.sessions.api.transcripts import DamageView
from fairlead.sessions.commit import SessionCore
from fairlead.sessions.dependencies import CoreDependencies
from fairlead.sessions.paging import entries_after
from fairlead.sessions.session import Session
from fairlead.sessions.transcripts.mirror import PLACE
from fairlead.sessions.transcripts.turn_timeout import TurnTimeouts
from fairlead.system.tasks import TaskSet

logger = logging.getLogger("fairlead.transcripts")

FILLING = "transcript-filling"
"""Documents that name the sessions whose first import is not finished: a restart continues them."""
AT_ONCE_BYTES = 8 << 20
"""A file up to this size is imported when it is opened (about a second); a larger one is imported in the background."""
AT_A_TIME = 256


@dataclass(eq=False, repr=False)
class LogFiller:
    _services: CoreDependencies
    _source: Transcripts
    _turn_timeouts: TurnTimeouts
    _tasks: TaskSet
    _readers: dict[SessionId, TranscriptReader] = field(default_factory=dict)
    _reading: dict[SessionId, asyncio.Lock] = field(default_factory=dict)
    _damage: dict[SessionId, Counter[tuple[str, str]]] = field(default_factory=dict)
    _filling: dict[SessionId, asyncio.Event] = field(default_factory=dict)
    """Sessions whose first import is running; the event is set when it has finished."""
    _unfinished: set[SessionId] = field(default_factory=set)

    def lock(self, session: SessionId) -> asyncio.Lock:
        return self._reading.setdefault(session, asyncio.Lock())

    def forget(self, session: SessionId) -> None:
        reader = self._readers.pop(session, None)
        if reader is not None:
            reader.close()
        self._turn_timeouts.forget(session)

    def close(self) -> None:
        for session in list(self._readers):
            self.forget(session)

    # --- the first import

    async def unfinished(self) -> set[SessionId]:
        """Sessions whose import was interrupted by the end of an earlier gateway."""
        self._unfinished = {SessionId(name) for name in await self._services.store.here.list(FILLING)}
        return self._unfinished

    async def mark_unfinished(self, session: SessionId) -> None:
        await self._services.store.here.put(FILLING, session, True)

    async def start(self, session: Session, place: bytes, path: str, size: int) -> None:
        """Read a session's file from `place`: at once, or a large one in the background."""
        name = session.core.session
        reader = self._readers[name] = await self._source.reader(name, place, path=path)
        if size <= AT_ONCE_BYTES:
            await self.fill(session, reader)
        else:
            session.supervisor.following = True
            self._filling[name] = asyncio.Event()
            self._tasks.spawn(self._fill_behind(session, reader))

    async def _fill_behind(self, session: Session, reader: TranscriptReader) -> None:
        async with self.lock(session.core.session):
            await self.fill(session, reader)

    async def is_filled(self, session: SessionId, *, wait: bool = False) -> bool:
        filled = self._filling.get(session)
        if filled is not None and wait:
            await filled.wait()
        return session not in self._filling

    async def fill(self, session: Session, reader: TranscriptReader) -> None:
        """Read everything that the file has now into the log. Messages to the session wait until that is done."""
        supervisor, name = session.supervisor, session.core.session
        supervisor.following = True
        filled = self._filling.setdefault(name, asyncio.Event())
        try:
            await self._read(session, reader)
            await self._turn_timeouts.read(session)
            await self._restore_time(session.core)
            await self._services.store.here.delete(FILLING, name)
        finally:
            supervisor.following = False
            del self._filling[name]
            filled.set()
            supervisor.schedule_next()

    async def _restore_time(self, core: SessionCore) -> None:
        """Restore the session's time of last change: opening a session does not change it."""
        if core.found_at is not None:
            async with core.transaction() as transition:
                transition.state = msgspec.structs.replace(core.state, updated=core.found_at)
                transition.force_checkpoint = True
                core.found_at = None

    # --- reading

    async def catch_up(self, session: Session) -> None:
        """Read the rows since the last time."""
        await self._read(session, await self.reader(session))
        if session.core.session in self._unfinished:
            self._unfinished.discard(session.core.session)
            await self._services.store.here.delete(FILLING, session.core.session)

    async def reader(self, session: Session, path: str = "") -> TranscriptReader:
        state, store = session.core.state, self._services.store
        reader = self._readers.get(state.session)
        if reader is None or path:
            kept = await store.checkpoint(state.session, PLACE)
            after = state.last_prompt or ""
            if kept is not None:
                # The rows of our last agent are skipped, unless the file was read since its end.
                ours = (await store.tail(state.session, None, 1, ("agent.started", "agent.exited"))).entries
                after = after if ours and ours[-1].seq > kept.seq else ""
            place = b"" if kept is None else kept.data
            conversation = SessionId(state.agent_session or state.session)
            reader = await self._source.reader(conversation, place, after=after, path=path)
            self._readers[state.session] = reader
        return reader

    def drop_reader(self, session: SessionId) -> None:
        """Drop the reader of an imported session: thousands are imported, few are read again."""
        self._readers.pop(session, None)

    async def _read(self, session: Session, reader: TranscriptReader) -> None:
        known: frozenset[str] = frozenset()
        while (rows := await reader.read()) is not None:
            if rows.again and not known:
                known = await self._ids(session.core.session)
            await self.log(session, rows, known if rows.again else frozenset())
            if session.supervisor.agent is not None:
                return  # an agent was started here meanwhile and writes all further rows

    async def log(self, session: Session, rows: TranscriptPage, known: frozenset[str] = frozenset()) -> None:
        core = session.core
        async with core.transaction() as transition:
            for number, record in enumerate(rows.records, 1):
                transition.record(record, known=known)
                if number % AT_A_TIME == 0:
                    await asyncio.sleep(0)  # one damaged line can hold thousands of records
            transition.save_offset(PLACE, rows.place)
        for item in rows.problems:
            named = {"session": core.session, "path": item.path, "problem": item.kind}
            logger.warning("damaged transcript", extra=named)
            self._damage.setdefault(core.session, Counter())[item.kind, item.path] += item.count
        if rows.total > AT_ONCE_BYTES:
            core.log.feed.signal("import", "", {"read": rows.read, "total": rows.total})

    def take_damage(self, session: SessionId) -> tuple[DamageView, ...]:
        """The damage that was found since the last call."""
        counts = self._damage.pop(session, Counter())
        return tuple(DamageView(kind=kind, path=path, count=count) for (kind, path), count in counts.items())

    async def _ids(self, session: SessionId) -> frozenset[str]:
        """The ids of all events of a log, and the names of its rows. Needed only when a file was replaced and is read
        again."""
        found: set[str] = set()
        async for entry in entries_after(self._services.store, session):
            name = ev.decode(entry.event).id
            found.update((name, name.split("/", 1)[0]))
        return frozenset(found)
