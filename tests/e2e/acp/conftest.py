"""Fixtures for tests with real ACP agents: the scripted model of all three dialects, and one agent on it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from e2e.acp.acp_harness import Agent, prepared, why_not_here
from fairlead_testing.acp_models import AcpModel


@pytest.fixture
async def acp_model() -> AsyncIterator[AcpModel]:
    """The scripted model on a free loopback port."""
    async with AcpModel() as serving:
        yield serving


@pytest.fixture
def agent(agent_name: str, cli_home: Path, acp_model: AcpModel) -> Agent:
    """The agent that the test's parameter names. No agent starts where it could reach more than loopback."""
    if reason := why_not_here(agent_name):
        pytest.skip(reason)
    return prepared(agent_name, cli_home, acp_model.url)
