"""Whose sessions are whose, at work: who may see one, with whom it is shared, and what happens when a user goes.

The rule itself is `model.auth.Identity.sees`. Everything that a client asks of a session passes `Owning.seen` once:
here, and in no protocol. To who may not see a session it is as one that never was.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.auth import EVERYBODY, OWNER, Identity
from fairlead.model.errors import BadRequest, NotAllowed, NotFound
from fairlead.model.ids import SessionId, event_id
from fairlead.model.requests import ServiceCall
from fairlead.model.store import SessionFilter
from fairlead.sessions.dependencies import CoreDependencies
from fairlead.sessions.registry import Registry
from fairlead.sessions.session import Session

MOST_SHARED = 100
"""Users with whom one session is shared by name."""

logger = logging.getLogger("fairlead.session")

Performer = Callable[[Identity, Any], Awaitable[Any]]


class SessionOwnership:
    def __init__(self, services: CoreDependencies, registry: Registry) -> None:
        self._services = services
        self._registry = registry

    # --- seeing

    async def ours(self, session: SessionId) -> SessionId:
        """A session may be called by its agent's own id of it, where that is another; it answers by ours."""
        store = self._services.store
        if self._registry.loaded(session) is not None or await store.summary(session) is not None:
            return session
        return await store.session_of(session) or session

    async def owned(self, session: SessionId) -> tuple[str, tuple[str, ...]] | None:
        """The owner and with whom it is shared; None for one that is not there."""
        loaded = self._registry.loaded(session)
        if loaded is not None:
            return loaded.core.state.owner, loaded.core.state.shared
        summary = await self._services.store.summary(session)
        return None if summary is None else (summary.owner, summary.shared)

    async def sees(self, who: Identity, session: SessionId) -> bool:
        owned = await self.owned(session)
        return owned is not None and who.sees(*owned)

    async def seen(self, who: Identity, session: SessionId) -> SessionId:
        """Our id of it. NotFound for one that is not there, and the same for one that this one may not see."""
        found = await self.ours(session)
        if not await self.sees(who, found):
            raise NotFound("session", session)
        return found

    async def check_resumed(self, who: Identity, agent_session: str) -> None:
        """A conversation that is known here is its session's; any other is a file of the machine's owner."""
        found = await self.ours(SessionId(agent_session))
        owned = await self.owned(found) or (OWNER, ())
        if not who.sees(*owned):
            raise NotFound("session", agent_session)

    def guarded(self, performers: Mapping[type[ServiceCall], Performer]) -> dict[type[ServiceCall], Performer]:
        """The same, for actions that name a session only if the one who asks sees it. One that is not there is left to
        the performer: it may be about to come."""

        def guard(perform: Performer) -> Performer:
            async def guarded(who: Identity, action: Any) -> Any:
                named = getattr(action, "session", "")
                if named:
                    found = await self.ours(SessionId(named))
                    owned = await self.owned(found)
                    if owned is not None and not who.sees(*owned):
                        raise NotFound("session", named)
                return await perform(who, action)

            return guarded

        return {action: guard(perform) for action, perform in performers.items()}

    async def check_owner(self, who: Identity, session: SessionId, what: str) -> None:
        owned = await self.owned(session)
        if owned is not None and not who.owns(owned[0]):
            raise NotAllowed(f"Only its owner or an admin may {what} this session.", session=session)

    # --- sharing

    async def share(self, who: Identity, command: cmd.ShareSession) -> cmd.Reply:
        if bool(command.user) == command.everybody:
            raise BadRequest("Say with whom to share: a user or everybody.")
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
                raise BadRequest(
                    f"A session is shared with at most {MOST_SHARED} users by name: share it with everybody."
                )
            if shared == state.shared or (set(shared) == set(state.shared)):
                return None
            return ev.SessionChanged(id=event_id(cause, "session.changed"), shared=shared, by=who.name)

        reply = await session.change(command, decided)
        self._lost(session, session.core.state.owner, before)
        extra = {"session": command.session, "user": who.user, "with": name, "shared": not command.remove}
        logger.info("session shared", extra=extra)
        return reply

    def _lost(self, session: Session, owner: str, shared: tuple[str, ...]) -> None:
        """Whoever saw it and does not any more has to come again: what is open was opened before."""
        state = session.core.state

        def lost(who: Identity) -> bool:
            return who.sees(owner, shared) and not who.sees(state.owner, state.shared)

        self._services.sight_lost(lost)

    # --- a user goes

    async def forget(self, user: str) -> None:
        """The user is no more: nothing runs for them, what they made stays and is the admins' alone, and the next user
        of that name is somebody else."""
        before = ""
        while True:
            wanted = SessionFilter(archived=None, before=before, limit=200, transcripts=False)
            page = await self._services.store.sessions(wanted, user)
            for summary in page.sessions:
                if user == summary.owner or user in summary.shared:
                    await self._leave(summary.session, user)
            if not page.next:
                return
            before = page.next

    async def _leave(self, name: SessionId, user: str) -> None:
        session = await self._registry.get(name)
        owner, shared = session.core.state.owner, session.core.state.shared
        if owner == user:
            await session.stop_all("its user was removed")

        def decided(cause: str) -> ev.SessionChanged:
            state = session.core.state
            return ev.SessionChanged(
                id=event_id(cause, "session.changed"),
                owner="" if state.owner == user else None,
                shared=tuple(other for other in state.shared if other != user),
            )

        await session.change(cmd.ShareSession(session=name), decided)
        self._lost(session, owner, shared)
        logger.info("session left", extra={"session": name, "user": user})
