"""Lists the sessions that exist only in their agent's own files, and keeps the list up to date without copying them."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from fairlead.model.auth import OWNER
from fairlead.model.ids import SessionId
from fairlead.model.store import TRANSCRIPT, Summary
from fairlead.model.transcripts import FileMark, FoundTranscript, TranscriptGone, TranscriptProblem, Transcripts
from fairlead.sessions.dependencies import CoreDependencies
from fairlead.sessions.transcripts.forks import ForkDetector
from fairlead.system.tasks import TaskSet

logger = logging.getLogger("fairlead.transcripts")

MARKS = "transcripts"
"""The document with the size and time of each known file, by which unchanged files are recognized. It is written at the
gateway's start and end only, so that it costs nothing in between; a file that it misses is read once more."""
LISTED_AGAIN_S = 2.0
"""The least time between two reads of a session that is not open, however quickly its file grows."""


@dataclass(eq=False, repr=False)
class TranscriptIndex:
    """`_forget` is called with each session whose file is gone, `_changed` with each file that has changed."""

    _services: CoreDependencies
    _source: Transcripts
    _forks: ForkDetector
    _tasks: TaskSet
    _forget: Callable[[SessionId], None]
    _changed: Callable[[FoundTranscript], None]
    _waiting: set[SessionId] = field(default_factory=set)
    _listing: bool = False
    _marks: dict[str, FileMark] = field(default_factory=dict)

    async def scan(self) -> frozenset[SessionId]:
        """Update the list from the files; unchanged files are not opened.

        Return the sessions that have a log already and whose file has changed since the last scan."""
        kept = await self._services.store.here.get(MARKS, MARKS)
        self._marks = msgspec.convert(kept or {}, dict[str, FileMark])
        known = dict(self._marks) if await self._forks.load() else {}
        grown: set[SessionId] = set()
        async for portion in self._source.scan(known):
            for item in portion:
                if isinstance(item, TranscriptProblem):
                    logger.warning("transcript", extra={"path": item.path, "problem": item.kind, "detail": item.detail})
            found = [item for item in portion if isinstance(item, FoundTranscript)]
            grown.update(item.session for item in found if item.session in self._marks)
            await self.add(found)
            for item in portion:
                if isinstance(item, TranscriptGone):
                    await self.remove(item.session)
        await self.keep_marks()
        return frozenset([session for session in grown if await self._has_log(session)])

    async def _has_log(self, session: SessionId) -> bool:
        known = await self._services.store.session_of(session)
        summary = None if known is None else await self._services.store.summary(known)
        return summary is not None and summary.state != TRANSCRIPT

    @property
    def marks(self) -> Mapping[str, FileMark]:
        return self._marks

    def size_of(self, session: SessionId) -> int:
        """The size of a session's file when it was last read; 0 if unknown."""
        mark = self._marks.get(session)
        return 0 if mark is None else mark.size

    async def keep_marks(self) -> None:
        await self._services.store.here.put(MARKS, MARKS, msgspec.to_builtins(self._marks))
        await self._forks.keep()

    async def add(self, found: Sequence[FoundTranscript]) -> None:
        useful = [_summary(item, self._source.agent) for item in found if is_listed(item)]
        hidden = [item.session for item in found if not is_listed(item)]
        await self._services.store.list_found(useful, hidden)
        self._marks.update((item.session, item.mark) for item in found)
        self._forks.note(found)

    async def remove(self, session: SessionId) -> None:
        """Remove a session whose file is gone from the list; one that has a log stays."""
        await self._services.store.list_found((), (session,))
        self._marks.pop(session, None)
        await self._forks.gone(session)
        self._forget(session)

    def soon(self, session: SessionId) -> None:
        self._waiting.add(session)
        if not self._listing:
            self._listing = True
            self._tasks.spawn(self._later())

    async def now(self, session: SessionId) -> None:
        found = await self._source.look(session)
        if found is None:
            await self.remove(session)
        else:
            await self.add([found])
            if is_listed(found):
                self._changed(found)
                self._services.on_change(session, "updated")

    async def _later(self) -> None:
        """List the first change at once, and changes that follow closely together."""
        try:
            while self._waiting:
                sessions, self._waiting = self._waiting, set()
                for session in sessions:
                    await self.now(session)
                await self._services.clock.sleep(LISTED_AGAIN_S)
        finally:
            self._listing = False


def is_listed(found: FoundTranscript) -> bool:
    """Whether a session is listed: it has messages, and is not a subagent's part of another session."""
    return found.useful and not found.sidechain


def _summary(found: FoundTranscript, agent: str) -> Summary:
    known = msgspec.convert(found, Summary, from_attributes=True)
    # The parent that the file names is looked up when the session is opened.
    own = {"agent": agent, "agent_session": found.session, "state": TRANSCRIPT, "owner": OWNER, "parent": None}
    return msgspec.structs.replace(known, turns=found.prompts, **own)
