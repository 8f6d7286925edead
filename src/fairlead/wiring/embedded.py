"""A gateway inside another program."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from fairlead.config import Config
from fairlead.sessions.dependencies import McpServerSettings
from fairlead.wiring.gateway import RunningGateway
from fairlead.wiring.info import GatewayInfo


@contextlib.asynccontextmanager
async def running(
    config: Config, env: Mapping[str, str], mcp: Mapping[str, McpServerSettings] | None = None
) -> AsyncIterator[GatewayInfo]:
    """Run a gateway inside this process, for tests and for programs that embed one."""
    gateway = RunningGateway(config, env, mcp)
    started: asyncio.Future[GatewayInfo] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(gateway.serve(started.set_result, signals=False))
    either: set[asyncio.Future[Any]] = {started, task}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if not started.done():
        await task
    try:
        yield started.result()
    finally:
        gateway.stop()
        await task
