"""Handlers of clients' requests about transcripts: import one, announce one, and consent to the archive.

Rule: paths from the wire resolve inside the agent's homes (for an import also inside the roots) or are rejected here.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from fairlead.model.auth import Identity
from fairlead.model.errors import BadRequest, OutsideRoots
from fairlead.model.ids import SessionId, session_id
from fairlead.model.store import Summary
from fairlead.model.web.requests import ServiceCall
from fairlead.sessions.api.transcripts import (
    Announced,
    AnnounceSession,
    ArchiveTranscripts,
    ArchiveView,
    Imported,
    ImportTranscript,
)
from fairlead.sessions.dependencies import PolicySettings
from fairlead.sessions.permissions.policy.paths import inside_any
from fairlead.sessions.transcripts.archive import TranscriptArchive


class ImportHost(Protocol):
    """The part of `TranscriptImporter` that these handlers use."""

    async def import_session(self, session: SessionId | None, path: str = "") -> Imported: ...
    async def changed(self, session: SessionId) -> None: ...
    async def summary(self, session: SessionId) -> Summary | None:
        """The summary of the session that the agent knows by this id."""
        ...


class TranscriptActions:
    def __init__(
        self, policy: PolicySettings, folders: Sequence[str], keeper: ImportHost, archive: TranscriptArchive
    ) -> None:
        self._policy = policy
        self._folders = tuple(folders)
        self._keeper = keeper
        self._archive = archive

    def performers(self) -> dict[type[ServiceCall], Callable[[Identity, Any], Awaitable[Any]]]:
        return {
            ImportTranscript: self.import_transcript,
            ArchiveTranscripts: self.ask_archive,
            AnnounceSession: self.announced,
        }

    async def import_transcript(self, who: Identity, action: ImportTranscript) -> Imported:
        if bool(action.session) == bool(action.path):
            raise BadRequest("Say what to import: a session or the path of a file.")
        if action.session:
            return await self._keeper.import_session(session_id(action.session))
        return await self._keeper.import_session(None, self._inside(action.path, *self._policy.roots))

    async def announced(self, who: Identity, action: AnnounceSession) -> Announced:
        """Read an announced file now, before the watcher reports it, or where there is no watcher."""
        session = session_id(action.session)
        if self._inside(action.path).rpartition("/")[2].partition(".")[0] != session:
            raise BadRequest("The file is not that of the session.", session=session)
        await self._keeper.changed(session)
        summary = await self._keeper.summary(session)
        listed = summary is not None and not summary.deleted
        return Announced(session=session if summary is None else summary.session, listed=listed)

    async def ask_archive(self, who: Identity, action: ArchiveTranscripts) -> ArchiveView:
        if action.on is not None:
            await self._archive.agree(action.on)
        return await self._archive.view()

    def _inside(self, path: str, *roots: str) -> str:
        """Resolve a path from the wire inside the agent's homes or these roots. Raises BadRequest, OutsideRoots."""
        if "\0" in path or not path.startswith("/"):
            raise BadRequest(f"{path[:80]!r} is not an absolute path.")
        allowed = (*roots, *self._folders)
        real = self._policy.resolve(path)
        if not inside_any(real, [self._policy.resolve(folder) for folder in allowed]):
            raise OutsideRoots(path, allowed)
        return real
