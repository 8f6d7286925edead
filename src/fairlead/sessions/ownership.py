"""Session ownership: which users may see a session, sharing, and the removal of a user.

The rule itself is `model.auth.Identity.sees`. Every client request for a session passes `SessionOwnership.seen` once:
here, and in no protocol. To a user who may not see a session, it looks as if it did not exist.
"""

import logging
from typing import Any

from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.auth import EVERYBODY, Identity
from fairlead.model.errors import BadRequest, NotAllowed, NotFound
from fairlead.model.ids import SessionId, event_id
from fairlead.model.store import SessionFilter
from fairlead.model.web.requests import ServiceCall, ServiceHandler, ServiceHandlers
from fairlead.sessions import sources
from fairlead.sessions.dependencies import CoreDependencies
from fairlead.sessions.paging import all_sessions
from fairlead.sessions.registry import Registry
from fairlead.sessions.session import Session

MOST_SHARED = 100
"""Maximum number of users with whom one session is shared by name."""

logger = logging.getLogger("fairlead.session")


class SessionOwnership:
    def __init__(self, services: CoreDependencies, registry: Registry) -> None:
        self._services = services
        self._registry = registry

    # --- seeing

    async def resolve_id(self, session: SessionId) -> SessionId:
        """Resolve to the gateway's session id: clients may also use the agent's id of the session, where it differs."""
        store = self._services.store
        if self._registry.loaded(session) is not None or await store.summary(session) is not None:
            return session
        return await store.session_of(session) or session

    async def owned(self, session: SessionId) -> tuple[str, tuple[str, ...]] | None:
        """The owner and the users with whom the session is shared; None if there is no such session."""
        loaded = self._registry.loaded(session)
        if loaded is not None:
            return loaded.core.state.owner, loaded.core.state.shared
        summary = await self._services.store.summary(session)
        return None if summary is None else (summary.owner, summary.shared)

    async def sees(self, who: Identity, session: SessionId) -> bool:
        owned = await self.owned(session)
        return owned is not None and who.sees(*owned)

    async def require_visible(self, who: Identity, session: SessionId, unknown: str | None = None) -> SessionId:
        """The gateway's id of the session. NotFound if `who` may not see it. `unknown`: the owner of a session that is
        not known here; None: NotFound for such a session."""
        found = await self.resolve_id(session)
        owned = await self.owned(found) or (None if unknown is None else (unknown, ()))
        if owned is None or not who.sees(*owned):
            raise NotFound("session", session)
        return found

    async def check_agent(self, who: Identity) -> None:
        """Raise NotAllowed for the agent of a session that other users see too."""
        if who.session:
            sources.check_alone(who, await self.owned(SessionId(who.session)))

    def guarded(self, handlers: ServiceHandlers) -> dict[type[ServiceCall[Any]], ServiceHandler]:
        """Wrap handlers: an action that names a session is handled only if the caller sees it. A session that does not
        exist is left to the handler: it may be about to be created."""

        def guard(handle: ServiceHandler) -> ServiceHandler:
            async def guarded(who: Identity, action: Any) -> Any:
                named = getattr(action, "session", "")
                if named:
                    found = await self.resolve_id(SessionId(named))
                    owned = await self.owned(found)
                    if owned is not None and not who.sees(*owned):
                        raise NotFound("session", named)
                return await handle(who, action)

            return guarded

        return {action: guard(handle) for action, handle in handlers.items()}

    async def check_owner(self, who: Identity, session: SessionId, what: str) -> None:
        owned = await self.owned(session)
        if owned is not None and not who.owns(owned[0]):
            raise NotAllowed(f"Only its owner or an admin may {what} this session.", session=session)

    # --- sharing

    async def share(self, who: Identity, command: cmd.ShareSession) -> cmd.Reply:
        if bool(command.user) == command.everybody:
            raise BadRequest("Name the user to share with, or everybody.")
        await self.check_owner(who, command.session, "share")
        session = await self._registry.get(command.session)
        name = EVERYBODY if command.everybody else command.user
        if not command.remove and not command.everybody and not self._services.is_user(name):
            raise NotFound("user", name)
        before = session.core.state.shared

        def decided(cause: str) -> ev.SessionChanged | None:
            state = session.core.state
            others = tuple(user for user in state.shared if user != name)
            shared = others if command.remove or name == state.owner else (*others, name)
            if len(shared) > MOST_SHARED:
                limit = f"at most {MOST_SHARED} users by name"
                raise BadRequest(f"A session is shared with {limit}: share it with everybody.")
            if set(shared) == set(state.shared):
                return None
            return ev.SessionChanged(id=event_id(cause, "session.changed"), shared=shared, by=who.name)

        reply = await session.change(command, decided)
        self._lost(session, session.core.state.owner, before)
        extra = {"session": command.session, "user": who.user, "with": name, "shared": not command.remove}
        logger.info("session shared", extra=extra)
        return reply

    def _lost(self, session: Session, owner: str, shared: tuple[str, ...]) -> None:
        """Make identities that no longer see the session reconnect: their open sockets passed the earlier check."""
        state = session.core.state

        def lost(who: Identity) -> bool:
            return who.sees(owner, shared) and not who.sees(state.owner, state.shared)

        self._services.sight_lost(lost)

    # --- a user goes

    async def forget(self, user: str) -> None:
        """Remove a user from all sessions: their agents stop, and their sessions stay, visible to admins only. A later
        user of the same name is a different user."""
        wanted = SessionFilter(archived=None, limit=200, transcripts=False)
        for summary in await all_sessions(self._services.store, wanted, user):
            concerned = user == summary.owner or user in summary.shared
            # The home of a session does it: every node hears of the removal.
            if concerned and not await self._registry.home(summary.session):
                await self._leave(summary.session, user)

    async def _leave(self, name: SessionId, user: str) -> None:
        session = await self._registry.get(name)
        owner, shared = session.core.state.owner, session.core.state.shared
        if owner == user:
            await session.stop_all("its user was removed")

        def decided(cause: str) -> ev.SessionChanged:
            state = session.core.state
            owner, shared = "" if state.owner == user else None, tuple(name for name in state.shared if name != user)
            return ev.SessionChanged(id=event_id(cause, "session.changed"), owner=owner, shared=shared)

        await session.change(cmd.ShareSession(session=name), decided)
        self._lost(session, owner, shared)
        logger.info("session left", extra={"session": name, "user": user})
