"""Whole gateways on one cell of real NATS servers, with the demo agent, in the loop of the test."""

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from e2e.gateway_harness import GatewayHarness, opened
from fairlead.config import Config
from fairlead.wiring import GatewayInfo, RunningGateway, running
from stores.nats_servers import NatsServers


def config_of(folder: Path, node: str, servers: NatsServers, **settings: Any) -> Config:
    key, project = folder / "cell.key", folder / node / "project"
    key.write_text("0123456789abcdef" * 2)
    key.chmod(0o600)
    project.mkdir(parents=True, exist_ok=True)
    given: dict[str, Any] = {
        "port": 0,
        "data": str(folder / node / "data"),
        "agent": "demo",
        "roots": (str(project),),
        "claude_homes": (str(folder / node / ".claude"),),
        "store": f"{servers.urls}/test",
        "node": node,
        "cluster_key": str(key),
        **settings,
    }
    return Config(**given)


def gateway(folder: Path, node: str, servers: NatsServers, **settings: Any) -> Any:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder / node)}
    return running(config_of(folder, node, servers, **settings), env)


@contextlib.asynccontextmanager
async def client_of(info: GatewayInfo, cwd: Path) -> AsyncIterator[GatewayHarness]:
    async with opened(info, cwd) as harness:
        yield harness


__all__ = ["RunningGateway", "client_of", "config_of", "gateway"]
