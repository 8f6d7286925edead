"""Archives other programs' sessions before their agent's own cleanup deletes them: by consent, and up to a limit of
bytes. The newest are kept; when there is no more room, the oldest are evicted first.

Rule: only sessions that the archive itself imported are ever evicted. A session that a user has continued here is no
longer the archive's.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol

import msgspec

from fairlead.model.errors import FairleadError
from fairlead.model.ids import SessionId
from fairlead.model.store import TRANSCRIPT, Batch, SessionFilter, Summary
from fairlead.sessions.api.transcripts import ArchiveView, Imported
from fairlead.sessions.dependencies import CoreDependencies

logger = logging.getLogger("fairlead.transcripts")

CONSENT: Final = "consent"
"""Documents with the user's consents."""
ARCHIVE: Final = "archive"
"""The document with the archive's state; also the name of the consent."""
EVERY_S: Final = 6 * 3600.0


class ArchiveState(msgspec.Struct):
    """The file size of each session that the archive imported, and the limit of their sum."""

    limit: int = 0
    sessions: dict[str, int] = {}

    @property
    def size(self) -> int:
        return sum(self.sessions.values())


class ArchiveHost(Protocol):
    """The part of `TranscriptImporter` that the archive uses."""

    async def import_session(self, session: SessionId) -> Imported: ...
    async def unload(self, session: SessionId) -> None:
        """Unload the session, even if clients have it open, and delete its spilled files."""
        ...

    def size_of(self, session: SessionId) -> int: ...
    async def file_exists(self, session: SessionId) -> bool:
        """Whether the session's file exists."""
        ...


class TranscriptArchive:
    def __init__(
        self,
        services: CoreDependencies,
        house: ArchiveHost,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        *,
        on: bool,
        limit: int,
    ) -> None:
        self._services = services
        self._house = house
        self._spawn = spawn
        self._on = on
        self._limit = limit

    async def consent(self) -> bool | None:
        """Whether sessions may be copied before the agent's own cleanup deletes them; None: the user was not asked."""
        if self._on:
            return True
        kept = await self._services.store.documents.get(CONSENT, ARCHIVE)
        return None if kept is None else bool(kept)

    async def agree(self, on: bool) -> None:
        await self._services.store.documents.put(CONSENT, ARCHIVE, on)
        if on:
            self._spawn(self.round())

    async def view(self) -> ArchiveView:
        books = await self._books()
        return ArchiveView(on=await self.consent(), sessions=len(books.sessions), bytes=books.size, limit=self._limit)

    async def forever(self, ready: Awaitable[Any]) -> None:
        await ready
        while True:
            if await self.consent():
                await self.round()
            await self._services.clock.sleep(EVERY_S)

    async def round(self) -> None:
        """Import the newest sessions that fit, each into its log; evict those that no longer fit."""
        books = await self._books()
        books.limit, room = self._limit, self._limit
        listed = {summary.session: summary for summary in await self._listed()}
        kept = {summary.session: summary for summary in await self._kept(books)}
        books.sessions = {session: size for session, size in books.sessions.items() if session in kept}
        everything = sorted((*listed.values(), *kept.values()), key=lambda summary: summary.updated, reverse=True)
        gone = 0
        for summary in everything:
            session = summary.session
            size = books.sessions.get(session) or self._house.size_of(session)
            if not size:
                continue  # its file was not read: it is gone, or will be read by the next round
            if size <= room:
                room -= size
                if session in listed and await self._take(session):
                    books.sessions[session] = size
                    await self._keep(books)
            elif session in kept and await self._let_go(summary):
                del books.sessions[session]
                gone += 1
        await self._keep(books)
        if gone:
            logger.warning("archive is full", extra={"let_go": gone, "limit": self._limit, "bytes": books.size})

    # --- inside

    async def _books(self) -> ArchiveState:
        kept = await self._services.store.documents.get(ARCHIVE, ARCHIVE)
        return ArchiveState() if kept is None else msgspec.convert(kept, ArchiveState)

    async def _keep(self, books: ArchiveState) -> None:
        await self._services.store.documents.put(ARCHIVE, ARCHIVE, msgspec.to_builtins(books))

    async def _listed(self) -> list[Summary]:
        found: list[Summary] = []
        before = ""
        while True:
            wanted = SessionFilter(state=TRANSCRIPT, archived=None, before=before, limit=200)
            page = await self._services.store.sessions(wanted)
            found.extend(page.sessions)
            if not page.next:
                return found
            before = page.next

    async def _kept(self, books: ArchiveState) -> list[Summary]:
        """Sessions that are still the archive's: not deleted meanwhile, and never continued by an agent here."""
        found = []
        for name in books.sessions:
            summary = await self._services.store.summary(SessionId(name))
            if summary is None or summary.deleted or summary.state == TRANSCRIPT:
                continue
            used = await self._services.store.tail(summary.session, None, 1, ("agent.started", "message.queued"))
            if not used.entries:
                found.append(summary)
        return found

    async def _take(self, session: SessionId) -> bool:
        try:
            await self._house.import_session(session)
        except FairleadError as error:
            logger.warning("cannot archive", extra={"session": session, "error": error.message})
            return False
        return True

    async def _let_go(self, summary: Summary) -> bool:
        """Restore a session's state from before it was archived: listed if its file exists, else gone."""
        session, store = summary.session, self._services.store
        try:
            await self._house.unload(session)
            await store.erase(session)
            if await self._house.file_exists(session):
                lease, _, head = await store.claim(session)
                again = msgspec.structs.replace(summary, state=TRANSCRIPT)
                await store.append(lease, Batch(entries=(), summary=again), head)
                await store.release(lease)
        except FairleadError as error:
            logger.warning("cannot let go of", extra={"session": session, "error": error.message})
            return False
        return True
