"""A gateway whose agents dial in through a relay that a test can cut."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from e2e.cuttable_relay import Relay
from e2e.gateway_harness import GatewayHarness, open_gateway, settings
from fairlead.server import listeners

SENT = {
    "user",
    "control_request",
    "control_response",
    "control_cancel_request",
    "keep_alive",
    "update_environment_variables",
}
"""The only message types that we may send to the CLI: an unknown type ends the oldest version."""


@pytest.fixture
async def relay(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Relay]:
    """The relay between the CLI and the gateway."""
    async with Relay() as between:
        real = listeners.urls
        monkeypatch.setattr("fairlead.wiring.network.urls", lambda *where: between.aim(real(*where)))
        yield between
        assert {line["type"] for line in between.lines()} <= SENT


@pytest.fixture
def passed() -> dict[str, str]:
    """Extra environment variables of the CLI; a test sets its own by parametrizing this fixture."""
    return {}


@pytest.fixture
async def harness(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path, relay: Relay, passed: dict[str, str]
) -> AsyncIterator[GatewayHarness]:
    config = settings(
        tmp_path / "data",
        tmp_path,
        agent="claude",
        claude=str(claude),
        pass_env=["IS_SANDBOX", "CLAUDE_CODE_MAX_RETRIES", *passed],
        session_env=["TEAM"],
    )
    async with open_gateway(config, {**cli_env, "CLAUDE_CODE_MAX_RETRIES": "1", **passed}, cli_cwd) as opened:
        opened.settings = {"link": "dial-in"}
        yield opened
