"""The session core and the parts that it notifies, which know each other."""

import contextlib
import logging
import os
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from fairlead.agents.context import PrivateFiles
from fairlead.audit.gateway import AuditedGateway
from fairlead.audit.log import AuditLog
from fairlead.auth.credentials import Credentials
from fairlead.config import Config
from fairlead.model.agents import AgentKind
from fairlead.model.events import Event
from fairlead.model.gateway import Gateway
from fairlead.model.ids import SessionId
from fairlead.model.transcripts import Transcripts, TranscriptTexts
from fairlead.model.web.routes import ClientProtocol
from fairlead.model.web.session_changes import What
from fairlead.monitoring.counters import Counters, MeteredGateway
from fairlead.notifications.address_policy import networks
from fairlead.notifications.http_client import HttpClient
from fairlead.notifications.service import NotificationService
from fairlead.review.private_repository import GitAccess
from fairlead.review.snapshots import FOLDER as REVIEW
from fairlead.review.snapshots import Snapshots
from fairlead.review.worktrees import SCRATCH, Worktrees
from fairlead.server.discovery import projections_of
from fairlead.sessions.api.folders import FolderReport
from fairlead.sessions.dependencies import CoreDependencies, McpServerSettings, PolicySettings, SessionLimits
from fairlead.sessions.fanout.session_changes import SessionChanges
from fairlead.sessions.folders.trust import TrustedFolders
from fairlead.sessions.gateway import SessionGateway
from fairlead.sessions.permissions import disk
from fairlead.sessions.permissions.policy.call import Fences
from fairlead.sessions.permissions.policy.paths import inside_any
from fairlead.sessions.read_state import ReadState
from fairlead.sessions.registry import Registry
from fairlead.sessions.transcripts.archive import TranscriptArchive
from fairlead.sessions.transcripts.importer import TranscriptImporter
from fairlead.stores.api import GatewayStore
from fairlead.stores.transcript_texts import SqliteTranscriptTexts
from fairlead.system.clock import Clock
from fairlead.system.readable_paths import ReadablePaths
from fairlead.wiring.agents import (
    agents_by_memory,
    own_files,
    restore_agent_access,
    save_agent_access,
    session_agent_env,
)
from fairlead.wiring.settings import rules_of

log = logging.getLogger("fairlead")


class Core:
    """`owner`: the identity of the data folder, which marks the processes that belong to this gateway. `address`: where
    agents on this machine reach the gateway. `secrets_key`: see `NotificationService`. `gateway`: the gateway that
    clients use, which reaches the sessions of all nodes."""

    def __init__(
        self,
        config: Config,
        *,
        home: str | None,
        store: GatewayStore,
        clock: Clock,
        credentials: Credentials,
        protocols: Sequence[ClientProtocol],
        kinds: Mapping[str, AgentKind],
        default_agent: str,
        fences: Fences,
        transcripts: Transcripts,
        transcript_texts: TranscriptTexts | None,
        mcp: Mapping[str, McpServerSettings],
        owner: str,
        describe_folder: Callable[[str], FolderReport],
        address: str,
        private: PrivateFiles,
        git: GitAccess,
        audit: AuditLog,
        counters: Counters,
        secrets_key: bytes,
    ) -> None:
        self.policy = PolicySettings(
            roots=tuple(os.path.realpath(root) for root in config.roots),
            resolve=disk.resolve,
            rules=rules_of(config),
            fences=fences,
            agent_files=own_files(kinds),
            home=home,
            allow_bypass=config.allow_bypass,
        )
        self.credentials = credentials
        closed = (*fences.folders, *private.folders)
        self.paths = ReadablePaths(self.policy.roots, closed, private.settings)
        self.snapshots = Snapshots(Path(config.data) / REVIEW, self.paths.find_repository, git, clock)
        self.worktrees = Worktrees(self.paths, git, Path(config.data) / SCRATCH)
        self._session_agents = credentials.session_agents
        self.changes = SessionChanges(clock, lambda who, session: self.gateway.ownership.sees(who, session))
        self.notifications = NotificationService(
            store.resources,
            store.documents,
            lambda: self.port,
            Path(config.data),
            clock,
            fresh=lambda: str(uuid.uuid4()),
            describe=_describe_session(store),
            who_is=credentials.identity,
            caller=HttpClient(clock, networks(config.notify_private)),
            public_url=config.public_url,
            secrets_key=secrets_key,
            peers=store.peers,
        )
        self.read_state = ReadState(
            store.documents, self.changes.notify, lambda session: self.registry.watching(session)
        )
        self.dependencies = CoreDependencies(
            store=store,
            clock=clock,
            kinds=kinds,
            default_agent=default_agent,
            policy=self.policy,
            new_uuid=lambda: str(uuid.uuid4()),
            trusted=lambda folder: self.trusted_folders.is_trusted(folder),
            make_room=lambda session: self.registry.make_room(session),
            is_folder=os.path.isdir,
            agent_ended=self._agent_ended,
            agent_env=session_agent_env(config, credentials.session_agents, address),
            save_access=save_agent_access(credentials),
            restore_access=restore_agent_access(config, credentials),
            open_worktree=self.worktrees.open,
            before_turn=self.snapshots.before_turn,
            turn_ended=lambda session: self.importer.turn_ended(session),
            transcripts=transcripts,
            transcript_texts=transcript_texts,
            limits=SessionLimits(
                idle_s=config.idle_minutes * 60,
                max_agents=config.max_agents or agents_by_memory(),
                watcher_buffer=config.watcher_bytes,
                transcript_index_bytes=config.transcript_index_bytes,
            ),
            mcp=mcp,
            mcp_configs={name: msgspec.to_builtins(server) for name, server in config.mcp.items()},
            session_env=frozenset(config.session_env),
            views=projections_of(protocols),
            owner=owner,
            on_change=self._notify,
            committed=self._committed,
            is_user=lambda name: credentials.users.get(name) is not None,
            sight_lost=credentials.ask_to_reconnect,
            on_read=self.read_state.mark_read,
        )
        self.registry = Registry(self.dependencies)
        self.importer = TranscriptImporter(self.dependencies, transcripts, self.registry)
        self.archive = TranscriptArchive(
            self.dependencies, self.importer, on=config.archive, limit=config.archive_bytes
        )
        self.registry.opener = self.importer
        self.gateway = SessionGateway(self.dependencies, self.registry)
        self._audit, self._counters = audit, counters
        self.publish(self.gateway)
        resolve, shared = self.gateway.resolve_folder, config.shared
        self.trusted_folders = TrustedFolders(
            store.here,
            clock,
            describe_folder,
            resolve,
            store.documents,
            lambda folder: inside_any(folder, shared),
            self.worktrees.main_folder,
        )

    def publish(self, gateway: Gateway) -> None:
        """Let servers and services use this gateway: what they do is recorded and counted."""
        audited = AuditedGateway(gateway, self._audit, self.dependencies.new_uuid)
        self.port = MeteredGateway(audited, self._counters, self.dependencies.clock.monotonic)

    def _agent_ended(self, session: SessionId) -> None:
        self._session_agents.revoke(session)
        self.importer.agent_ended(session)

    def _committed(self, session: SessionId, events: Sequence[Event]) -> None:
        self._counters.committed(session, events)
        self.notifications.committed(session, events)
        self.snapshots.committed(session, events)

    def _notify(self, session: SessionId, what: What) -> None:
        self.changes.notify(session, what)
        self.notifications.session_changed(session, what)
        if what == "deleted":
            self.importer.forget_texts(session)
            self.snapshots.deleted(session)


async def open_transcript_texts(config: Config, stack: contextlib.AsyncExitStack) -> SqliteTranscriptTexts | None:
    """Open the search index of transcripts; None if the settings switch it off."""
    if not config.transcript_index_bytes:
        return None
    texts = await SqliteTranscriptTexts.open(Path(config.data))
    stack.push_async_callback(texts.close)
    return texts


def _describe_session(store: GatewayStore) -> Callable[[SessionId], Awaitable[tuple[str, tuple[str, ...]]]]:
    async def describe(session: SessionId) -> tuple[str, tuple[str, ...]]:
        summary = await store.summary(session)
        if summary is None:
            return "", ()
        return summary.title, tuple(filter(None, (summary.owner, *summary.shared)))

    return describe


async def warn_about_shared_sessions(store: GatewayStore) -> None:
    """Warn once, after a migration of the data folder to sessions that belong to users."""
    sessions = await store.documents.get("notes", "sessions-shared")
    if sessions is not None:
        log.warning(
            "Sessions belong to the users who made them from now on. The %d sessions that were here before are shared"
            " with everybody; fairlead share SESSION --everybody --remove takes one back.",
            sessions,
        )
        await store.documents.delete("notes", "sessions-shared")
