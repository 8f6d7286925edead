"""Indexes the transcripts that were never opened here, so that search finds their messages too.

One file at a time, the newest first, in small steps with a pause after each: on an idle machine the work takes a fifth
of one core, on a busy one less. A file is read from the position where the last reading ended, also after a restart.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from fairlead.model import events as ev
from fairlead.model.agents import Interpreter, Record
from fairlead.model.errors import FairleadError, NotFound, Unavailable
from fairlead.model.ids import SessionId
from fairlead.model.store import TRANSCRIPT, SessionFilter
from fairlead.model.transcripts import FileMark, IndexedEvent, TranscriptReader, Transcripts, TranscriptTexts
from fairlead.sessions.dependencies import CoreDependencies
from fairlead.sessions.paging import all_sessions
from fairlead.system.tasks import TaskSet

logger = logging.getLogger("fairlead.transcripts")

REST = 4.0
"""The pause after a step, as a multiple of the time that the step took."""


@dataclass(eq=False, repr=False)
class TranscriptTextIndex:
    """`most`: bytes that the index may take on the disk; 0: nothing is indexed."""

    _services: CoreDependencies
    _source: Transcripts
    _texts: TranscriptTexts
    _most: int
    _tasks: TaskSet
    _waiting: dict[SessionId, FileMark | None] = field(default_factory=dict)
    """Sessions to look at, in this order, with the mark of their file."""
    _failed: set[SessionId] = field(default_factory=set)
    """Sessions whose file could not be read; tried again when it changes."""
    _current: SessionId | None = None
    _compared: bool = False
    """The index was compared with the listed files."""
    _working: bool = False
    _full: bool = False

    async def start(self, marks: Mapping[str, FileMark]) -> None:
        """Compare the index with the listed files; unchanged files are not opened."""
        listed = SessionFilter(state=TRANSCRIPT, archived=None, limit=1000)
        sessions = [summary.session for summary in await all_sessions(self._services.store, listed)]
        indexed = await self._texts.marks()
        for session in sessions:
            mark = marks.get(session)
            if mark is not None and indexed.get(session) != mark:
                self._waiting[session] = mark
        for session in indexed.keys() - set(sessions):
            self._waiting[session] = None
        self._compared = True
        self._wake()

    def soon(self, session: SessionId, mark: FileMark | None = None) -> None:
        """Look at a session whose file has changed, or that was opened, deleted or whose file is gone (no `mark`)."""
        self._waiting[session] = mark
        self._failed.discard(session)
        self._wake()

    def unindexed(self) -> Collection[SessionId] | None:
        """Sessions of which some text may not be in the index yet; None: that is not known yet of any."""
        if not self._compared:
            return None
        current = () if self._current is None else (self._current,)
        return {*self._waiting, *self._failed, *current}

    def _wake(self) -> None:
        if self._compared and self._waiting and not self._working:
            self._working = True
            self._tasks.spawn(self._work())

    async def _work(self) -> None:
        try:
            while (session := await self._next()) is not None:
                self._current = session
                mark = self._waiting.pop(self._current)
                if not await self._tried(self._current, mark):
                    # Unless it has changed again meanwhile.
                    self._waiting = {self._current: mark} | self._waiting
                    return
        finally:
            self._current = None
            self._working = False

    async def _next(self) -> SessionId | None:
        """The next session to look at. While the index is full, only those that leave it."""
        full = bool(self._waiting) and await self._is_full()
        return next((session for session, mark in self._waiting.items() if mark is None or not full), None)

    async def _tried(self, session: SessionId, mark: FileMark | None) -> bool:
        """Index one session. False: the index cannot take more now; it is tried again with the next change."""
        try:
            return await self._index(session, mark)
        except Unavailable as error:
            logger.warning("transcripts are not indexed", extra={"error": str(error)})
            return False
        except (FairleadError, OSError) as error:
            logger.warning("cannot index a transcript", extra={"session": session, "error": str(error)})
            self._failed.add(session)
            return True

    async def _index(self, session: SessionId, mark: FileMark | None) -> bool:
        """Index what a session's files have beyond the stored position. False: the index is full."""
        summary = await self._services.store.summary(session)
        if mark is None or summary is None or summary.deleted or summary.state != TRANSCRIPT:
            await self._texts.remove(session)
            return True
        try:
            return await self._read(session, mark)
        except NotFound:
            await self._texts.remove(session)
            return True

    async def _read(self, session: SessionId, mark: FileMark) -> bool:
        clock = self._services.clock
        reader = await self._source.reader(session, await self._texts.place(session), keep_large=False)
        interpreter = self._services.kind(self._source.agent).interpreter(session)
        while True:
            if await self._is_full():
                return False
            began = clock.monotonic()
            page = await reader.read()
            if page is None:
                break
            if page.again:
                # The file was replaced: nothing of the earlier one is true any more.
                await self._texts.remove(session)
                reader = await self._source.reader(session, keep_large=False)
                interpreter = self._services.kind(self._source.agent).interpreter(session)
            else:
                events = await asyncio.to_thread(_events, interpreter, page.records, self._texts.kinds)
                await self._texts.add(session, events, page.place)
            await self._rest(clock.monotonic() - began)
        await self._texts.add(session, (), _place(reader), mark)
        return True

    async def _is_full(self) -> bool:
        full = await self._texts.size() >= self._most
        if full and not self._full:
            logger.warning(
                "the search index of transcripts is full: older ones are not searched (setting transcript_index_bytes)",
                extra={"bytes": self._most},
            )
        self._full = full
        return full

    async def _rest(self, worked: float) -> None:
        if worked > 0:
            await self._services.clock.sleep(worked * REST)


def _place(reader: TranscriptReader) -> bytes:
    place = reader.place()
    reader.close()
    return place


def _events(interpreter: Interpreter, records: Sequence[Record], kinds: Collection[str]) -> list[IndexedEvent]:
    """The events with searchable text. Runs in a thread: a page may have some thousand rows."""
    found: list[IndexedEvent] = []
    for record in records:
        for event in interpreter.step(record).events:
            kind = ev.kind_of(event)
            if kind in kinds:
                dated = msgspec.structs.replace(event, at=record.at)
                found.append(IndexedEvent(record.at, kind, ev.encode(dated)))
    return found
