"""The services of this room."""

from typing import Final

from fairlead.sessions.dependencies import PolicySettings
from fairlead.sessions.fanout.broadcast import Broadcasts
from fairlead.sessions.fanout.session_changes import SessionChanges
from fairlead.sessions.folders.known import KnownFolders
from fairlead.sessions.folders.trust import TrustedFolders
from fairlead.sessions.folders.workspace import WorkspaceReader
from fairlead.sessions.preferences import UserPreferences
from fairlead.sessions.read_state import ReadState
from fairlead.sessions.transcripts.archive import TranscriptArchive
from fairlead.sessions.transcripts.importer import TranscriptImporter
from fairlead.system.services import Service, ServiceContext, ServiceFactory


def read_state(context: ServiceContext) -> Service:
    state = context.get(ReadState)
    forget = state.forget
    return Service(handlers=state.handlers(), stop=state.tasks.wait, forget_user=forget, forget_credential=forget)


def preferences(context: ServiceContext) -> Service:
    kept = UserPreferences(context.store.documents)
    return Service(handlers=kept.handlers(), forget_user=kept.forget, forget_credential=kept.forget)


def session_changes(context: ServiceContext) -> Service:
    changes = context.get(SessionChanges)
    broadcasts = Broadcasts(changes, context.store.summary)
    return Service(handlers={**changes.handlers(), **broadcasts.handlers()})


def folders(context: ServiceContext) -> Service:
    known = KnownFolders(context.store.here, context.get(PolicySettings), context.resolve_folder)
    workspace, trusted = context.get(WorkspaceReader), context.get(TrustedFolders)
    handlers = {**known.handlers(), **workspace.handlers(), **trusted.handlers()}
    return Service(handlers=handlers, forget_user=known.forget)


def transcripts(context: ServiceContext) -> Service:
    importer, archive = context.get(TranscriptImporter), context.get(TranscriptArchive)

    async def start() -> None:
        importer.start()
        archive.start()

    handlers = {**importer.handlers(), **archive.handlers()}
    return Service(handlers=handlers, start=start, stop=importer.stop, stops_first=True)


SERVICES: Final[tuple[ServiceFactory, ...]] = (read_state, preferences, session_changes, folders, transcripts)
