"""Imports sessions that other programs wrote to transcript files: lists them, reads one into a log when it is opened,
and follows it while its file grows.

Rule: nothing is copied until a user opens a session, imports it or agrees to the archive; only the search index has its
texts before (`text_index`), as long as the file exists. A session whose agent runs
here gets its events from the agent's wire, not from its file. Paths from the wire resolve inside the agent's homes (for
an import also inside the roots) or are rejected.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection

from fairlead.model import events as ev
from fairlead.model.auth import Identity
from fairlead.model.errors import BadRequest, Busy, FairleadError, NotFound
from fairlead.model.ids import SessionId, event_id, session_id
from fairlead.model.store import TRANSCRIPT, ForkPoint, SessionFilter
from fairlead.model.transcripts import FoundTranscript, TranscriptPage, TranscriptProblem, Transcripts
from fairlead.model.web.requests import ServiceHandlers
from fairlead.sessions import loading
from fairlead.sessions.api.transcripts import Announced, AnnounceSession, DamageView, Imported, ImportTranscript
from fairlead.sessions.dependencies import CoreDependencies
from fairlead.sessions.registry import Registry
from fairlead.sessions.session import Session
from fairlead.sessions.transcripts.filling import LogFiller
from fairlead.sessions.transcripts.forks import ForkBranch, ForkDetector
from fairlead.sessions.transcripts.listing import TranscriptIndex, is_listed
from fairlead.sessions.transcripts.mirror import TranscriptMirror
from fairlead.sessions.transcripts.text_index import TranscriptTextIndex
from fairlead.sessions.transcripts.turn_timeout import TurnTimeouts
from fairlead.system.tasks import TaskSet

logger = logging.getLogger("fairlead.transcripts")

AT_THE_SAME_TIME = 8
"""Sessions that are updated concurrently: after a long downtime all of them may have grown."""


class TranscriptImporter:
    """Keeps the session list and the logs up to date with the agents' transcript files."""

    def __init__(self, services: CoreDependencies, source: Transcripts, registry: Registry) -> None:
        self._services = services
        self.source = source
        self._registry = registry
        self._elsewhere: dict[SessionId, str] = {}
        self._attending: dict[SessionId, bool] = {}
        """Sessions whose change is being handled, and whether they have changed again since."""
        self._slots = asyncio.Semaphore(AT_THE_SAME_TIME)
        self._stopped = False
        self._driven: set[SessionId] = set()
        self.tasks = TaskSet()
        self.forks = ForkDetector(services, source)
        self._opening = asyncio.Lock()
        """Serializes opening sessions of one fork family: of two files that begin alike, the second finds the first."""
        self.turn_timeouts = TurnTimeouts(services, registry.loaded, self.tasks)
        self.filler = LogFiller(services, source, self.turn_timeouts, self.tasks)
        self.listing = TranscriptIndex(services, source, self.forks, self.tasks, self._file_gone, self._file_changed)
        texts, most = services.transcript_texts, services.limits.transcript_index_bytes
        self.text_index = None if texts is None else TranscriptTextIndex(services, source, texts, most, self.tasks)
        self.mirror = TranscriptMirror(services, source)
        self.watching = asyncio.Event()
        """Set when the files are listed and watched."""

    # --- the gateway's start and end --------------------------------------------------------------------

    def start(self) -> None:
        self.tasks.spawn(self._watch())

    async def stop(self) -> None:
        self._stopped = True
        self.turn_timeouts.stop()
        await self.tasks.close()
        self.filler.close()
        self.mirror.close()
        if self.watching.is_set():
            with contextlib.suppress(FairleadError):
                await self.listing.keep_marks()

    # --- lists ------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        async for changed in self.source.changes():
            if not self.watching.is_set():
                # The watch is active: later changes are reported, and this scan finds the earlier ones.
                grown = await self.listing.scan()
                self.watching.set()
                if self.text_index is not None:
                    self.tasks.spawn(self.text_index.start(self.listing.marks))
                changed = changed | grown | await self._working()
            for session in changed:
                self._attend(session)

    def _file_changed(self, found: FoundTranscript) -> None:
        if self.text_index is not None:
            self.text_index.soon(found.session, found.mark)

    def _file_gone(self, session: SessionId) -> None:
        self.filler.forget(session)
        self.forget_texts(session)

    def forget_texts(self, session: SessionId) -> None:
        """Remove a session from the search index of files: it has a log now, or it is deleted."""
        if self.text_index is not None:
            self.text_index.soon(session)

    def unindexed(self) -> Collection[SessionId] | None:
        return None if self.text_index is None else self.text_index.unindexed()

    def _attend(self, session: SessionId) -> None:
        """Handle a change in a task per session, so that a large file delays no other session.

        A change during that work is handled after it."""
        waiting = session in self._attending
        self._attending[session] = waiting
        if not waiting:
            self.tasks.spawn(self._attended(session))

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
        working = {summary.session for summary in page.sessions if summary.agent == self.source.agent}
        return frozenset(working | await self.filler.unfinished())

    async def changed(self, session: SessionId) -> None:
        """Handle a change of a session's file, or a caller's announcement that the file exists."""
        store = self._services.store
        if self._registry.loaded(session) is not None:
            await self.follow(session)
            return
        known = await store.session_of(session) or session
        if known != session:
            # The agent knows one of our sessions by this id: the file is not a separate session.
            await store.list_found((), (session,))
            await self.follow(known)
            return
        summary = await store.summary(session)
        if summary is None:
            await self.listing.now(session)
        elif summary.state == TRANSCRIPT and not summary.deleted:
            self.listing.soon(session)
        elif not summary.deleted:
            await self.follow(session)

    # --- a session becomes a log --------------------------------------------------------------------------

    async def open(self, session: SessionId) -> Session | None:
        """Create a session's log from its file on first opening; None for a session with a log, or an unknown one.

        Raises NotFound when the file is gone. The caller makes sure that only one call per session runs at a time."""
        services = self._services
        summary = await services.store.summary(session)
        if summary is None or summary.deleted or summary.state != TRANSCRIPT:
            if summary is not None:
                self.refresh(session, summary.agent)
            return None
        path = self._elsewhere.get(session, "")
        found = await self.source.look(session) if not path else await self.source.examine(path)
        if not isinstance(found, FoundTranscript):
            await self.listing.remove(session)
            raise NotFound("transcript of session", session)
        opened = ev.SessionOpened(
            id=event_id(session, "session.opened"),
            cwd=found.cwd,
            agent=self.source.agent,
            title="" if found.first_prompt.startswith(found.title) else found.title,
            branch=found.branch,
            owner=summary.owner,
            shared=summary.shared,
        )
        if not self.forks.family(found):
            return await self._begin(found, opened, None, path)
        async with self._opening:
            for other in self.forks.family(found):
                if self._registry.loaded(other) is not None:
                    await self.follow(other)
            branch = await self.forks.find(found, path)
            return await self._begin(found, opened, branch, path)

    def refresh(self, session: SessionId, agent: str) -> None:
        """Follow a session's file in the background: it may have grown, or its import was interrupted, while the
        session was not loaded."""
        if agent == self.source.agent and self.watching.is_set() and not self._stopped:
            self.tasks.spawn(self._quietly(session, self.follow))

    async def _begin(
        self, found: FoundTranscript, opened: ev.SessionOpened, branch: ForkBranch | None, path: str
    ) -> Session:
        services, session, feed = self._services, found.session, self._registry.feed(found.session)
        await self.filler.mark_unfinished(session)
        parent = await self.forks.parent_of(found) if branch is None else branch.parent
        point = None if branch is None else ForkPoint(branch.holder, branch.shared.seq)
        at, last = found.created, found.updated
        core = await loading.create(
            services, feed, session, opened, resume=session, at=at, parent=parent, found=last, point=point
        )
        begun, place = Session(core), b""
        if branch is not None:
            place = branch.shared.place
            await self.filler.log(begun, TranscriptPage(records=branch.shared.between, place=place))
        await self.filler.start(begun, place, path, found.mark.size)
        self.forget_texts(session)
        return begun

    async def is_loaded(self, session: SessionId, *, wait: bool) -> bool:
        return await self.filler.is_filled(session, wait=wait)

    # --- following ----------------------------------------------------------------------------------------

    async def follow(self, name: SessionId) -> None:
        """Update a session's log from its files, unless an agent of ours writes them."""
        async with self.filler.lock(name):
            if await self._registry.home(name):
                # Its home reads the file: this node may see the same file in a shared folder.
                return
            session = await self._registry.get(name)
            supervisor = session.supervisor
            if session.kind.name != self.source.agent or not await self.filler.is_filled(name):
                return
            if supervisor.writes_transcript:
                self._driven.add(name)
                self.filler.forget(name)
            if name in self._driven:
                if supervisor.agent is not None:
                    await self._copy(session)
                return
            try:
                await self.filler.catch_up(session)
            except NotFound:
                # The file has moved or was deleted.
                self.filler.forget(name)
                if await self.source.look(SessionId(session.core.state.agent_session or name)) is None:
                    return
                await self.filler.catch_up(session)
            self.turn_timeouts.soon(name)

    def turn_ended(self, session: SessionId) -> None:
        """Mirror the transcript after a turn: the agent has written its rows, or is about to."""
        if not self._stopped:
            self.tasks.spawn(self._rested(session))

    async def _rested(self, name: SessionId) -> None:
        async with self.filler.lock(name):
            session = self._registry.loaded(name)
            if session is not None and session.supervisor.agent is not None and session.kind.name == self.source.agent:
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
            self.tasks.spawn(self._pass_over(session))

    async def _pass_over(self, name: SessionId) -> None:
        session = self._registry.loaded(name)
        async with self.filler.lock(name):
            self.filler.forget(name)
            try:
                if session is not None and session.kind.name == self.source.agent:
                    await self._copy(session, ended=True)
            finally:
                self.mirror.forget(name)
                self._driven.discard(name)

    # --- import -------------------------------------------------------------------------------------------------

    def handlers(self) -> ServiceHandlers:
        return {ImportTranscript: self.import_transcript, AnnounceSession: self.announced}

    async def import_transcript(self, who: Identity, action: ImportTranscript) -> Imported:
        if bool(action.session) == bool(action.path):
            raise BadRequest("Name what to import: a session or the path of a file.")
        if action.session:
            return await self.import_session(session_id(action.session))
        roots = self._services.policy.roots
        path = self._services.policy.resolve_inside(action.path, (*roots, *self.source.folders))
        return await self.import_session(None, path)

    async def announced(self, who: Identity, action: AnnounceSession) -> Announced:
        """Read an announced file now, before the watcher reports it, or where there is no watcher. The file must lie
        inside the agent's homes."""
        session, store = session_id(action.session), self._services.store
        path = self._services.policy.resolve_inside(action.path, tuple(self.source.folders))
        if path.rpartition("/")[2].partition(".")[0] != session:
            raise BadRequest("The file is not that of the session.", session=session)
        await self.changed(session)
        # The agent may know one of our sessions by this id.
        summary = await store.summary(await store.session_of(session) or session)
        listed = summary is not None and not summary.deleted
        return Announced(session=session if summary is None else summary.session, listed=listed)

    async def import_session(self, session: SessionId | None, path: str = "") -> Imported:
        """Import one session into its log to the last byte, including damaged lines. Repeating it adds new rows.

        Raises NotFound, BadRequest for a file that cannot be imported, Busy while an agent runs here."""
        found = await (self.source.examine(path) if path else self.source.look(session or SessionId("")))
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
        self.filler.take_damage(found.session)
        known = summary is not None and summary.state != TRANSCRIPT
        opened = await self._registry.get(found.session)
        before = opened.core.log.head if known else 0
        async with self.filler.lock(found.session):
            if opened.supervisor.agent is not None:
                raise Busy("This session runs here: its log is complete without its file.", session=found.session)
            reader = await self.filler.reader(opened, path)
            await self.filler.fill(opened, reader)
            last = await reader.finish()
            if last is not None:
                await self.filler.log(opened, last)
        await self.turn_timeouts.settle(found.session)
        self.filler.drop_reader(found.session)
        return Imported(
            session=found.session,
            title=opened.core.state.summary().title,
            events=opened.core.log.head - before,
            bytes=found.mark.size,
            problems=self.filler.take_damage(found.session),
        )

    async def unload(self, session: SessionId) -> None:
        """Unload the session, even if clients have it open, and delete its spilled files."""
        self.filler.forget(session)
        await self._registry.remove(session)
        await self.source.discard(session)
