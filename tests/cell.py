"""Several nodes of a cell in one process, on one SQLite folder: for tests of everything above the store.

Reads of all nodes see an append at once; what a real cell adds (delays, lost messages, leases) is tested with the real
store. `kill` makes a node look dead to the others, `suspend` makes it believe that it has lost its lease.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fairlead.model.errors import NodeAway, Unavailable
from fairlead.model.ids import SessionId
from fairlead.model.store import Batch, Documents, ForkPoint, Lease, LogChange, SessionFilter, SessionPage, Summary
from fairlead.model.store.documents import DocumentHeard
from fairlead.model.store.peers import Accept, Channel, Handler, Heard, Node, NodeInfo, Stop
from fairlead.stores.sqlite import SqliteStore


class Cell:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stores: dict[str, CellStore] = {}
        self.homes: dict[SessionId, str] = {}
        self.dead: set[str] = set()
        self.asked: list[tuple[str, str]] = []
        """The requests between nodes: (node, topic)."""
        self.lost_answers = 0
        """So many of the next requests are done, and their answers are lost."""

    async def open(self, node: str) -> "CellStore":
        store = await CellStore.open(self.folder, node=node, _alone=False)
        assert isinstance(store, CellStore)
        store.join(self)
        self.stores[node] = store
        self.dead.discard(node)
        self.changed()
        return store

    async def kill(self, node: str) -> None:
        """The others do not hear the node any more; it goes on, as a process without a network does."""
        self.dead.add(node)
        await self.stores[node]._set_present(0)
        self.changed()

    def suspend(self, node: str, *, suspended: bool = True) -> None:
        self.stores[node].cell_peers.suspended = suspended
        self.changed()

    def changed(self) -> None:
        for store in self.stores.values():
            for heard in tuple(store.cell_peers.changes):
                heard()

    def others(self, node: str) -> "list[CellStore]":
        return [store for name, store in self.stores.items() if name != node and node not in self.dead]


class CellStore(SqliteStore):
    cell: Cell

    def join(self, cell: Cell) -> None:
        self.cell = cell
        self.peers = self.cell_peers = CellPeers(cell, self.node)
        self.followers: list[Callable[[LogChange], None]] = []
        self.listeners: dict[str, list[DocumentHeard]] = {}
        vars(self)["here"] = _Prefixed(self.documents, f"{self.node}/")
        self.documents = _Told(self.documents, self)

    def _tell(self, change: LogChange) -> None:
        for store in self.cell.others(self.node):
            for heard in tuple(store.followers):
                heard(change)

    async def append(self, lease: Lease, batch: Batch, expected_head: int) -> int:
        head = await super().append(lease, batch, expected_head)
        kinds = tuple(entry.kind for entry in batch.entries)
        self._tell(LogChange(lease.session, head, kinds, self.node))
        return head

    async def claim(self, session: SessionId, fork: ForkPoint | None = None) -> tuple[Lease, str, int]:
        claimed = await super().claim(session, fork)
        self.cell.homes[session] = self.node
        self._tell(LogChange(session, claimed[2], (), self.node))
        return claimed

    async def erase(self, session: SessionId) -> None:
        await super().erase(session)
        self.cell.homes.pop(session, None)
        self._tell(LogChange(session, 0, erased=True))

    async def home(self, session: SessionId) -> str:
        return self.cell.homes.get(session, "")

    def follow(self, heard: Callable[[LogChange], None]) -> Stop:
        self.followers.append(heard)
        return lambda: self.followers.remove(heard)

    async def summary(self, session: SessionId) -> Summary | None:
        found = await super().summary(session)
        return None if found is None else self._at_home(found)

    async def sessions(self, wanted: SessionFilter, seen_by: str | None = None) -> SessionPage:
        page = await super().sessions(wanted, seen_by)
        return msgspec.structs.replace(page, sessions=tuple(map(self._at_home, page.sessions)))

    async def list_found(self, found: Sequence[Summary], gone: Sequence[SessionId] = ()) -> None:
        for summary in found:
            self.cell.homes.setdefault(summary.session, self.node)
        await super().list_found(found, gone)

    def _at_home(self, summary: Summary) -> Summary:
        return msgspec.structs.replace(summary, node=self.cell.homes.get(summary.session, ""))


class _Told:
    """The documents of one node; the listeners of all nodes hear its changes."""

    def __init__(self, documents: Documents, store: CellStore) -> None:
        self._documents = documents
        self._store = store

    def _heard(self, space: str, key: str, value: Any | None) -> None:
        for store in (self._store, *self._store.cell.others(self._store.node)):
            for heard in tuple(store.listeners.get(space, ())):
                heard(key, None if value is None else msgspec.json.decode(msgspec.json.encode(value)))

    async def get(self, space: str, key: str) -> Any | None:
        return await self._documents.get(space, key)

    async def put(self, space: str, key: str, value: Any, ttl_s: float | None = None) -> None:
        await self._documents.put(space, key, value, ttl_s)
        self._heard(space, key, value)

    async def add(self, space: str, key: str, value: Any, ttl_s: float | None = None) -> bool:
        added = await self._documents.add(space, key, value, ttl_s)
        if added:
            self._heard(space, key, value)
        return added

    async def swap(self, space: str, key: str, value: Any | None, expected: Any | None) -> bool:
        swapped = await self._documents.swap(space, key, value, expected)
        if swapped:
            self._heard(space, key, value)
        return swapped

    async def delete(self, space: str, key: str) -> bool:
        deleted = await self._documents.delete(space, key)
        if deleted:
            self._heard(space, key, None)
        return deleted

    async def list(self, space: str) -> dict[str, Any]:
        return await self._documents.list(space)

    def listen(self, space: str, heard: DocumentHeard) -> Stop:
        self._store.listeners.setdefault(space, []).append(heard)
        return lambda: self._store.listeners[space].remove(heard)


class _Prefixed:
    """Documents of one node, in spaces of their own."""

    def __init__(self, documents: Documents, prefix: str) -> None:
        self._documents = documents
        self._prefix = prefix

    async def get(self, space: str, key: str) -> Any | None:
        return await self._documents.get(self._prefix + space, key)

    async def put(self, space: str, key: str, value: Any, ttl_s: float | None = None) -> None:
        await self._documents.put(self._prefix + space, key, value, ttl_s)

    async def add(self, space: str, key: str, value: Any, ttl_s: float | None = None) -> bool:
        return await self._documents.add(self._prefix + space, key, value, ttl_s)

    async def swap(self, space: str, key: str, value: Any | None, expected: Any | None) -> bool:
        return await self._documents.swap(self._prefix + space, key, value, expected)

    async def delete(self, space: str, key: str) -> bool:
        return await self._documents.delete(self._prefix + space, key)

    async def list(self, space: str) -> dict[str, Any]:
        return await self._documents.list(self._prefix + space)

    def listen(self, space: str, heard: DocumentHeard) -> Stop:
        return self._documents.listen(self._prefix + space, heard)


class CellPeers:
    def __init__(self, cell: Cell, node: str) -> None:
        self._cell = cell
        self.node = node
        self.suspended = False
        self.info = NodeInfo()
        self.changes: list[Callable[[], None]] = []
        self.handlers: dict[str, Handler] = {}
        self.heard: dict[str, list[Heard]] = {}
        self.accepting: dict[str, Accept] = {}
        self._serving: set[asyncio.Task[None]] = set()

    def nodes(self) -> tuple[Node, ...]:
        return tuple(
            Node(name=name, run=name, alive=name not in self._cell.dead, since=1000, info=store.cell_peers.info)
            for name, store in sorted(self._cell.stores.items())
        )

    def lives(self, node: str) -> bool:
        return node in self._cell.stores and node not in self._cell.dead

    def leads(self) -> bool:
        return self.node == min(set(self._cell.stores) - self._cell.dead, default="")

    def describe(self, info: NodeInfo) -> None:
        self.info = info

    def on_change(self, heard: Callable[[], None]) -> Stop:
        self.changes.append(heard)
        return lambda: self.changes.remove(heard)

    def _other(self, node: str) -> "CellPeers":
        if not self.lives(node) or self.node in self._cell.dead:
            raise NodeAway(node)
        return self._cell.stores[node].cell_peers

    async def ask(self, node: str, topic: str, body: bytes, timeout_s: float = 20.0) -> bytes:
        other = self._other(node)
        self._cell.asked.append((node, topic))
        if topic not in other.handlers:
            raise NodeAway(node)
        answer = await other.handlers[topic](self.node, body)
        if self._cell.lost_answers:
            self._cell.lost_answers -= 1
            raise Unavailable("The answer was lost.")
        return answer

    def serve(self, topic: str, handler: Handler) -> Stop:
        self.handlers[topic] = handler
        return lambda: self.handlers.pop(topic, None) and None

    def tell(self, topic: str, body: bytes) -> None:
        for store in self._cell.others(self.node):
            for heard in tuple(store.cell_peers.heard.get(topic, ())):
                heard(self.node, body)

    def hear(self, topic: str, heard: Heard) -> Stop:
        self.heard.setdefault(topic, []).append(heard)
        return lambda: self.heard[topic].remove(heard)

    async def dial(self, node: str, topic: str, hello: bytes) -> Channel:
        other = self._other(node)
        if topic not in other.accepting:
            raise NodeAway(node)
        near, far = _channel()

        async def serve(accepted: Awaitable[None]) -> None:
            try:
                await accepted
            finally:
                await far.close()

        task = asyncio.create_task(serve(other.accepting[topic](self.node, hello, far)))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        return near

    def accept(self, topic: str, accepted: Accept) -> Stop:
        self.accepting[topic] = accepted
        return lambda: self.accepting.pop(topic, None) and None


class _End:
    def __init__(self, inbox: "asyncio.Queue[bytes | None]", outbox: "asyncio.Queue[bytes | None]") -> None:
        self._inbox, self._outbox = inbox, outbox
        self._closed = False
        self.other: _End | None = None

    async def send(self, data: bytes) -> None:
        if self._closed or (self.other is not None and self.other._closed):
            raise Unavailable("The channel has ended.")
        await self._outbox.put(data)

    async def receive(self) -> bytes | None:
        if self._closed:
            return None
        return await self._inbox.get()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._outbox.put_nowait(None)
            self._inbox.put_nowait(None)


def _channel() -> tuple[_End, _End]:
    one: asyncio.Queue[bytes | None] = asyncio.Queue()
    two: asyncio.Queue[bytes | None] = asyncio.Queue()
    near, far = _End(one, two), _End(two, one)
    near.other, far.other = far, near
    return near, far
