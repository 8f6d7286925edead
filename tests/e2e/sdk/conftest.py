"""A gateway with the demo agent, and programs in the environment of the official SDK, which reach only loopback."""

import asyncio
import os
import sysconfig
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from demo_gateway import demo_gateway
from e2e.harness import why_not_isolated
from fairlead.wiring import GatewayInfo
from patience import PATIENCE
from tools.agent_sdks import python_program

HERE = Path(__file__).parent
PATHS = f"{HERE.parents[2] / 'src'}:{sysconfig.get_paths()['purelib']}"
RunInSdk = Callable[..., Awaitable[list[str]]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
async def gateway(tmp_path: Path, project: Path) -> AsyncIterator[GatewayInfo]:
    async with demo_gateway(tmp_path / "data", project) as info:
        yield info


@pytest.fixture
def run_in_sdk(tmp_path: Path) -> RunInSdk:
    """Runs a program, of this folder or by its path, to its end; returns the lines that it printed."""
    if reason := why_not_isolated():
        pytest.skip(reason)
    if not python_program().exists():
        pytest.skip("the Python SDK is not fetched: python -m tools.agent_sdks")

    async def run(program: str, *words: str, env: dict[str, str] | None = None) -> list[str]:
        process = await asyncio.create_subprocess_exec(
            *(str(python_program()), str(HERE / program), PATHS, *words),
            env=env or {"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(PATIENCE):
            output, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        return output.decode().splitlines()

    return run
