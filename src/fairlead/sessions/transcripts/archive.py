"""Archives other programs' sessions before their agent's own cleanup deletes them: by consent, and up to a limit of
bytes. The newest are kept; when there is no more room, the oldest are evicted first.

Rule: only sessions that the archive itself imported are ever evicted. A session that a user has continued here is no
longer the archive's.
"""

import logging
from typing import Final

import msgspec

from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError
from fairlead.model.ids import SessionId
from fairlead.model.store import TRANSCRIPT, Batch, SessionFilter, Summary
from fairlead.model.web.requests import ServiceHandlers
from fairlead.sessions.api.transcripts import ArchiveTranscripts, ArchiveView
from fairlead.sessions.dependencies import CoreDependencies
from fairlead.sessions.paging import all_sessions
from fairlead.sessions.transcripts.importer import TranscriptImporter

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


class TranscriptArchive:
    def __init__(self, services: CoreDependencies, importer: TranscriptImporter, *, on: bool, limit: int) -> None:
        self._services = services
        self._importer = importer
        self._on = on
        self._limit = limit

    def start(self) -> None:
        self._importer.tasks.spawn(self._run())

    async def consent(self) -> bool | None:
        """Whether sessions may be copied before the agent's own cleanup deletes them; None: the user was not asked."""
        if self._on:
            return True
        kept = await self._services.store.documents.get(CONSENT, ARCHIVE)
        return None if kept is None else bool(kept)

    def handlers(self) -> ServiceHandlers:
        return {ArchiveTranscripts: self._ask}

    async def _ask(self, who: Identity, action: ArchiveTranscripts) -> ArchiveView:
        if action.on is not None:
            await self._services.store.documents.put(CONSENT, ARCHIVE, action.on)
        if action.on:
            self._importer.tasks.spawn(self.round())
        return await self.view()

    async def view(self) -> ArchiveView:
        state = await self._load()
        return ArchiveView(on=await self.consent(), sessions=len(state.sessions), bytes=state.size, limit=self._limit)

    async def _run(self) -> None:
        await self._importer.watching.wait()
        while True:
            if await self.consent():
                await self.round()
            await self._services.clock.sleep(EVERY_S)

    async def round(self) -> None:
        """Import the newest sessions that fit, each into its log; evict those that no longer fit."""
        state = await self._load()
        state.limit, room = self._limit, self._limit
        wanted = SessionFilter(state=TRANSCRIPT, archived=None, limit=200)
        listed = {summary.session: summary for summary in await all_sessions(self._services.store, wanted)}
        kept = {summary.session: summary for summary in await self._archived(state)}
        state.sessions = {session: size for session, size in state.sessions.items() if session in kept}
        everything = sorted((*listed.values(), *kept.values()), key=lambda summary: summary.updated, reverse=True)
        evicted = 0
        for summary in everything:
            session = summary.session
            size = state.sessions.get(session) or self._importer.listing.size_of(session)
            if not size:
                continue  # its file was not read: it is gone, or will be read by the next round
            try:
                if size <= room:
                    room -= size
                    if session in listed:
                        await self._importer.import_session(session)
                        state.sessions[session] = size
                        await self._save(state)
                elif session in kept:
                    await self._evict(summary)
                    del state.sessions[session]
                    evicted += 1
            except FairleadError as error:
                logger.warning("cannot archive or evict a session", extra={"session": session, "error": error.message})
        await self._save(state)
        if evicted:
            logger.warning("archive is full", extra={"evicted": evicted, "limit": self._limit, "bytes": state.size})

    # --- inside

    async def _load(self) -> ArchiveState:
        kept = await self._services.store.here.get(ARCHIVE, ARCHIVE)
        return ArchiveState() if kept is None else msgspec.convert(kept, ArchiveState)

    async def _save(self, state: ArchiveState) -> None:
        await self._services.store.here.put(ARCHIVE, ARCHIVE, msgspec.to_builtins(state))

    async def _archived(self, state: ArchiveState) -> list[Summary]:
        """Sessions that are still the archive's: not deleted meanwhile, and never continued by an agent here."""
        found = []
        for name in state.sessions:
            summary = await self._services.store.summary(SessionId(name))
            if summary is None or summary.deleted or summary.state == TRANSCRIPT:
                continue
            used = await self._services.store.tail(summary.session, None, 1, ("agent.started", "message.queued"))
            if not used.entries:
                found.append(summary)
        return found

    async def _evict(self, summary: Summary) -> None:
        """Restore a session's state from before it was archived: listed if its file exists, else gone."""
        session, store = summary.session, self._services.store
        await self._importer.unload(session)
        await store.erase(session)
        if await self._importer.source.look(session) is not None:
            lease, _, head = await store.claim(session)
            again = msgspec.structs.replace(summary, state=TRANSCRIPT)
            await store.append(lease, Batch(entries=(), summary=again), head)
            await store.release(lease)
