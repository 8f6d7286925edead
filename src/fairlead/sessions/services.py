"""The services of this room."""

from typing import Any, Final

from fairlead.model.auth import Identity
from fairlead.model.web.requests import ServiceHandlers
from fairlead.sessions.api.folders import Admin, InspectFolder, ListTrusted, TrustFolder, UntrustFolder
from fairlead.sessions.dependencies import PolicySettings
from fairlead.sessions.fanout.broadcast import Broadcasts
from fairlead.sessions.fanout.session_changes import SessionChanges
from fairlead.sessions.folders.browse import FolderBrowser
from fairlead.sessions.folders.known import KnownFolders
from fairlead.sessions.folders.trust import TrustedFolders
from fairlead.sessions.folders.workspace import WorkspaceReader
from fairlead.sessions.preferences import UserPreferences
from fairlead.sessions.read_state import ReadState
from fairlead.sessions.transcripts.importer import TranscriptImporter
from fairlead.system.services import Service, ServiceContext, ServiceFactory


def trust_handlers(admin: Admin) -> ServiceHandlers:
    """Return the handlers of the service calls on trusted folders, which use the core's `Admin` port."""

    async def listed(who: Identity, action: ListTrusted) -> Any:
        return await admin.trusted(who)

    async def inspected(who: Identity, action: InspectFolder) -> Any:
        return await admin.inspect(who, action.path)

    async def trusted(who: Identity, action: TrustFolder) -> Any:
        return await admin.trust(who, action.path, action.digest)

    async def untrusted(who: Identity, action: UntrustFolder) -> Any:
        return await admin.untrust(who, action.path)

    return {
        ListTrusted: listed,
        InspectFolder: inspected,
        TrustFolder: trusted,
        UntrustFolder: untrusted,
    }


def read_state(context: ServiceContext) -> Service:
    state = context.get(ReadState)
    return Service(
        handlers=state.performers(), stop=state.close, forget_user=state.forget, forget_credential=state.forget
    )


def preferences(context: ServiceContext) -> Service:
    kept = UserPreferences(context.store.documents)
    return Service(handlers=kept.performers(), forget_user=kept.forget, forget_credential=kept.forget)


def session_changes(context: ServiceContext) -> Service:
    changes = context.get(SessionChanges)
    broadcasts = Broadcasts(changes, context.store.summary)
    return Service(handlers={**changes.performers(), **broadcasts.performers()})


def folders(context: ServiceContext) -> Service:
    known = KnownFolders(context.store.documents, context.get(PolicySettings), context.resolve_folder)
    browser = FolderBrowser(context.roots, context.resolve_folder)
    workspace = context.get(WorkspaceReader)
    handlers = {
        **known.performers(),
        **browser.performers(),
        **workspace.performers(),
        **trust_handlers(context.get(TrustedFolders)),
    }
    return Service(handlers=handlers, forget_user=known.forget)


def transcripts(context: ServiceContext) -> Service:
    importer = context.get(TranscriptImporter)

    async def start() -> None:
        importer.start()

    return Service(handlers=importer.performers(), start=start, stop=importer.stop, stops_first=True)


SERVICES: Final[tuple[ServiceFactory, ...]] = (read_state, preferences, session_changes, folders, transcripts)
