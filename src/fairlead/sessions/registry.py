"""The sessions in memory: loaded on first use, their agents stopped when idle, recovered after a restart."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection
from typing import Protocol

from fairlead.model.agents import ProcessInfo
from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError, NotFound, OwnedElsewhere, TooMany
from fairlead.model.ids import SessionId
from fairlead.model.store import TRANSCRIPT, Alone, SessionFilter
from fairlead.sessions import loading
from fairlead.sessions.commit import SessionCore
from fairlead.sessions.dependencies import CoreDependencies
from fairlead.sessions.fanout.hub import Hub
from fairlead.sessions.fanout.projections import Projections
from fairlead.sessions.paging import all_sessions
from fairlead.sessions.process.adoption import adopt
from fairlead.sessions.process.recovery import follow
from fairlead.sessions.session import Session
from fairlead.system.tasks import TaskSet

logger = logging.getLogger("fairlead.registry")

SWEEP_S = 30.0
"""Interval of the check for idle processes; a limit of ten minutes needs no finer one."""


class TranscriptOpener(Protocol):
    """Opens a session that is only listed so far, from its transcript."""

    async def open(self, session: SessionId) -> Session | None: ...
    def refresh(self, session: SessionId, agent: str) -> None:
        """Read what a session's file may have more than its log, in the background."""

    async def is_loaded(self, session: SessionId, *, wait: bool) -> bool:
        """Whether everything that the file had when it was opened is in the log. `wait`: wait until it is."""

    def unindexed(self) -> Collection[SessionId] | None:
        """Sessions of which some text cannot be searched yet; None: all that are only listed so far."""


class _Loading:
    """A load in progress. A caller can be cancelled or fail while others wait: they share the lock until the last one
    leaves. Two loads of one session at once would claim its log twice, and the first would lose its lease."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.callers = 0


class Registry:
    def __init__(self, services: CoreDependencies) -> None:
        self.services = services
        self.opener: TranscriptOpener | None = None
        self._sessions: dict[SessionId, Session] = {}
        self._feeds: dict[SessionId, Hub] = {}
        self._loading: dict[SessionId, _Loading] = {}
        self.tasks = TaskSet()
        self._adopting: set[asyncio.Task[None]] = set()
        self._stopped = False
        self.keeps_running: Callable[[str], bool] = lambda folder: True
        """Whether an agent in this folder may go on without a gateway: in a folder that another node has too, that node
        may start one."""
        self.views = Projections(services, self.feed, self.drop_feed)

    # --- finding -----------------------------------------------------------------------------------

    def feed(self, session: SessionId) -> Hub:
        feed = self._feeds.get(session)
        if feed is None:
            feed = self._feeds[session] = Hub(session, self.services.store)
        return feed

    def watching(self, session: SessionId) -> frozenset[Identity]:
        """Identities with a live subscription to the session now."""
        feed = self._feeds.get(session)
        return frozenset() if feed is None else feed.live_identities

    def watchers(self, session: SessionId) -> tuple[str, ...]:
        """Names of the subscribers to the session, each once."""
        feed = self._feeds.get(session)
        return () if feed is None else feed.names

    def left(self, session: SessionId, who: Identity) -> None:
        """Mark the session as read for a live subscription that closes."""
        found = self._sessions.get(session)
        if found is not None:
            found.mark_read((who,))
        elif not self._stopped:
            self.tasks.spawn(self._mark_read(session, who))

    async def _mark_read(self, session: SessionId, who: Identity) -> None:
        with contextlib.suppress(FairleadError):
            state = (await self.peek(session)).state
            self.services.on_read(session, (who,), state.finished_turns)

    def drop_feed(self, session: SessionId) -> None:
        """Drop a hub that has no subscriptions and no session, loaded or loading. Called when a subscription closes."""
        feed = self._feeds.get(session)
        if feed is not None and feed.empty and session not in self._sessions and session not in self._loading:
            del self._feeds[session]

    def loaded(self, session: SessionId) -> Session | None:
        return self._sessions.get(session)

    def all_loaded(self) -> tuple[Session, ...]:
        return tuple(self._sessions.values())

    def followed(self, session: SessionId) -> Hub | None:
        """The hub of a session that has subscriptions here and is not loaded here."""
        feed = self._feeds.get(session)
        return None if feed is None or feed.empty or session in self._sessions else feed

    async def home(self, session: SessionId) -> str:
        """The node that has the session's files: its owner, the last one, or the one that found its transcript; empty:
        this one, or none yet."""
        store = self.services.store
        if session in self._sessions or isinstance(store.peers, Alone):
            return ""
        home = await store.home(session)
        if not home:
            summary = await store.summary(session)
            home = summary.node if summary is not None and summary.state == TRANSCRIPT else ""
        return "" if home == store.node else home

    async def node_of(self, session: SessionId) -> str:
        """The name of a session's home, as lists show it; empty in a store of one node."""
        store = self.services.store
        return "" if isinstance(store.peers, Alone) else await self.home(session) or store.node

    async def log_position(self, session: SessionId) -> tuple[str, int]:
        found = self._sessions.get(session)
        if found is not None:
            return found.core.log.log_id, found.core.log.head
        page = await self.services.store.read(session, 0, 1, 1)
        return page.log_id, page.head

    async def peek(self, session: SessionId) -> loading.StoredSession:
        """A session's current state, for a query: from memory, else from the store, without owning its log.

        A session that is only a transcript so far gets its log first."""
        found = self._sessions.get(session)
        if found is None:
            summary = await self.services.store.summary(session)
            if summary is None or summary.deleted:
                raise NotFound("session", session)
            if summary.state != TRANSCRIPT and session not in self._loading:
                if self.opener is not None:
                    self.opener.refresh(session, summary.agent)
                return await loading.peek(self.services.store, session)
            found = await self.get(session)
        return loading.StoredSession(found.core.state, found.core.log.log_id, found.core.log.head)

    async def get(self, session: SessionId, *, take: bool = False) -> Session:
        """The session, loaded on first use. `take`: even if its home is another node; else OwnedElsewhere."""
        found = self._sessions.get(session)
        if found is not None:
            return found
        load = self._loading.setdefault(session, _Loading())
        load.callers += 1
        try:
            async with load.lock:
                found = self._sessions.get(session)
                if found is None:
                    home = "" if take else await self.home(session)
                    if home:
                        raise OwnedElsewhere(home)
                    found = await self.opener.open(session) if self.opener is not None else None
                    if found is None:
                        found = await self._load(session)
                    self._register(found)
                    await self._unload_some(keep=session)
                return found
        finally:
            load.callers -= 1
            if not load.callers:
                del self._loading[session]
                self.drop_feed(session)

    async def _load(self, session: SessionId) -> Session:
        feed = self.feed(session)
        published = feed.head
        loaded = Session(await loading.load(self.services, session, feed))
        if published and published < feed.head:
            # Entries of the earlier owner that were not published here.
            feed.resync()
        return loaded

    def adopt(self, core: SessionCore) -> None:
        """Register a session that was just created."""
        self._register(Session(core))

    def _register(self, session: Session) -> None:
        supervisor = session.supervisor

        def follow_orphan(child: ProcessInfo) -> None:
            self.tasks.spawn(follow(supervisor, child, end=False))

        def fenced() -> None:
            self.tasks.spawn(self.abandon(session))

        supervisor.on_keeper_lost = follow_orphan
        session.core.on_fenced = fenced
        self._sessions[session.core.session] = session

    async def abandon(self, session: Session) -> None:
        """Another node owns the session: kill its agent, and write nothing more. Its subscriptions stay, and follow the
        new owner's entries."""
        name = session.core.session
        if self._sessions.get(name) is not session:
            return
        logger.warning("another node owns the session", extra={"session": name})
        del self._sessions[name]
        self.services.requests.drop(name)
        await session.supervisor.abandon()
        await self.services.forget_child(name)
        if (feed := self.followed(name)) is not None:
            feed.resync()
        self.drop_feed(name)

    async def remove(self, session: SessionId) -> None:
        self.services.requests.drop(session)
        await self.views.drop(session)
        found = self._sessions.pop(session, None)
        if found is not None:
            await found.shutdown()

    # --- room ------------------------------------------------------------------------------------------

    async def make_room(self, starting: str) -> None:
        """Stop the least recently used agent if the maximum number is running. Never a busy one: TooMany."""
        running = [s for s in self._sessions.values() if s.supervisor.agent is not None and s.core.session != starting]
        if len(running) < self.services.limits.max_agents:
            return
        free = [session for session in running if not session.supervisor.busy]
        if not free:
            raise TooMany(
                f"{len(running)} agents are at work, as many as may run: wait for one, or raise --max-agents.",
                limit=self.services.limits.max_agents,
            )
        oldest = min(free, key=lambda session: session.supervisor.last_used)
        await oldest.supervisor.stop("ended for another session")

    async def _unload_some(self, keep: SessionId) -> None:
        """Unload the least recently used sessions without a process; the next use loads them again."""
        idle = [
            s
            for s in self._sessions.values()
            if s.supervisor.agent is None and not s.supervisor.busy and s.core.session != keep
        ]
        excess = len(idle) - self.services.limits.loaded_sessions
        for session in sorted(idle, key=lambda s: s.supervisor.last_used)[: max(0, excess)]:
            del self._sessions[session.core.session]
            await session.core.log.store.release(session.core.log.lease)
            self.drop_feed(session.core.session)

    async def sweep(self) -> None:
        """Stop the agents that have been idle too long."""
        now = self.services.clock.monotonic()
        for session in list(self._sessions.values()):
            runner = session.supervisor
            if runner.agent is None or runner.busy or now - runner.last_used < self.services.limits.idle_s:
                continue
            await runner.stop("idle")

    async def _sweep_forever(self) -> None:
        while True:
            await self.services.clock.sleep(SWEEP_S)
            try:
                await self.sweep()
                await self.views.sweep()
            except FairleadError as error:
                logger.warning("sweep failed", extra={"error": error.message})

    # --- start and end of the gateway ----------------------------------------------------------------

    async def start(self, *, kill_children: bool) -> None:
        """Recover the work of an earlier gateway: adopt its kept processes, follow the others, close its turns,
        continue its queues."""
        followed = set()
        for child in await self.services.children():
            followed.add(child.session)
            if child.kept and not kill_children:
                await self._adopt(child)
            else:
                await self._follow(child, kill=kill_children)
        for phase in ("working", "waiting"):
            wanted = SessionFilter(state=phase, archived=None, limit=200)
            for summary in await all_sessions(self.services.store, wanted):
                if summary.session not in followed and summary.node in ("", self.services.store.node):
                    await self._recover(summary.session)
        self.tasks.spawn(self._sweep_forever())

    async def _follow(self, child: ProcessInfo, *, kill: bool) -> None:
        session = await self._recovering(child)
        if session is not None:
            self.tasks.spawn(follow(session.supervisor, child, end=kill))

    async def _adopt(self, child: ProcessInfo) -> None:
        session = await self._recovering(child)
        if session is not None:
            # Before the gateway listens: programs of the agent try again as soon as it does.
            self.services.restore_access(child.session, session.core.state.owner, child.access)
            self._adopting.add(self.tasks.spawn(adopt(session.supervisor, child)))

    async def adopted(self) -> None:
        """Wait until the kept processes of the earlier gateway are connected to their sessions."""
        if self._adopting:
            await asyncio.wait(self._adopting)
            self._adopting.clear()

    async def _recovering(self, child: ProcessInfo) -> Session | None:
        """The session of a process of an earlier gateway. It sends no messages until the process is known."""
        try:
            session = await self.get(child.session)
        except FairleadError as error:
            logger.warning("cannot follow a child", extra={"session": child.session, "error": error.message})
            return None
        session.supervisor.following = True
        session.supervisor.recovered.clear()
        return session

    async def _recover(self, session_id: SessionId) -> None:
        try:
            session = await self.get(session_id)
            if session.core.state.pending or session.core.state.queue or await self._was_ours(session_id):
                await session.supervisor.close_lost()
            session.supervisor.schedule_next()
        except FairleadError as error:
            logger.warning("cannot recover a session", extra={"session": session_id, "error": error.message})

    async def _was_ours(self, session: SessionId) -> bool:
        """Whether the gateway's own agent was working. A turn in another program's transcript continues without us."""
        page = await self.services.store.tail(session, None, 1, ("agent.started", "agent.exited"))
        if not page.entries:
            return self.services.transcripts is None
        return page.entries[-1].kind == "agent.started"

    async def stop(self, *, detach: bool = False) -> None:
        """Stop all agents and unload all sessions. `detach`: agents at the keeper go on."""
        self._stopped = True
        await self.tasks.close()
        await self.views.stop()
        await asyncio.gather(*(self._shutdown(session, detach=detach) for session in self._sessions.values()))
        self._sessions.clear()

    async def _shutdown(self, session: Session, *, detach: bool) -> None:
        await session.shutdown(detach=detach and self.keeps_running(session.core.state.cwd))
