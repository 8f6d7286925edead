"""The embedded store passes the suite that every store passes: as it is, without FTS5, and with an fsync per commit."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fairlead.stores.sqlite import open
from fairlead_testing.derived_conformance import ProjectionConformance
from fairlead_testing.insight_conformance import UsageStatsConformance
from fairlead_testing.resource_conformance import ResourceConformance
from fairlead_testing.store_conformance import StoreConformance, Stores
from stores.sqlite_stores import SqliteStores


class TestSqliteStore(StoreConformance, ProjectionConformance, UsageStatsConformance, ResourceConformance):
    @pytest.fixture
    async def make_store(self, tmp_path: Path) -> AsyncIterator[Stores]:
        stores = SqliteStores(tmp_path)
        yield stores
        await stores.close()


class TestSqliteStoreWithoutFts5(TestSqliteStore):
    @pytest.fixture
    async def make_store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stores]:
        monkeypatch.setattr(open, "has_fts5", lambda: False)
        stores = SqliteStores(tmp_path)
        yield stores
        await stores.close()


class TestSqliteStoreThatSurvivesPowerCuts(TestSqliteStore):
    @pytest.fixture
    async def make_store(self, tmp_path: Path) -> AsyncIterator[Stores]:
        stores = SqliteStores(tmp_path, durability="power")
        yield stores
        await stores.close()
