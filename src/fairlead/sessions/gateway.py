"""The core as the server sees it: implements `model.gateway.Gateway` on the registry.

Rule: scopes and session ownership are checked here for every command, query and subscription, whichever protocol sent
it; a folder from the wire resolves inside the allowed roots or is rejected.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from msgspec import structs

from fairlead.auth.api.session_keys import SPACE as KEYS
from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.agents import AgentKind
from fairlead.model.auth import OWNER, Identity
from fairlead.model.content import MessageSource
from fairlead.model.errors import BadRequest, Busy, FairleadError, NotAllowed, NotFound, Stale
from fairlead.model.gateway import Cursor, FrameEncoder, Sink
from fairlead.model.ids import MessageId, SessionId, event_id
from fairlead.model.queries import FindPermission, PendingView, Query
from fairlead.model.scopes import check_scopes, require_scope
from fairlead.model.store import TRANSCRIPT, Batch, Entry, ForkPoint, Store
from fairlead.sessions import loading, sources
from fairlead.sessions.api.read_state import SPACE as SHOWN
from fairlead.sessions.commit import SessionCore
from fairlead.sessions.dependencies import CoreDependencies
from fairlead.sessions.fanout.hub import Subscription
from fairlead.sessions.ownership import SessionOwnership
from fairlead.sessions.paging import entries_after, entries_backwards
from fairlead.sessions.permissions.policy.modes import ModePolicy
from fairlead.sessions.queries import QueryHandler
from fairlead.sessions.registry import Registry
from fairlead.sessions.session import check_settings
from fairlead.sessions.state import clean_title

logger = logging.getLogger("fairlead.session")

CREATED = "created"
"""Document space: idempotency key of a `create` -> the session that it made."""


class SessionGateway:
    def __init__(self, services: CoreDependencies, registry: Registry) -> None:
        self.services = services
        self.registry = registry
        self.queries = QueryHandler(services, registry)
        self.ownership = SessionOwnership(services, registry)
        self._creating: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By key: a repeated `create` is answered when the session of the first one is there."""

    @property
    def store(self) -> Store:
        return self.services.store

    # --- commands ------------------------------------------------------------------------------------

    async def command(self, who: Identity, command: cmd.Command) -> cmd.Reply:
        check_scopes(who, command)
        await self.ownership.check_agent(who)
        if isinstance(command, cmd.Create):
            return await self._create(who, command)
        if who.agent and not isinstance(command, cmd.Send):
            raise NotAllowed("An agent may start sessions and send messages, nothing else.")
        name = await self.session_of(who, command)
        command = structs.replace(command, session=name)
        match command:
            case cmd.Fork():
                return await self._fork(who, command)
            case cmd.ShareSession():
                return await self.ownership.share(who, command)
            case cmd.Delete():
                await self.ownership.check_owner(who, name, "delete")
                reply = await self._delete(command)
                logger.info("session deleted", extra={"session": name, "user": who.user, "who": who.name})
                self.services.on_change(name, "deleted")
                return reply
            case cmd.Configure():
                self._check_settings(command.settings)
            case _:
                pass
        session = await self.registry.get(name)
        if isinstance(command, cmd.Send | cmd.StartHandover) and session.supervisor.agent is None:
            # A session found in a transcript may have worked anywhere.
            self.resolve_folder(session.core.state.cwd)
        source: MessageSource | None = None
        if isinstance(command, cmd.Send):
            who, command, source = await self._mark(who, command)
        try:
            return await session.command(who, command, source)
        except FairleadError as error:
            # The caller of an answer may know only the request.
            error.data.setdefault("session", name)
            raise

    async def _mark(self, who: Identity, command: cmd.Send) -> tuple[Identity, cmd.Send, MessageSource | None]:
        """A message of an agent with its mark and source, and its sender under the name that clients show."""
        source = sources.source_of(who, await self._depth_of(who), command.session)
        if source is None:
            return who, command, None
        content = sources.marked(command.content, who, source) if command.content else ()
        named = structs.replace(who, name=sources.sender(who, source))
        return named, structs.replace(command, content=content), source

    async def _depth_of(self, who: Identity) -> int:
        """The depth of the session whose agent the caller is; 0 for other callers."""
        return (await self.registry.peek(SessionId(who.session))).state.depth if who.session else 0

    async def session_of(self, who: Identity, command: cmd.Command) -> SessionId:
        """The gateway's id of a command's session. NotFound if `who` may not see it."""
        if command.session is not None:
            return await self.ownership.require_visible(who, command.session)
        assert isinstance(command, cmd.AnswerPermission)
        found: PendingView = await self.ask(who, FindPermission(command.request))
        return found.session

    async def _create(self, who: Identity, command: cmd.Create) -> cmd.Reply:
        if command.node not in ("", self.store.node):
            raise NotFound("node", command.node)
        kind = self.services.kind(command.agent)
        source = sources.source_of(who, await self._depth_of(who))
        if who.session:
            (await self.registry.get(SessionId(who.session))).count_started()
        self._check_settings(command.settings)
        if command.resume:
            # A conversation that is not known here is a file of the machine's owner.
            await self.ownership.require_visible(who, SessionId(command.resume), unknown=OWNER)
        if command.settings.link == "terminal":
            await self._check_terminal(kind)
        cwd = self.resolve_folder(command.cwd)
        if command.worktree is not None:
            choice = command.worktree
            cwd = self.resolve_folder(await self.services.open_worktree(cwd, choice.branch, choice.base))
        if not command.key:
            return await self._create_new(who, command, kind, cwd, source)
        key = f"{who.credential}:{command.key}"
        lock = self._creating.setdefault(key, asyncio.Lock())
        async with lock:
            if not await self.store.documents.add(CREATED, key, command.session):
                made = await self.store.documents.get(CREATED, key)
                return cmd.Reply(session=SessionId(str(made)), repeated=True)
            return await self._create_new(who, command, kind, cwd, source)

    async def _create_new(
        self, who: Identity, command: cmd.Create, kind: AgentKind, cwd: str, source: MessageSource | None
    ) -> cmd.Reply:
        await self._check_new(command.session)
        name, title = event_id(command.session, "session.opened"), clean_title(command.title)
        opened = ev.SessionOpened(
            id=name,
            cwd=cwd,
            agent=kind.name,
            title=title,
            by=sources.sender(who, source),
            owner=who.user,
            foreign=not kind.writes_cli_records,
            source=source,
        )
        feed = self.registry.feed(command.session)
        core = await loading.create(self.services, feed, command.session, opened, command.settings, command.resume)
        return self._adopt(core)

    async def _check_new(self, session: SessionId) -> None:
        if await self.store.summary(session) is not None:
            raise Stale(f"There is a session {session} already.", session=session)

    def _adopt(self, core: SessionCore) -> cmd.Reply:
        self.registry.adopt(core)
        self.services.on_change(core.session, "created")
        return cmd.Reply(session=core.session, seq=core.log.head)

    async def revoked(self, credential: str) -> None:
        """Delete the idempotency keys of a revoked credential: it cannot repeat a command any more."""
        for name in await self.store.documents.list(CREATED):
            if name.startswith(f"{credential}:"):
                await self.store.documents.delete(CREATED, name)

    async def _check_terminal(self, kind: AgentKind) -> None:
        """Reject an agent without a terminal link now, rather than at the first message. A missing agent is reported
        later, when it is needed."""
        info = await kind.info()
        if not info.problem and info.ways.get("terminal") != "yes":
            raise BadRequest(f"The agent {kind.name} cannot run in a terminal here.", agent=kind.name)

    def resolve_folder(self, path: str) -> str:
        """Resolve a folder from the wire, following symbolic links; it must lie inside the roots. Empty: the first
        root."""
        policy = self.services.policy
        if "\0" in path:
            raise BadRequest("A path has no NUL character.")
        real = policy.resolve_inside(path or policy.roots[0], policy.roots)
        if not self.services.is_folder(real):
            raise NotFound("folder", path)
        return real

    def _check_settings(self, settings: cmd.Settings) -> None:
        check_settings(settings, ModePolicy(allow_bypass=self.services.policy.allow_bypass))
        for folder in settings.directories:
            self.resolve_folder(folder)
        known = {*self.services.mcp, *self.services.mcp_configs}
        for name in settings.mcp_servers:
            if name not in known:
                raise NotFound("configured MCP server", name)

    async def _fork(self, who: Identity, command: cmd.Fork) -> cmd.Reply:
        parent = await self.registry.get(command.session)
        parent.require_capability(command)
        await self._check_new(command.child)
        async with parent.core.client_lock():
            state = parent.core.state
            if command.at is None and parent.core.interpreter.turn is not None:
                raise Busy("A turn is running: fork at an earlier message, or wait for its end.")
            point, uuid = ForkPoint(command.session, parent.core.log.head), ""
        if command.at is not None:
            point, uuid = await self._turn_of(command.session, command.at)
        feed = self.registry.feed(command.child)
        core = await loading.fork(self.services, feed, state, command, point, uuid, who)
        return self._adopt(core)

    async def _turn_of(self, session: SessionId, message: MessageId) -> tuple[ForkPoint, str]:
        """The end of the turn that `message` began, and the record id of the agent's last output in that turn."""
        wanted = ("user.message", "turn.ended", "text", "tool.ended")
        end: Entry | None = None
        last = ""
        async for entry in entries_backwards(self.store, session, wanted):
            event = ev.decode(entry.event)
            if isinstance(event, ev.TurnEnded):
                end, last = entry, ""
            elif isinstance(event, ev.Text | ev.ToolEnded) and not last and event.subagent is None:
                last = event.id.split("/", 1)[0]
            elif isinstance(event, ev.UserMessage) and event.message == message:
                if end is None:
                    raise Busy("The turn of that message is not over yet.")
                return ForkPoint(session, end.seq), last
        raise NotFound("message", message)

    async def _delete(self, command: cmd.Delete) -> cmd.Reply:
        """Leave a tombstone: the file of a session that was only listed is not read and never lists it again."""
        name = command.session
        summary = await self.store.summary(name)
        if summary is None or summary.deleted or summary.state != TRANSCRIPT:
            session = await self.registry.get(name)
            await self.registry.remove(name)
            summary = session.core.state.summary()
        lease, _, head = await self.store.claim(name)
        await self.store.append(lease, Batch(entries=(), summary=structs.replace(summary, deleted=True)), head)
        await self.store.erase(name)
        for space in (KEYS, SHOWN):
            await self.store.documents.delete(space, name)
        await self.store.release(lease)
        if self.services.transcripts is not None:
            for found in {name, summary.agent_session} - {""}:
                await self.services.transcripts.discard(SessionId(found))
        if command.files:
            await self.services.kind(summary.agent).forget(summary.agent_session, summary.cwd)
        return cmd.Reply(session=name, seq=head)

    # --- queries and watching ------------------------------------------------------------------------------

    async def ask(self, who: Identity, query: Query) -> Any:
        require_scope(who, "view")
        await self.ownership.check_agent(who)
        session = getattr(query, "session", None)
        if session is not None:
            query = structs.replace(query, session=await self.ownership.require_visible(who, session))
        return await self.queries.ask(who, query)

    async def watch(
        self,
        who: Identity,
        session: SessionId,
        cursor: Cursor | None,
        variant: FrameEncoder,
        sink: Sink,
        view: str = "",
    ) -> Subscription:
        require_scope(who, "view")
        await self.ownership.check_agent(who)
        session = await self.ownership.require_visible(who, session)
        await self.queries.existing(session)
        log_id, head = await self._position(session, view)
        if cursor is not None and cursor.log_id == log_id and cursor.seq > head:
            # It comes from another node, whose entries may not be here yet.
            await self.store.caught_up(session)
            log_id, head = await self._position(session, view)
        left: Callable[[], None] = partial(self.registry.drop_feed, session)
        if view:
            projector = self.registry.views.get(session, view)
            feed, left = projector.feed, projector.mark_used
        else:
            # Nothing is awaited from here on: the registry may drop a hub that has no subscriptions yet.
            feed = self.registry.feed(session)
        known = cursor is None or ((not cursor.log_id or cursor.log_id == log_id) and 0 <= cursor.seq <= head)
        start = (Cursor(head) if cursor is None else cursor) if known else Cursor(0)
        return Subscription(
            feed,
            who,
            variant,
            sink,
            since=start,
            head=head,
            log_id=log_id,
            verdict="ok" if known else "gap",
            buffer=self.services.limits.watcher_buffer,
            on_close=left,
            on_leave=partial(self.registry.left, session, who),
        )

    async def _position(self, session: SessionId, view: str) -> tuple[str, int]:
        """The log id, and the last seq of the log or the last ordinal of a projection of it."""
        log_id, head = await self.registry.log_position(session)
        if view:
            head = await self.registry.views.get(session, view).wait_until(head, lambda level: level.head)
        return log_id, head

    def signal(self, who: Identity, session: SessionId, kind: str, data: Any) -> None:
        self.registry.feed(session).signal(kind, who.name, data, but=who)

    async def export(self, who: Identity, session: SessionId) -> AsyncGenerator[Entry, None]:
        require_scope(who, "view")
        await self.ownership.check_agent(who)
        session = await self.ownership.require_visible(who, session)
        async with contextlib.aclosing(entries_after(self.store, session)) as entries:
            async for entry in entries:
                yield entry
