"""Read state: how many turns of a session each user was shown. The number only grows; the log does not depend on it.

A turn counts as read by the users with a live subscription when it ends, or when that subscription closes. A client may
also mark it (`MarkRead`).
"""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError
from fairlead.model.ids import SessionId
from fairlead.model.store import Documents
from fairlead.model.web.requests import ServiceHandlers
from fairlead.model.web.session_changes import What
from fairlead.sessions.api.read_state import SPACE, GetReadState, MarkRead, TurnsRead
from fairlead.system.tasks import TaskSet

log = logging.getLogger("fairlead.read_state")


@dataclass(eq=False, repr=False)
class ReadState:
    """One document per session, with the turns by user; it is deleted with the session.

    `_watching`: the identities with a live subscription to a session."""

    _documents: Documents
    _notify: Callable[[SessionId, What], None]
    _watching: Callable[[SessionId], Collection[Identity]]
    tasks: TaskSet = field(default_factory=TaskSet)

    def handlers(self) -> ServiceHandlers:
        return {MarkRead: self._mark, GetReadState: self._read}

    def mark_read(self, session: SessionId, who: Collection[Identity], turns: int) -> None:
        """Record that these identities were shown `turns` turns of the session. Returns at once."""
        readers = {reader_of(one) for one in who}
        if readers:
            self.tasks.spawn(self._looked(session, readers, turns))

    async def _looked(self, session: SessionId, readers: Collection[str], turns: int) -> None:
        try:
            await self._note(session, readers, turns)
        except FairleadError as error:
            # The turns stay unread: nothing depends on it.
            log.warning("cannot store a read state", extra={"session": session, "error": error.message})

    async def _mark(self, who: Identity, action: MarkRead) -> None:
        await self._note(action.session, (reader_of(who),), action.turns)

    async def _note(self, session: SessionId, readers: Collection[str], turns: int) -> None:
        while True:
            found = await self._documents.get(SPACE, session)
            kept = found or {}
            new = {reader: turns for reader in readers if kept.get(reader, -1) < turns}
            if not new:
                return
            if await self._documents.swap(SPACE, session, {**kept, **new}, found):
                break
        self._notify(session, "read")

    async def forget(self, reader: str) -> None:
        """Delete the read state of a removed user, or of a revoked credential without a user."""
        for session, turns in (await self._documents.list(SPACE)).items():
            while turns is not None and reader in turns:
                left = {other: number for other, number in turns.items() if other != reader}
                if await self._documents.swap(SPACE, session, left, turns):
                    break
                turns = await self._documents.get(SPACE, session)

    async def _read(self, who: Identity, action: GetReadState) -> TurnsRead:
        reader = reader_of(who)
        found: dict[str, int] = {}
        watched: set[str] = set()
        for session in action.sessions:
            turns = await self._documents.get(SPACE, session) or {}
            if reader in turns:
                found[session] = turns[reader]
            if any(reader_of(one) == reader for one in self._watching(session)):
                watched.add(session)
        return TurnsRead(found, frozenset(watched))


def reader_of(who: Identity) -> str:
    """The key of a read state: the user, on all devices; for a credential without a user, the credential."""
    return who.user or who.credential
