"""Nodes of one cell for the conformance suites: each has a folder of its own, and the cell is removed afterwards."""

import contextlib
import uuid
from pathlib import Path

from fairlead.model.ids import SessionId
from fairlead.stores.nats.connection import TRANSIENT, read_address
from fairlead.stores.nats.store import NatsOptions, NatsStore
from stores.nats_servers import NatsServers

KEY = b"the key of a cell of tests"


class NatsStores:
    def __init__(self, folder: Path, servers: NatsServers) -> None:
        self.folder = folder
        self.address = read_address(f"{servers.urls}/{uuid.uuid4().hex[:8]}")
        self.stores: dict[str, NatsStore] = {}

    async def __call__(self, node: str = "a") -> NatsStore:
        options = NatsOptions(node=node, key=KEY, patience_s=60)
        self.stores[node] = await NatsStore.join(self.folder / node, self.address, options)
        return self.stores[node]

    async def expire(self, node: str) -> None:
        """Stop the renewals of a node, and remove its record, as a person does with a node that does not come back."""
        await self.stores[node].presence.close(goodbye=False)
        for name, store in self.stores.items():
            if name != node and store._open:
                await store.presence.forget(node)
                break
        for name, store in self.stores.items():
            if name != node and store._open:
                await store._bucket.follower.reached(await store._js.last_seq(store._names.bucket_stream))
                assert not store.presence.lives(node)

    async def deafen(self, node: str) -> None:
        """A node that hears no message any more, and can still publish."""
        follower = self.stores[node]._journal.follower
        await follower.close()
        follower.patience_s = 0.5

    async def stored(self, session: SessionId) -> int:
        store = next(store for store in self.stores.values() if store._open)
        subject = store._names.log(session)
        found = await store._js.call(f"STREAM.INFO.{store._names.log_stream}", {"subjects_filter": subject})
        return int((found["state"].get("subjects") or {}).get(subject, 0))

    async def fold(self, session: SessionId) -> None:
        await next(store for store in self.stores.values() if store._open).folding.fold(session)

    async def close(self) -> None:
        last: NatsStore | None = None
        for store in self.stores.values():
            if last is not None:
                await last.close()
            last = store
        if last is None:
            return
        if not last._open:
            last = await NatsStore.join(self.folder / "cleaner", self.address, NatsOptions(node="cleaner", key=KEY))
        names = last._names
        for stream in (names.log_stream, names.bucket_stream, names.object_stream):
            with contextlib.suppress(*TRANSIENT):
                await last._js.call(f"STREAM.DELETE.{stream}")
        # The streams are gone: a goodbye would wait for them.
        await last.presence.close(goodbye=False)
        last.presence._task = None
        await last.close()
