"""Fixtures: check every envelope made by a test in this folder against Happy's own schema; and a gateway."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from clients.happy import envelopes
from clients.happy.envelopes import Schema, real_schema
from clients.happy.harness import HappyGateway, open_gateway


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder as `process`: the first one starts the node program that checks the schema."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.process)


@pytest.fixture(scope="session")
def schema() -> Iterator[Schema]:
    with real_schema() as running:
        yield running


@pytest.fixture(autouse=True)
def all_pass_the_schema(schema: Schema) -> Iterator[None]:
    envelopes.made.clear()
    yield
    schema.check(envelopes.made)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[HappyGateway]:
    async with open_gateway(tmp_path) as made:
        yield made
