"""The parts of a gateway that is one node among several: what the nodes have in common, and the way between them."""

import contextlib
import hashlib
import logging
import random
from importlib.metadata import version
from pathlib import Path

import msgspec

from fairlead.auth.cluster_key import ClusterKey
from fairlead.auth.credentials import Credentials
from fairlead.auth.keyfile import URLS, KeyFile
from fairlead.config import Config
from fairlead.model.gateway import Gateway
from fairlead.model.ids import SessionId
from fairlead.model.store import Alone, Documents, NodeInfo, Peers
from fairlead.server.app import App
from fairlead.server.dispatch import RemovalCleanup
from fairlead.server.websocket.tunnel import TOPIC, Tunnel, TunnelServer
from fairlead.sessions.api.read_state import SPACE as READ
from fairlead.sessions.fanout.following import LogFollower
from fairlead.sessions.nodes.routing import RoutedGateway
from fairlead.sessions.nodes.service import NodeService
from fairlead.sessions.nodes.takeover import SharedFolders, Takeover
from fairlead.stores.api import GatewayStore
from fairlead.system.clock import Clock, Timer
from fairlead.system.tasks import TaskSet
from fairlead.wiring.core import Core
from fairlead.wiring.services import JoinedServices

DESCRIBE_S = 5.0
"""Interval at which a node publishes how many agents it runs."""

log = logging.getLogger("fairlead.nodes")


def cluster_key(config: Config) -> ClusterKey | None:
    """The key of the cluster; None for a gateway alone."""
    return ClusterKey.read(Path(config.cluster_key)) if config.cluster_key else None


def make_credentials(config: Config, documents: Documents, clock: Clock, key: ClusterKey | None) -> Credentials:
    """Build the credentials, with keys from the data folder or those that all nodes derive from the cluster key."""
    data = Path(config.data)
    if key is None:
        return Credentials(documents, clock, key=KeyFile(data), url_key=KeyFile(data, URLS))
    users, urls, tickets = key.derive("users"), key.derive("urls"), key.derive("tickets")
    return Credentials(documents, clock, key=lambda: users, url_key=lambda: urls, ticket_key=lambda: tickets)


def shared_folders(config: Config, home: str | None) -> SharedFolders:
    return SharedFolders(config.shared, config.claude_home or home or "")


class Isolation:
    """A node that has lost the store for `alone_s` closes its connections: it does not hear what is revoked. 0: it
    keeps serving reads."""

    def __init__(self, peers: Peers, clock: Clock, alone_s: float, credentials: Credentials) -> None:
        self._peers = peers
        self._clock = clock
        self._alone_s = alone_s
        self._credentials = credentials
        self._timer: Timer | None = None
        self.closed = False

    def changed(self) -> None:
        if not self._peers.suspended:
            self.closed = False
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        elif self._timer is None and self._alone_s:
            self._timer = self._clock.call_later(self._alone_s, self._close)

    def _close(self) -> None:
        self.closed = True
        log.warning("connections closed: the store is away", extra={"seconds": self._alone_s})
        self._credentials.ask_to_reconnect(lambda who: True)


class CellNode:
    """`gateway` is what clients use: the core itself, or the way to the homes of all sessions."""

    def __init__(
        self,
        config: Config,
        core: Core,
        store: GatewayStore,
        credentials: Credentials,
        clock: Clock,
        home: str | None,
    ) -> None:
        self._config = config
        self._core = core
        self._store = store
        self._clock = clock
        self._credentials = credentials
        self._home = home
        self._tasks = TaskSet()
        self.gateway: Gateway = core.gateway
        self.alone = isinstance(store.peers, Alone)
        if self.alone:
            return
        self.peers: Peers = store.peers
        shared = shared_folders(config, home)
        core.registry.keeps_running = lambda folder: not shared.has(folder)
        self.takeover = Takeover(core.registry, self.peers, shared, then=config.on_takeover, random=random.random)
        self._routed = RoutedGateway(core.gateway, self.peers, self.takeover)
        self.gateway = self._routed
        self._follower = LogFollower(
            store,
            core.registry.followed,
            core.changes.notify,
            core.dependencies.sight_lost,
            core.notifications.runs.followed,
        )
        self.isolation = Isolation(self.peers, clock, config.alone_s, credentials)

    def start(self, stack: contextlib.AsyncExitStack) -> None:
        """Join the other nodes, after the sessions of this node are recovered."""
        if self.alone:
            return
        self._describe()
        self._tasks.spawn(self._describe_forever())
        stack.push_async_callback(self._tasks.close)
        self._follower.start()
        stack.push_async_callback(self._follower.stop)
        self._routed.start()
        stack.callback(self._routed.stop)
        self.takeover.start()
        stack.push_async_callback(self.takeover.stop)
        stack.callback(self.peers.on_change(self.isolation.changed))
        stack.callback(self._store.documents.listen(READ, self._on_read))

    def removal_cleanup(self, services: JoinedServices, stack: contextlib.AsyncExitStack) -> RemovalCleanup:
        """The deletion of what removed users and credentials leave, on this node."""
        core, users, peers = self._core, self._credentials.users, self._store.peers
        cleanup = RemovalCleanup(
            documents=self._store.documents,
            is_user=lambda name: users.get(name) is not None,
            revoked=(core.gateway.revoked, *services.forget_credential),
            removed=(core.gateway.ownership.forget, *services.forget_user),
            node=peers.node,
            nodes=lambda: [node.name for node in peers.nodes()],
        )
        stack.push_async_callback(cleanup.stop)
        stack.callback(cleanup.follow())
        return cleanup

    def service(self) -> NodeService:
        return NodeService(self._core.gateway, None if self.alone else self.takeover.nodes)

    def tunnel(self) -> Tunnel | None:
        """The way to sockets that other nodes serve."""
        return None if self.alone else Tunnel(self._home_of, lambda node, hello: self.peers.dial(node, TOPIC, hello))

    async def _home_of(self, session: str) -> str:
        known = await self._core.gateway.ownership.resolve_id(SessionId(session.lower()))
        return await self._core.registry.home(known)

    def serve_sockets(self, app: App, stack: contextlib.AsyncExitStack) -> None:
        """Serve the sockets of clients of other nodes."""
        if not self.alone:
            server = TunnelServer(app.protocols, app.sockets, self._credentials, version("fairlead"))
            stack.callback(self.peers.accept(TOPIC, server.serve))

    @property
    def closed(self) -> bool:
        """Whether this node takes no connections."""
        return not self.alone and self.isolation.closed

    def _on_read(self, session: str, value: object) -> None:
        self._core.changes.notify(SessionId(session), "read")

    async def _describe_forever(self) -> None:
        while True:
            await self._clock.sleep(DESCRIBE_S)
            self._describe()

    def _describe(self) -> None:
        config, core = self._config, self._core
        self.takeover.remember()
        policy = msgspec.json.encode((config.allow, config.deny, config.ask, config.allow_bypass))
        running = sum(session.supervisor.agent is not None for session in core.registry.all_loaded())
        shared = shared_folders(config, self._home)
        self.peers.describe(
            NodeInfo(
                version=version("fairlead"),
                url=config.public_url,
                roots=core.policy.roots,
                shared=shared.folders,
                home=shared.home,
                agents=running,
                max_agents=core.dependencies.limits.max_agents,
                policy=hashlib.sha256(policy).hexdigest()[:16],
            )
        )
