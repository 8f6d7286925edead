"""Shared helpers for the tests of the embedded store: nodes on one data folder, and a clock that can be set forward."""

import asyncio
from pathlib import Path
from typing import Any

from fairlead.stores.sqlite import SqliteStore, backup
from fairlead.stores.sqlite.backup import Progress
from fairlead.stores.sqlite.connections import DATABASE, SPILL
from fairlead.stores.sqlite.spill import Spill
from fairlead.system.clock import SystemClock


async def back_up(store: SqliteStore, target: Path, progress: Progress | None = None) -> None:
    """Back up while the store is open, as `fairlead backup` does."""
    spill = Spill(store.folder / SPILL, sync=False)
    await asyncio.to_thread(backup.back_up, store.folder / DATABASE, spill, target, progress)


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
