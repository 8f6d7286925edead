"""Whole gateways on one cell of real NATS servers, with the demo agent, in the loop of the test."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from e2e.gateway_harness import GatewayHarness, opened
from fairlead.config import Config
from fairlead.wiring import GatewayInfo, running
from local_http import local_client
from patience import PATIENCE
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


async def known(at: GatewayInfo, node: str) -> None:
    """Wait until one node knows the folders of another."""
    headers = {"Authorization": f"Bearer {at.token}"}
    async with local_client(base_url=at.url, headers=headers) as http, asyncio.timeout(PATIENCE):
        while True:
            listed = (await http.get("/v1/nodes")).json()["nodes"]
            if any(one["name"] == node and one["alive"] and one["roots"] for one in listed):
                return
            await asyncio.sleep(0.05)
