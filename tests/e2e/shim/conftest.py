"""A gateway that trusts the working folder, and the environment of a shim that must use it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from e2e.gateway_harness import GatewayHarness, open_gateway, settings
from e2e.shim.caller import trust


@pytest.fixture
async def harness(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path
) -> AsyncIterator[GatewayHarness]:
    config = settings(tmp_path / "data", tmp_path, agent="claude", claude=str(claude), pass_env=["IS_SANDBOX"])
    async with open_gateway(config, cli_env, cli_cwd) as opened:
        await trust(opened.http, cli_cwd)
        yield opened


@pytest.fixture
def shim_env(cli_env: dict[str, str], harness: GatewayHarness, claude: Path) -> dict[str, str]:
    return {
        **cli_env,
        "FAIRLEAD_URL": harness.gateway.url,
        "FAIRLEAD_TOKEN": harness.gateway.token,
        "FAIRLEAD_CLAUDE": str(claude),
        "FAIRLEAD_SHIM": "require",
        "FAIRLEAD_SHIM_WAIT_MS": "60000",
    }
