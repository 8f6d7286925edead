"""The store of a cell passes the suite that every store passes, on one server and on a cluster of three."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from fairlead_testing.derived_conformance import ProjectionConformance
from fairlead_testing.insight_conformance import UsageStatsConformance
from fairlead_testing.nodes_conformance import NodesConformance
from fairlead_testing.peers_conformance import PeersConformance
from fairlead_testing.resource_conformance import ResourceConformance
from fairlead_testing.store_conformance import StoreConformance, Stores
from stores.nats_servers import NatsServers, quick_folder
from stores.nats_stores import NatsStores

pytestmark = pytest.mark.process


@pytest.fixture(scope="module", params=[1, 3], ids=["R1", "R3"])
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServers]:
    with quick_folder(tmp_path_factory.mktemp("nats")) as folder:
        started = NatsServers(folder, request.param).start()
        yield started
        started.stop()


class TestNatsStore(
    StoreConformance,
    ProjectionConformance,
    UsageStatsConformance,
    ResourceConformance,
    NodesConformance,
    PeersConformance,
):
    @pytest.fixture
    async def make_store(self, tmp_path: Path, servers: NatsServers) -> AsyncIterator[Stores]:
        stores = NatsStores(tmp_path, servers)
        yield stores
        await stores.close()
