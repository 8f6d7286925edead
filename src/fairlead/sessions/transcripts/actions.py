"""Handlers of clients' requests about transcripts: import one, announce one, and consent to the archive.

Rule: paths from the wire resolve inside the agent's homes (for an import also inside the roots) or are rejected here.
"""

from fairlead.model.auth import Identity
from fairlead.model.errors import BadRequest, OutsideRoots
from fairlead.model.ids import session_id
from fairlead.model.web.requests import ServiceHandlers
from fairlead.sessions.api import transcripts as api
from fairlead.sessions.dependencies import CoreDependencies
from fairlead.sessions.permissions.policy.paths import inside_any
from fairlead.sessions.transcripts.archive import TranscriptArchive
from fairlead.sessions.transcripts.importer import TranscriptImporter


class TranscriptActions:
    def __init__(self, services: CoreDependencies, importer: TranscriptImporter, archive: TranscriptArchive) -> None:
        self._policy = services.policy
        self._store = services.store
        self._importer = importer
        self._archive = archive

    def handlers(self) -> ServiceHandlers:
        return {
            api.ImportTranscript: self.import_transcript,
            api.ArchiveTranscripts: self.ask_archive,
            api.AnnounceSession: self.announced,
        }

    async def import_transcript(self, who: Identity, action: api.ImportTranscript) -> api.Imported:
        if bool(action.session) == bool(action.path):
            raise BadRequest("Say what to import: a session or the path of a file.")
        if action.session:
            return await self._importer.import_session(session_id(action.session))
        return await self._importer.import_session(None, self._inside(action.path, *self._policy.roots))

    async def announced(self, who: Identity, action: api.AnnounceSession) -> api.Announced:
        """Read an announced file now, before the watcher reports it, or where there is no watcher."""
        session = session_id(action.session)
        if self._inside(action.path).rpartition("/")[2].partition(".")[0] != session:
            raise BadRequest("The file is not that of the session.", session=session)
        await self._importer.changed(session)
        # The agent may know one of our sessions by this id.
        summary = await self._store.summary(await self._store.session_of(session) or session)
        listed = summary is not None and not summary.deleted
        return api.Announced(session=session if summary is None else summary.session, listed=listed)

    async def ask_archive(self, who: Identity, action: api.ArchiveTranscripts) -> api.ArchiveView:
        if action.on is not None:
            await self._archive.agree(action.on)
        return await self._archive.view()

    def _inside(self, path: str, *roots: str) -> str:
        """Resolve a path from the wire inside the agent's homes or these roots. Raises BadRequest, OutsideRoots."""
        if "\0" in path or not path.startswith("/"):
            raise BadRequest(f"{path[:80]!r} is not an absolute path.")
        allowed = (*roots, *self._importer.source.folders)
        real = self._policy.resolve(path)
        if not inside_any(real, [self._policy.resolve(folder) for folder in allowed]):
            raise OutsideRoots(path, allowed)
        return real
