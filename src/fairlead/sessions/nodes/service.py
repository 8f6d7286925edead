"""Handlers of the service calls on nodes."""

import logging
from collections.abc import Callable, Sequence

from fairlead.model.auth import Identity
from fairlead.model.commands import Reply
from fairlead.model.errors import Busy, NotAllowed, NotFound
from fairlead.model.store import Alone, Node
from fairlead.model.web.requests import ServiceHandlers
from fairlead.sessions.api.nodes import AdoptSession, ListNodes, NodeView
from fairlead.sessions.gateway import SessionGateway
from fairlead.sessions.nodes.takeover import AWAY

logger = logging.getLogger("fairlead.nodes")


class NodeService:
    """`nodes` returns all nodes, also those that have stopped; None: those that the store knows."""

    def __init__(self, gateway: SessionGateway, nodes: Callable[[], Sequence[Node]] | None = None) -> None:
        self._gateway = gateway
        self._store = gateway.store
        self._nodes = nodes or gateway.store.peers.nodes

    def handlers(self) -> ServiceHandlers:
        return {ListNodes: self.list, AdoptSession: self.adopt}

    async def list(self, who: Identity, action: ListNodes) -> tuple[NodeView, ...]:
        peers = self._store.peers
        return tuple(
            NodeView(
                name=node.name,
                here=node.name == peers.node,
                alive=node.name == peers.node or node.alive,
                since=node.since,
                suspended=node.name == peers.node and peers.suspended,
                version=node.info.version,
                url=node.info.url,
                roots=node.info.roots,
                shared=node.info.shared,
                agents=node.info.agents,
                max_agents=node.info.max_agents,
                policy=node.info.policy,
            )
            for node in self._nodes()
        )

    async def adopt(self, who: Identity, action: AdoptSession) -> Reply:
        if not who.may("admin"):
            raise NotAllowed("Adopting a session needs the scope admin.", scope="admin")
        registry, peers = self._gateway.registry, self._store.peers
        home = await registry.home(action.session)
        if not home:
            raise Busy("The session is on this node already.", session=action.session)
        if isinstance(peers, Alone) or peers.lives(home):
            raise Busy(f"The node {home} is there: its sessions stay with it.", session=action.session, node=home)
        summary = await self._store.summary(action.session)
        if summary is None or summary.deleted or not await self._store.home(action.session):
            # A session that is only a transcript has no log to go on with.
            raise NotFound("session with a log", action.session)
        self._gateway.resolve_folder(summary.cwd)
        session = await registry.get(action.session, take=True)
        await session.supervisor.close_lost(AWAY, AWAY)
        session.supervisor.schedule_next()
        extra = {"session": action.session, "node": home, "who": who.name}
        logger.warning("session adopted", extra=extra)
        return Reply(session=action.session, seq=session.core.log.head)
