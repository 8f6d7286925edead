"""Imports sessions that other programs wrote to transcript files: lists them, reads one into a log when it is opened,
and follows it while its file grows.

Rule: nothing is copied until a user opens a session, imports it or agrees to the archive. A session whose agent runs
here gets its events from the agent's wire, not from its file. The events and the file offset are stored in one append,
so a crash repeats nothing.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

import msgspec

from fairlead.model import events as ev
from fairlead.model.auth import Identity
from fairlead.model.commands import Settings
from fairlead.model.errors import BadRequest, Busy, FairleadError, NotFound
from fairlead.model.ids import SessionId, event_id
from fairlead.model.store import TRANSCRIPT, ForkPoint, SessionFilter, Summary
from fairlead.model.transcripts import FoundTranscript, TranscriptPage, TranscriptProblem, TranscriptReader, Transcripts
from fairlead.model.web.requests import ServiceCall
from fairlead.sessions import loading
from fairlead.sessions.api.transcripts import DamageView, Imported
from fairlead.sessions.commit import SessionCore
from fairlead.sessions.dependencies import CoreDependencies
from fairlead.sessions.fanout.hub import Hub
from fairlead.sessions.session import Session
from fairlead.sessions.transcripts.actions import TranscriptActions
from fairlead.sessions.transcripts.archive import TranscriptArchive
from fairlead.sessions.transcripts.forks import ForkBranch, ForkDetector
from fairlead.sessions.transcripts.listing import TranscriptIndex, is_listed
from fairlead.sessions.transcripts.mirror import PLACE, TranscriptMirror
from fairlead.sessions.transcripts.turn_timeout import TurnTimeouts

logger = logging.getLogger("fairlead.transcripts")

FILLING = "transcript-filling"
"""Documents that name the sessions whose first import is not finished: a restart continues them."""
AT_ONCE_BYTES = 8 << 20
"""A file up to this size is imported when it is opened (about a second); a larger one is imported in the background."""
AT_A_TIME = 256
AT_THE_SAME_TIME = 8
"""Sessions that are updated concurrently: after a long downtime all of them may have grown."""
ARCHIVE_BYTES = 5 << 30
"""Default of the setting `archive_bytes`: room for years of sessions, and no more than a disk can spare."""


class SessionLoader(Protocol):
    """The part of the session registry that the importer uses."""

    async def get(self, session: SessionId) -> Session: ...
    def loaded(self, session: SessionId) -> Session | None: ...
    def feed(self, session: SessionId) -> Hub: ...
    async def remove(self, session: SessionId) -> None: ...


class TranscriptImporter:
    """Keeps the session list and the logs up to date with the agents' transcript files."""

    def __init__(
        self,
        services: CoreDependencies,
        source: Transcripts,
        sessions: SessionLoader,
        *,
        archive: bool = False,
        archive_bytes: int = ARCHIVE_BYTES,
    ) -> None:
        self._services = services
        self._source = source
        self._sessions = sessions
        self._readers: dict[SessionId, TranscriptReader] = {}
        self._reading: dict[SessionId, asyncio.Lock] = {}
        self._elsewhere: dict[SessionId, str] = {}
        self._damage: dict[SessionId, dict[tuple[str, str], int]] = {}
        self._filling: dict[SessionId, asyncio.Event] = {}
        """Sessions whose first import is running; the event is set when it has finished."""
        self._unfinished: set[SessionId] = set()
        self._attending: dict[SessionId, bool] = {}
        """Sessions whose change is being handled, and whether they have changed again since."""
        self._slots = asyncio.Semaphore(AT_THE_SAME_TIME)
        self._stopped = False
        self._driven: set[SessionId] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.forks = ForkDetector(services, source)
        self._opening = asyncio.Lock()
        """Serializes opening sessions of one fork family: of two files that begin alike, the second finds the first."""
        self.listing = TranscriptIndex(services, source, self.forks, self._spawn, self._forget)
        self.turn_timeouts = TurnTimeouts(services, sessions.loaded, self._spawn)
        self.mirror = TranscriptMirror(services, source)
        self.archive = TranscriptArchive(services, self, self._spawn, on=archive, limit=archive_bytes)
        self.actions = TranscriptActions(services.policy, source.folders, self, self.archive)
        self.watching = asyncio.Event()
        """Set when the files are listed and watched."""

    # --- the gateway's start and end --------------------------------------------------------------------

    def start(self) -> None:
        self._spawn(self._watch())
        self._spawn(self.archive.forever(self.watching.wait()))

    async def stop(self) -> None:
        self._stopped = True
        self.turn_timeouts.stop()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for session in list(self._readers):
            self._forget(session)
        self.mirror.close()
        if self.watching.is_set():
            with contextlib.suppress(FairleadError):
                await self.listing.keep_marks()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("transcripts: background work failed", exc_info=task.exception())

    # --- lists ------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        async for changed in self._source.changes():
            if not self.watching.is_set():
                # The watch is active: later changes are reported, and this scan finds the earlier ones.
                grown = await self.listing.scan()
                self.watching.set()
                changed = changed | grown | await self._working()
            for session in changed:
                self._attend(session)

    def _attend(self, session: SessionId) -> None:
        """Handle a change in a task per session, so that a large file delays no other session.

        A change during that work is handled after it."""
        waiting = session in self._attending
        self._attending[session] = waiting
        if not waiting:
            self._spawn(self._attended(session))

    async def _attended(self, session: SessionId) -> None:
        try:
            async with self._slots:
                again = True
                while again:
                    self._attending[session] = False
                    await self._quietly(session, self.changed)
                    again = self._attending[session]
        finally:
            del self._attending[session]

    async def _quietly(self, session: SessionId, act_on: Callable[[SessionId], Awaitable[None]]) -> None:
        try:
            await act_on(session)
        except (FairleadError, OSError) as error:
            logger.warning("cannot follow a transcript", extra={"session": session, "error": str(error)})

    async def _working(self) -> frozenset[SessionId]:
        """Sessions that other programs were working on when the gateway last stopped, and those whose import was
        interrupted: nothing else would resume them."""
        store = self._services.store
        page = await store.sessions(SessionFilter(state="working", archived=None, limit=1000))
        working = {summary.session for summary in page.sessions if summary.agent == self._source.agent}
        self._unfinished = {SessionId(name) for name in await store.documents.list(FILLING)}
        return frozenset(working | self._unfinished)

    async def changed(self, session: SessionId) -> None:
        """Handle a change of a session's file, or a caller's announcement that the file exists."""
        loaded = self._sessions.loaded(session)
        if loaded is not None:
            await self.follow(session)
            return
        known = await self._services.store.session_of(session)
        if known is None or known == session:
            summary = await self._services.store.summary(session)
            if summary is not None and summary.deleted:
                return
            if summary is None:
                await self.listing.now(session)
                return
            if summary.state == TRANSCRIPT:
                self.listing.soon(session)
                return
        else:
            # The agent knows one of our sessions by this id: the file is not a separate session.
            await self._services.store.list_found((), (session,))
        await self.follow(known or session)

    # --- a session becomes a log --------------------------------------------------------------------------

    async def open(self, session: SessionId) -> Session | None:
        """Create a session's log from its file on first opening; None for a session with a log, or an unknown one.

        Raises NotFound when the file is gone. The caller makes sure that only one call per session runs at a time."""
        services = self._services
        summary = await services.store.summary(session)
        if summary is None or summary.deleted or summary.state != TRANSCRIPT:
            if summary is not None and summary.agent == self._source.agent and self.watching.is_set():
                # Its file may have grown, or its import was interrupted, while the session was not loaded.
                self._spawn(self._quietly(session, self.follow))
            return None
        path = self._elsewhere.get(session, "")
        found = await self._source.look(session) if not path else await self._source.examine(path)
        if not isinstance(found, FoundTranscript):
            await self.listing.remove(session)
            raise NotFound("transcript of session", session)
        kind = services.kind(self._source.agent)
        opened = ev.SessionOpened(
            id=event_id(session, "session.opened"),
            cwd=found.cwd,
            agent=kind.name,
            title="" if found.first_prompt.startswith(found.title) else found.title,
            branch=found.branch,
            owner=summary.owner,
            shared=summary.shared,
        )
        if not self.forks.family(found):
            return await self._begin(found, opened, None, path)
        async with self._opening:
            for other in self.forks.family(found):
                if self._sessions.loaded(other) is not None:
                    await self.follow(other)
            branch = await self.forks.find(found, path)
            return await self._begin(found, opened, branch, path)

    async def _begin(
        self, found: FoundTranscript, opened: ev.SessionOpened, branch: ForkBranch | None, path: str
    ) -> Session:
        services, session, feed = self._services, found.session, self._sessions.feed(found.session)
        await services.store.documents.put(FILLING, session, True)
        if branch is None:
            parent = await self.forks.parent_of(found)
            core = await loading.create(
                services,
                feed,
                session,
                opened,
                Settings(),
                session,
                at=found.created,
                parent=parent,
                found=found.updated,
            )
        else:
            point = ForkPoint(branch.holder, branch.shared.seq)
            core = await loading.branch(
                services, feed, session, opened, point, branch.parent or "", found=found.updated
            )
        begun = Session(core, services.kind(opened.agent))
        if branch is not None:
            await self._log(begun, TranscriptPage(records=branch.shared.between, place=branch.shared.place))
        place = b"" if branch is None else branch.shared.place
        reader = self._readers[session] = await self._source.reader(session, place, path=path)
        if found.mark.size <= AT_ONCE_BYTES:
            await self._fill(begun, reader)
        else:
            begun.supervisor.following = True
            self._filling[session] = asyncio.Event()
            self._spawn(self._fill_behind(begun, reader))
        return begun

    async def wait_loaded(self, session: SessionId) -> None:
        """Wait until everything that the file had when it was opened is in the log."""
        filled = self._filling.get(session)
        if filled is not None:
            await filled.wait()

    def is_filling(self, session: SessionId) -> bool:
        return session in self._filling

    async def _fill_behind(self, session: Session, reader: TranscriptReader) -> None:
        async with self._lock(session.core.session):
            await self._fill(session, reader)

    async def _fill(self, session: Session, reader: TranscriptReader) -> None:
        """Read everything that the file has now into the log. Messages to the session wait until that is done."""
        runner, name = session.supervisor, session.core.session
        runner.following = True
        filled = self._filling.setdefault(name, asyncio.Event())
        try:
            await self._read(session, reader)
            await self.turn_timeouts.read(session)
            await self._as_found(session.core)
            await self._services.store.documents.delete(FILLING, name)
        finally:
            runner.following = False
            del self._filling[name]
            filled.set()
            runner.schedule_next()

    async def _as_found(self, core: SessionCore) -> None:
        """Restore the session's time of last change: opening a session does not change it."""
        if core.found_at is None:
            return
        async with core.lock:
            transition = core.begin()
            transition.state = msgspec.structs.replace(core.state, updated=core.found_at)
            transition.force_checkpoint = True
            core.found_at = None
            await core.commit(transition, patient=True)

    async def _read(self, session: Session, reader: TranscriptReader) -> None:
        known: frozenset[str] = frozenset()
        while (rows := await reader.read()) is not None:
            if rows.again and not known:
                known = await self._ids(session.core.session)
            await self._log(session, rows, known if rows.again else frozenset())
            if session.supervisor.agent is not None:
                return  # an agent was started here meanwhile and writes all further rows

    async def _log(self, session: Session, rows: TranscriptPage, known: frozenset[str] = frozenset()) -> None:
        core = session.core
        async with core.lock:
            transition = core.begin()
            for number, record in enumerate(rows.records, 1):
                transition.record(record, known=known)
                if number % AT_A_TIME == 0:
                    await asyncio.sleep(0)  # one damaged line can hold thousands of records
            transition.save_offset(PLACE, rows.place)
            await core.commit(transition, patient=True)
        if rows.problems:
            self._note(core.session, rows.problems)
        if rows.total > AT_ONCE_BYTES:
            core.log.feed.signal("import", "", {"read": rows.read, "total": rows.total})

    def _note(self, session: SessionId, problems: Sequence[TranscriptProblem]) -> None:
        counts = self._damage.setdefault(session, {})
        for item in problems:
            logger.warning("damaged transcript", extra={"session": session, "path": item.path, "problem": item.kind})
            counts[item.kind, item.path] = counts.get((item.kind, item.path), 0) + item.count

    async def _ids(self, session: SessionId) -> frozenset[str]:
        """The ids of all events of a log, and the names of its rows. Needed only when a file was replaced and is read
        again."""
        found: set[str] = set()
        after = 0
        while True:
            page = await self._services.store.read(session, after, 1000)
            if not page.entries:
                return frozenset(found)
            for entry in page.entries:
                name = ev.decode(entry.event).id
                found.update((name, name.split("/", 1)[0]))
            after = page.entries[-1].seq

    # --- following ----------------------------------------------------------------------------------------

    async def follow(self, session_id: SessionId) -> None:
        """Update a session's log from its files, unless an agent of ours writes them."""
        async with self._lock(session_id):
            session = await self._sessions.get(session_id)
            runner = session.supervisor
            if session.kind.name != self._source.agent or session_id in self._filling:
                return
            if runner.agent is not None or runner.following:
                self._driven.add(session_id)
                self._forget(session_id)
            if session_id in self._driven:
                if runner.agent is not None:
                    await self._copy(session)
                return
            try:
                await self._catch_up(session)
            except NotFound:
                # The file has moved or was deleted.
                self._forget(session_id)
                if await self._source.look(SessionId(session.core.state.agent_session or session_id)) is None:
                    return
                await self._catch_up(session)
            self.turn_timeouts.soon(session_id)

    def turn_ended(self, session: SessionId) -> None:
        """Mirror the transcript after a turn: the agent has written its rows, or is about to."""
        if not self._stopped:
            self._spawn(self._rested(session))

    async def _rested(self, session_id: SessionId) -> None:
        async with self._lock(session_id):
            session = self._sessions.loaded(session_id)
            if session is not None and session.supervisor.agent is not None and session.kind.name == self._source.agent:
                await self._copy(session)

    async def _copy(self, session: Session, *, ended: bool = False) -> None:
        """Mirror the transcript between turns; in a turn the mirror would only wait. Rows of the last turn that are
        not written yet come with the next change of the file. An agent in a terminal delivers its rows itself."""
        core = session.core
        in_terminal = session.supervisor.launched.link == "terminal"
        if core.interpreter.turn is None and (ended or not in_terminal):
            try:
                await (self.mirror.finish(core) if ended else self.mirror.catch_up(core))
            except (NotFound, OSError):
                # The agent has not written a file yet, or the file is gone.
                self.mirror.forget(core.session)

    def agent_ended(self, session: SessionId) -> None:
        """Mark everything in the file as our own agent's; later rows belong to another program."""
        self._driven.add(session)
        if not self._stopped:
            self._spawn(self._pass_over(session))

    async def _pass_over(self, session_id: SessionId) -> None:
        session = self._sessions.loaded(session_id)
        async with self._lock(session_id):
            self._forget(session_id)
            try:
                if session is not None and session.kind.name == self._source.agent:
                    await self._copy(session, ended=True)
            finally:
                self.mirror.forget(session_id)
                self._driven.discard(session_id)

    async def _catch_up(self, session: Session) -> None:
        await self._read(session, await self._reader(session))
        if session.core.session in self._unfinished:
            self._unfinished.discard(session.core.session)
            await self._services.store.documents.delete(FILLING, session.core.session)

    def _lock(self, session: SessionId) -> asyncio.Lock:
        return self._reading.setdefault(session, asyncio.Lock())

    async def _reader(self, session: Session, path: str = "") -> TranscriptReader:
        state = session.core.state
        reader = self._readers.get(state.session)
        if reader is None or path:
            kept = await self._services.store.checkpoint(state.session, PLACE)
            after = state.last_prompt or ""
            if kept is not None and await self._ends(state.session) <= kept.seq:
                after = ""
            reader = await self._source.reader(
                SessionId(state.agent_session or state.session),
                kept.data if kept is not None else b"",
                after=after,
                path=path,
            )
            self._readers[state.session] = reader
        return reader

    async def _ends(self, session: SessionId) -> int:
        """The seq where our last agent ended. Its rows are skipped if the file was not read since."""
        page = await self._services.store.tail(session, None, 1, ("agent.started", "agent.exited"))
        return page.entries[-1].seq if page.entries else 0

    def _forget(self, session: SessionId) -> None:
        reader = self._readers.pop(session, None)
        if reader is not None:
            reader.close()
        self.turn_timeouts.forget(session)

    def performers(self) -> dict[type[ServiceCall], Callable[[Identity, Any], Awaitable[Any]]]:
        return self.actions.performers()

    # --- import -------------------------------------------------------------------------------------------------

    async def import_session(self, session: SessionId | None, path: str = "") -> Imported:
        """Import one session into its log to the last byte, including damaged lines. Repeating it adds new rows.

        Raises NotFound, BadRequest for a file that cannot be imported, Busy while an agent runs here."""
        found = await (self._source.examine(path) if path else self._source.look(session or SessionId("")))
        if found is None:
            raise NotFound("transcript of session", session or path)
        if isinstance(found, TranscriptProblem):
            raise BadRequest(f"{found.path} cannot be imported: {found.kind} ({found.detail}).", path=found.path)
        summary = await self._services.store.summary(found.session)
        if summary is not None and summary.deleted:
            raise NotFound("session", found.session)
        if not is_listed(found):
            nothing = DamageView(kind="nothing said", path=found.mark.path)
            return Imported(session=found.session, bytes=found.mark.size, problems=(nothing,))
        if path:
            self._elsewhere[found.session] = path
        if summary is None:
            await self.listing.add([found])
        self._damage.pop(found.session, None)
        known = summary is not None and summary.state != TRANSCRIPT
        opened = await self._sessions.get(found.session)
        before = opened.core.log.head if known else 0
        async with self._lock(found.session):
            if opened.supervisor.agent is not None:
                raise Busy("This session runs here: its log is complete without its file.", session=found.session)
            reader = await self._reader(opened, path)
            await self._fill(opened, reader)
            last = await reader.finish()
            if last is not None:
                await self._log(opened, last)
        await self.turn_timeouts.settle(found.session)
        self._readers.pop(found.session, None)  # thousands are imported, few are read again
        counts = self._damage.pop(found.session, {})
        problems = [DamageView(kind=kind, path=where, count=count) for (kind, where), count in counts.items()]
        return Imported(
            session=found.session,
            title=opened.core.state.summary().title,
            events=opened.core.log.head - before,
            bytes=found.mark.size,
            problems=tuple(problems),
        )

    async def summary(self, session: SessionId) -> Summary | None:
        store = self._services.store
        return await store.summary(await store.session_of(session) or session)

    # --- for the archive --------------------------------------------------------------------------------------

    async def unload(self, session: SessionId) -> None:
        self._forget(session)
        await self._sessions.remove(session)
        await self._source.discard(session)

    def size_of(self, session: SessionId) -> int:
        return self.listing.size_of(session)

    async def file_exists(self, session: SessionId) -> bool:
        return await self._source.look(session) is not None
