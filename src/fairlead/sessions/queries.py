"""Answers queries: from the session in memory where it is loaded, else from the store.

A query that only reads does not load a session: loading means owning the log, which another gateway may own."""

from collections.abc import Callable
from typing import Any, TypeVar, assert_never

import msgspec

from fairlead.model import events as ev
from fairlead.model import queries as q
from fairlead.model.agents import CAPABILITIES, AgentKind
from fairlead.model.auth import Identity
from fairlead.model.errors import NotFound
from fairlead.model.ids import MessageId, SessionId
from fairlead.model.store import TRANSCRIPT, Alone, Page, RowPage, SessionFilter, Summary, event_line
from fairlead.sessions.dependencies import CoreDependencies
from fairlead.sessions.fanout.projections import Projector
from fairlead.sessions.paging import all_sessions
from fairlead.sessions.permissions.report import explain
from fairlead.sessions.registry import Registry
from fairlead.sessions.session import Session
from fairlead.sessions.state import PendingRequest, SessionState
from fairlead.sessions.transcripts.searching import search

T = TypeVar("T")

# Event kinds in the history: all that are meaningful alone. Deltas, bare records and progress are not.
HISTORY_KINDS = (
    *("session.opened", "session.resumed", "session.forked", "session.changed", "session.closed", "agent.exited"),
    *("handover.asked", "handover.settled", "turn.started", "turn.ended", "user.message", "text", "thinking"),
    *("tool.called", "tool.ended", "subagent.started", "subagent.ended", "permission.asked", "question.asked"),
    *("plan.proposed", "permission.resolved", "permission.cancelled", "mode.changed", "model.changed"),
    *("thinking.changed", "compaction", "rate.limit", "notice", "interrupt.asked", "rewound", "error"),
)


WAITING = SessionFilter(state="waiting", archived=None, limit=200)


class QueryHandler:
    def __init__(self, services: CoreDependencies, registry: Registry) -> None:
        self.services = services
        self.registry = registry

    async def ask(self, who: Identity, query: q.Query) -> Any:
        """Answer a query. The caller has checked that `who` sees the named session; queries over all sessions are
        filtered here."""
        store = self.services.store
        match query:
            case q.ListSessions():
                return await store.sessions(query.filter, who.seen_by)
            case q.GetSession():
                return await self._session(query.session)
            case q.ReadMessages():
                await self.existing(query.session)
                page = await store.tail(query.session, query.before, query.limit, HISTORY_KINDS)
                more = len(page.entries) == query.limit
                return self._page(query.session, page, page.entries[0].seq if more else None)
            case q.ReadEvents():
                await self.existing(query.session)
                page = await store.read(query.session, query.after, query.limit)
                last = page.entries[-1].seq if page.entries else query.after
                return self._page(query.session, page, last if last < page.head else None)
            case q.ListPermissions():
                return await self._permissions(who, query.session)
            case q.ReadQueue():
                return _queue((await self.registry.peek(query.session)).state)
            case q.ReadUsage():
                return await self._usage(who, query.session)
            case q.SearchText():
                opener = self.registry.opener
                return await search(self.services, who, query, frozenset() if opener is None else opener.unindexed())
            case q.PreviewTranscript():
                return await self._glance(query)
            case q.WaitLoaded():
                await self.existing(query.session)
                return await self._is_loaded(query.session, wait=query.wait)
            case q.WaitDelivered():
                return await (await self.registry.get(query.session)).deliveries.wait(MessageId(query.message))
            case q.WaitTurn():
                return await (await self.registry.get(query.session)).turn_waiters.wait(query.seconds)
            case q.ReadRows():
                return await self._rows(query)
            case q.FindRow():
                await self._level(query, lambda projector: None)
                return await store.row_of(query.session, query.view, query.key)
            case q.ReadProjection():
                return await self._level(query, lambda projector: projector.reducer.snapshot())
            case q.FindPermission():
                session, pending = await self._asked(who, query.request)
                return _pending(session, pending)
            case q.ExplainPermission():
                session, pending = await self._asked(who, query.request)
                return await explain(await self.registry.get(session), pending, query)
            case q.ListAgents():
                return tuple([await self._agent(name) for name in self.services.kinds])
            case q.ReadUsageStats():
                return await store.usage_stats(query.since, query.until, query.offset, who.seen_by)
            case _:
                assert_never(query)

    async def _rows(self, query: q.ReadRows) -> RowPage:
        seq = await self._level(query, lambda projector: projector.seq)
        store = self.services.store
        if query.after is not None:
            page = await store.rows(query.session, query.view, query.after, query.limit)
        else:
            page = await store.rows_tail(query.session, query.view, query.before, query.limit)
        # Entries that made no row do not advance the stored seq.
        return msgspec.structs.replace(page, seq=max(seq, page.seq))

    async def _level(self, query: q.ReadRows | q.FindRow | q.ReadProjection, then: Callable[[Projector], T]) -> T:
        """Apply `then` to the projector once it has caught up with the current head of the log."""
        await self.existing(query.session)
        _, head = await self.registry.log_position(query.session)
        return await self.registry.views.get(query.session, query.view).wait_until(head, then)

    async def existing(self, session: SessionId) -> Summary:
        summary = await self.services.store.summary(session)
        if summary is None or summary.deleted:
            raise NotFound("session", session)
        if summary.state == TRANSCRIPT:
            return (await self.registry.get(session)).core.state.summary()
        return summary

    async def _glance(self, query: q.PreviewTranscript) -> q.TranscriptPreview:
        """Interpret records from the transcript file alone. The events have no seq, as they are in no log."""
        summary = await self.services.store.summary(query.session)
        opened = summary is not None and summary.state != TRANSCRIPT
        shown: list[ev.Event] = []
        try:
            shown = await self._last_events(query)
        except NotFound:
            if not opened:
                raise
        lines = [msgspec.Raw(ev.encode(event)) for event in shown if ev.kind_of(event) in HISTORY_KINDS]
        importing = not opened or not await self._is_loaded(query.session)
        return q.TranscriptPreview(session=query.session, events=tuple(lines), importing=importing)

    async def _last_events(self, query: q.PreviewTranscript) -> list[ev.Event]:
        source = self.services.transcripts
        if source is None:
            raise NotFound("transcript of session", query.session)
        interpreter = self.services.kind(source.agent).interpreter(query.session)
        found: list[ev.Event] = []
        for record in await source.last_rows(query.session, query.limit):
            events = interpreter.step(record).events
            found.extend(msgspec.structs.replace(event, at=record.at) for event in events)
        return found

    async def _is_loaded(self, session: SessionId, *, wait: bool = False) -> bool:
        opener = self.registry.opener
        return opener is None or await opener.is_loaded(session, wait=wait)

    async def _agent(self, name: str) -> q.AgentView:
        info = await self.services.kinds[name].info()
        return q.AgentView(
            name=name,
            default=name == self.services.default_agent,
            version=info.version,
            problem=info.problem,
            links=tuple(link for link, about in info.ways.items() if about == "yes"),
            cannot=_missing(self.services.kinds[name]),
        )

    async def _session(self, session: SessionId) -> q.SessionView:
        state, log_id, head = await self.registry.peek(session)
        loaded = self.registry.loaded(session)
        return q.SessionView(
            summary=msgspec.structs.replace(state.summary(), node=await self.registry.node_of(session)),
            log_id=log_id,
            head=head,
            turn=state.turn if loaded is None else loaded.core.interpreter.turn,
            settings=msgspec.to_builtins(state.settings),
            pending=tuple(_pending(session, item) for item in state.pending),
            queue=_queue(state),
            rules=state.rules,
            watchers=self.registry.watchers(session),
            handover=_handover(state, loaded),
            importing=not await self._is_loaded(session),
            cannot=_missing(self.services.kind(state.agent)),
        )

    def _page(self, session: SessionId, page: Page, following: int | None) -> q.EventPage:
        lines = tuple(msgspec.Raw(event_line(session, entry)) for entry in page.entries)
        return q.EventPage(session=session, log_id=page.log_id, head=page.head, events=lines, next=following)

    async def _permissions(self, who: Identity, session: SessionId | None) -> tuple[q.PendingView, ...]:
        if session is not None:
            return tuple(_pending(session, item) for item in (await self.registry.peek(session)).state.pending)
        # Newest first. The limit bounds the number of sessions that one query reads.
        found: list[q.PendingView] = []
        for summary in (await self.services.store.sessions(WAITING, who.seen_by)).sessions:
            state = (await self.registry.peek(summary.session)).state
            found.extend(_pending(state.session, item) for item in state.pending)
        return tuple(found)

    async def _asked(self, who: Identity, request: str) -> tuple[SessionId, PendingRequest]:
        session = self.services.requests.find(request)
        state = await self._elsewhere(request) if session is None else (await self.registry.peek(session)).state
        pending = None if state is None else state.find_pending(request)
        if state is None or pending is None or not who.sees(state.owner, state.shared):
            raise NotFound("pending request", request)
        return state.session, pending

    async def _elsewhere(self, request: str) -> SessionState | None:
        """The session of another node that has this request pending."""
        store = self.services.store
        if isinstance(store.peers, Alone):
            return None
        for summary in (await store.sessions(WAITING)).sessions:
            if summary.node not in ("", store.node):
                state = (await self.registry.peek(summary.session)).state
                if state.find_pending(request) is not None:
                    return state
        return None

    async def _usage(self, who: Identity, session: SessionId | None) -> q.UsageView:
        if session is not None:
            summaries = [await self.existing(session)]
        else:
            wanted = SessionFilter(archived=None, limit=500)
            summaries = await all_sessions(self.services.store, wanted, who.seen_by)
        return q.UsageView(
            turns=sum(s.turns for s in summaries),
            cost_usd=sum(s.cost_usd for s in summaries),
            input_tokens=sum(s.input_tokens for s in summaries),
            output_tokens=sum(s.output_tokens for s in summaries),
            sessions=len(summaries),
        )


def _handover(state: SessionState, loaded: Session | None) -> q.HandoverView | None:
    wish = state.handover
    if wish is None:
        return None
    waits_for = () if loaded is None else loaded.handovers.waits_for(wish.when)
    return q.HandoverView(link=wish.link, when=wish.when, by=wish.by, waits_for=waits_for)


def _pending(session: SessionId, item: PendingRequest) -> q.PendingView:
    return q.PendingView(session=session, seq=item.seq, event=msgspec.Raw(item.event))


def _queue(state: SessionState) -> tuple[q.QueuedView, ...]:
    return tuple(
        q.QueuedView(message=item.message, by=item.by, content=msgspec.to_builtins(item.content), source=item.source)
        for item in state.queue
    )


def _missing(kind: AgentKind) -> tuple[str, ...]:
    return tuple(sorted(CAPABILITIES - kind.capabilities))
