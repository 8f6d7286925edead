"""One live session of the real CLI, open at once in a client of each protocol: all see the same."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from e2e.all_clients import all_clients, answered_on_one, each_sends_a_prompt
from e2e.gateway_harness import GatewayHarness, open_gateway, settings
from e2e.harness import NEWEST, OLDEST, on_versions


@pytest.fixture
async def harness(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path
) -> AsyncIterator[GatewayHarness]:
    config = settings(tmp_path / "data", tmp_path, agent="claude", claude=str(claude), pass_env=["IS_SANDBOX"])
    async with open_gateway(config, cli_env, cli_cwd) as opened:
        yield opened


@on_versions(NEWEST)
async def test_a_permission_that_is_answered_on_one_is_seen_as_answered_on_all(harness: GatewayHarness) -> None:
    await harness.open()
    requests: list[str] = []
    async with all_clients(harness) as clients:
        for answering in ("native", "mylifedb", "direct", "cognova", "claudecodeui", "acp"):
            harness.scene()
            await answered_on_one(harness, clients, answering, requests)


@on_versions(OLDEST, NEWEST)
async def test_each_of_them_says_something_and_all_hear_it(harness: GatewayHarness) -> None:
    await harness.open()
    async with all_clients(harness) as clients:
        await each_sends_a_prompt(harness, clients)
        raw = await harness.raw()
        assert len([line for line in raw if line["type"] == "turn.ended"]) == 7
