"""The port to the other gateways of a cell. A gateway on one machine has none (`Alone`).

Vocabulary
    node      a gateway with the folders of its machine
    lease     the time for which a node may act as the owner of its sessions, renewed every few seconds
    alive     a node whose renewals are heard; a node that hears nothing itself judges no other
    channel   a stream of messages between two nodes, for a socket that is served elsewhere
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from fairlead.model.errors import NodeAway


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a node publishes about itself."""

    version: str = ""
    url: str = ""
    roots: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    """Folders that have the same path and content on every node that names them."""
    home: str = ""
    """The home folder of its agents, which has their transcripts."""
    uploads: str = ""
    agents: int = 0
    max_agents: int = 0
    policy: str = ""
    """A digest of its permission rules, to compare nodes."""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    run: str = ""
    """The id of its current run: it changes when the gateway restarts."""
    alive: bool = True
    since: int = 0
    """Milliseconds since 1970: the start of the run; of a node that is not alive, the last time it was heard."""
    info: NodeInfo = NodeInfo()


Stop = Callable[[], None]
"""Ends a subscription."""
Handler = Callable[[str, bytes], Awaitable[bytes]]
"""Answers a request: (asking node, body) -> body. A FairleadError is sent back and raised where it was asked."""
Heard = Callable[[str, bytes], None]
"""Receives a message: (sending node, body)."""


class Channel(Protocol):
    async def send(self, data: bytes) -> None:
        """Waits while the other side does not read. Unavailable after the end."""

    async def receive(self) -> bytes | None:
        """The next message; None at the end: closed by either side, or lost."""

    async def close(self) -> None: ...


Accept = Callable[[str, bytes, Channel], Awaitable[None]]
"""Serves a channel: (dialing node, first message, channel). The channel is closed when it returns."""


class Peers(Protocol):
    @property
    def node(self) -> str: ...

    @property
    def suspended(self) -> bool:
        """Whether the own lease has ended: another node may own sessions by now that this one believes to own."""

    def nodes(self) -> tuple[Node, ...]:
        """All known nodes by name, with this one."""

    def lives(self, node: str) -> bool:
        """False only if this node may judge and has not heard `node` for the whole lease, or `node` has stopped."""

    def leads(self) -> bool:
        """Whether this node does the work that one node does for all. Two nodes may believe so for a while: each
        effect needs a condition of its own."""

    def describe(self, info: NodeInfo) -> None:
        """Publish this about the own node, with the next renewal."""

    def on_change(self, heard: Callable[[], None]) -> Stop:
        """Call `heard` when a node comes or goes, or `suspended` changes."""

    async def ask(self, node: str, topic: str, body: bytes, timeout_s: float = 20.0) -> bytes:
        """NodeAway if that node does not listen; Unavailable without an answer in time: the outcome is unknown."""

    def serve(self, topic: str, handler: Handler) -> Stop: ...

    def tell(self, topic: str, body: bytes) -> None:
        """To the other nodes that listen now; may be lost. A topic is words joined by dots."""

    def hear(self, topic: str, heard: Heard) -> Stop: ...

    async def dial(self, node: str, topic: str, hello: bytes) -> Channel:
        """Open a channel. NodeAway if that node does not accept it."""

    def accept(self, topic: str, accepted: Accept) -> Stop: ...


def _nothing() -> None:
    return None


class Alone:
    """The peers of a gateway that has none."""

    suspended = False

    def __init__(self, node: str) -> None:
        self.node = node
        self._info = NodeInfo()

    def nodes(self) -> tuple[Node, ...]:
        return (Node(name=self.node, info=self._info),)

    def lives(self, node: str) -> bool:
        return node == self.node

    def leads(self) -> bool:
        return True

    def describe(self, info: NodeInfo) -> None:
        self._info = info

    def on_change(self, heard: Callable[[], None]) -> Stop:
        return _nothing

    async def ask(self, node: str, topic: str, body: bytes, timeout_s: float = 20.0) -> bytes:
        raise NodeAway(node)

    def serve(self, topic: str, handler: Handler) -> Stop:
        return _nothing

    def tell(self, topic: str, body: bytes) -> None:
        return None

    def hear(self, topic: str, heard: Heard) -> Stop:
        return _nothing

    async def dial(self, node: str, topic: str, hello: bytes) -> Channel:
        raise NodeAway(node)

    def accept(self, topic: str, accepted: Accept) -> Stop:
        return _nothing
