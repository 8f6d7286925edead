"""The core of one node of a cell: as `CoreHarness`, with the way to the other nodes."""

from typing import Any

from cell import Cell, CellStore
from fairlead.model.auth import Identity
from fairlead.model.commands import Command, Reply
from fairlead.model.store import NodeInfo
from fairlead.sessions.fanout.following import LogFollower
from fairlead.sessions.nodes.routing import RoutedGateway
from fairlead.sessions.nodes.takeover import OnTakeover, SharedFolders, Takeover
from sessions.harness import ANN, CoreHarness


class CellHarness(CoreHarness):
    """`shared`: whether the folder of the sessions, and the agents' home, are on all nodes."""

    def __init__(
        self, cell: Cell, node: str, *, shared: bool = False, then: OnTakeover = "wait", **policy: Any
    ) -> None:
        super().__init__(cell.folder, node=node, **policy)
        self.cell = cell
        self.shared = SharedFolders((str(cell.folder),), str(cell.folder)) if shared else SharedFolders()
        self.then: OnTakeover = then
        self.notices: list[tuple[str, str]] = []
        self.lost: list[Any] = []

    async def open_store(self) -> CellStore:
        return await self.cell.open(self.node)

    async def start(self, *, kill_children: bool = False) -> "CellHarness":
        await super().start(kill_children=kill_children)
        peers = self.store.peers
        peers.describe(
            NodeInfo(roots=self.services.policy.roots, shared=self.shared.folders, home=self.shared.home, max_agents=2)
        )
        self.takeover = Takeover(self.registry, peers, self.shared, then=self.then, random=lambda: 1.0)
        self.routed = RoutedGateway(self.gateway, peers, self.takeover)
        self.follower = LogFollower(
            self.store,
            self.registry.followed,
            lambda session, what: self.notices.append((session, what)),
            self.lost.append,
        )
        self.routed.start()
        self.follower.start()
        self.takeover.start()
        return self

    async def do(self, command: Command, who: Identity = ANN) -> Reply:
        return await self.routed.command(who, command)

    async def stop(self) -> None:
        self.routed.stop()
        await self.takeover.stop()
        await self.follower.stop()
        await super().stop()
