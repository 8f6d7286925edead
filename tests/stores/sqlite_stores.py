"""Shared helpers for the tests of the embedded store: nodes on one data folder, and a clock that can be set forward."""

from pathlib import Path
from typing import Any

from fairlead.stores.sqlite import SqliteStore
from fairlead.system.clock import SystemClock


class ShiftedClock(SystemClock):
    """The real time plus an offset: presence expires without waiting."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


class SqliteStores:
    """Several nodes on one folder, which only tests may have: each is opened without the folder's lock."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.clock = ShiftedClock()
        self.options = options
        self.stores: dict[str, SqliteStore] = {}

    async def __call__(self, node: str = "a") -> SqliteStore:
        self.stores[node] = await SqliteStore.open(
            self.folder, node=node, clock=self.clock, _alone=False, **self.options
        )
        return self.stores[node]

    async def expire(self, node: str) -> None:
        self.clock.ahead_ms += 60_000
        for name, store in self.stores.items():
            if name != node:
                await store._set_present()

    async def close(self) -> None:
        for store in self.stores.values():
            await store.close()
