"""The nodes of the cell: each one renews its record in the bucket every few seconds; see `lease` for who is alive."""

import asyncio
import logging
import sqlite3
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from fairlead.model.errors import FairleadError
from fairlead.model.store import Node, NodeInfo, Stop
from fairlead.stores.nats.bucket import Bucket, KeyChange, KeyWrite
from fairlead.stores.nats.lease import Leases, LeaseTimes
from fairlead.stores.nats.publishing import Refused
from fairlead.system.clock import Clock

_log = logging.getLogger(__name__)


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a node's key. `first` is the sequence of the run's first record, 0 in that one."""

    run: str
    since: int
    first: int = 0
    info: NodeInfo = NodeInfo()


class Presence:
    """Implements `bucket.KeyHandler` for the keys of nodes. `on_twin` is called if an older gateway has this name."""

    def __init__(self, bucket: Bucket, node: str, clock: Clock, times: LeaseTimes) -> None:
        self._bucket = bucket
        self._node = node
        self._clock = clock
        self._times = times
        self._leases = Leases(node, times, clock.monotonic())
        self._records: dict[str, NodeRecord] = {}
        self._heard_at: dict[str, int] = {}
        self._record = NodeRecord(run=uuid.uuid4().hex, since=clock.now_ms())
        self._listeners: list[Callable[[], None]] = []
        self._notified: tuple[Any, ...] = ()
        self._task: asyncio.Task[None] | None = None
        self.on_twin: Callable[[str], None] = _log.error
        bucket.handle("node", self)

    async def start(self) -> None:
        await self._renew()
        self._task = asyncio.create_task(self._run())

    async def close(self, *, goodbye: bool = True) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            if goodbye:
                try:
                    await self._bucket.write(
                        KeyWrite(("node", self._node), None, self._bucket.revision("node", self._node))
                    )
                except (FairleadError, Refused) as error:
                    _log.debug("goodbye: %s", error)

    async def forget(self, node: str) -> None:
        """Remove the record of a node that does not come back: it counts as dead at once."""
        await self._bucket.write(KeyWrite(("node", node), None))

    # --- what is known

    @property
    def suspended(self) -> bool:
        return self._leases.suspended(self._clock.monotonic())

    def lives(self, node: str) -> bool:
        return self._leases.lives(node, self._clock.monotonic())

    def leads(self) -> bool:
        """The first living node by name leads."""
        return (
            not self.suspended and min((node for node in self._records if self.lives(node)), default="") == self._node
        )

    def nodes(self) -> tuple[Node, ...]:
        return tuple(self._describe(name, record) for name, record in sorted(self._records.items()))

    def describe(self, info: NodeInfo) -> None:
        self._record = msgspec.structs.replace(self._record, info=info)

    def on_change(self, heard: Callable[[], None]) -> Stop:
        self._listeners.append(heard)
        return lambda: self._listeners.remove(heard)

    def _describe(self, name: str, record: NodeRecord) -> Node:
        alive = self.lives(name)
        since = record.since if alive else self._heard_at.get(name, 0)
        return Node(name=name, run=record.run, alive=alive, since=since, info=record.info)

    # --- KeyHandler

    def apply(self, db: sqlite3.Connection, change: KeyChange) -> None:
        return None

    def applied(self, change: KeyChange, outcome: None) -> None:
        (name,) = change.key
        if change.data is None:
            self._records.pop(name, None)
            self._leases.gone(name)
        else:
            self._records[name] = msgspec.json.decode(change.data, type=NodeRecord)
            self._heard_at[name] = self._clock.now_ms()
            self._leases.heard(name, self._clock.monotonic())
        self._tell()

    def sweep(self, db: sqlite3.Connection, keys: frozenset[tuple[str, ...]]) -> None:
        return None

    # --- renewing

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(self._times.renew_s)
            try:
                await self._renew()
            except FairleadError as error:
                _log.warning("the lease of node %s is not renewed: %s", self._node, error)
            except Exception:
                _log.exception("the lease of node %s is not renewed", self._node)
            self._tell()

    async def _renew(self) -> None:
        while True:
            sent = self._clock.monotonic()
            expected = self._bucket.revision("node", self._node)
            other = self._records.get(self._node)
            if other is not None and other.run != self._record.run and self._is_older(other):
                self.on_twin(
                    f"Another gateway is the node {self._node} of this cell: start this one with another --node."
                )
                return
            try:
                seq = await self._bucket.write(
                    KeyWrite(("node", self._node), msgspec.json.encode(self._record), expected)
                )
            except Refused:
                continue
            if not self._record.first:
                self._record = msgspec.structs.replace(self._record, first=seq)
            self._leases.renewed(sent)
            return

    def _is_older(self, other: NodeRecord) -> bool:
        """Whether the other run of this name has been here before, and has renewed its record since we came."""
        return bool(self._record.first and other.first and other.first < self._record.first)

    def _tell(self) -> None:
        now = (
            self.suspended,
            tuple((name, record.run, self.lives(name)) for name, record in sorted(self._records.items())),
        )
        if now != self._notified:
            self._notified = now
            for heard in tuple(self._listeners):
                heard()
