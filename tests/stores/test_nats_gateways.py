"""Two whole gateways on one cell: each lists, pages and searches the sessions of the other, and its own after a
restart."""

import asyncio
import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from fairlead.config import Config
from fairlead.wiring import GatewayInfo, running
from patience import PATIENCE
from stores.nats_servers import NatsServers

pytestmark = pytest.mark.process


def gateway(folder: Path, node: str, servers: NatsServers) -> AbstractAsyncContextManager[GatewayInfo]:
    key, project = folder / "cell.key", folder / node / "project"
    key.write_text("0123456789abcdef" * 2)
    key.chmod(0o600)
    project.mkdir(parents=True, exist_ok=True)
    config = Config(
        port=0,
        data=str(folder / node / "data"),
        agent="demo",
        roots=(str(project),),
        claude_homes=(str(folder / node / ".claude"),),
        store=f"{servers.urls}/test",
        node=node,
        cluster_key=str(key),
    )
    return running(config, {"PATH": os.environ["PATH"], "HOME": str(folder / node)})


async def call(client: httpx2.AsyncClient, at: GatewayInfo, path: str, **body: Any) -> Any:
    headers = {"Authorization": f"Bearer {at.token}"}
    method = "POST" if body else "GET"
    answer = await client.request(method, f"{at.urls[0]}/v1{path}", headers=headers, json=body or None)
    answer.raise_for_status()
    return answer.json()


async def test_two_gateways_show_each_others_sessions(tmp_path: Path) -> None:
    servers = NatsServers(tmp_path / "nats").start()
    try:
        async with asyncio.timeout(PATIENCE), httpx2.AsyncClient(timeout=PATIENCE) as client:
            async with gateway(tmp_path, "a", servers) as a, gateway(tmp_path, "b", servers) as b:
                made = await call(client, a, "/sessions", cwd=str(tmp_path / "a/project"))
                session = made["session"]
                await call(client, a, f"/sessions/{session}/messages", text="hello there")
                while not (listed := (await call(client, b, "/sessions"))["sessions"]) or not listed[0]["turns"]:
                    await asyncio.sleep(0.05)
                assert (listed[0]["session"], listed[0]["node"]) == (session, "a")
                page = f"/sessions/{session}/events?limit=1000"
                # Until the turn has ended: before that, deltas are removed again.
                here = await call(client, b, page)
                while not any(event["type"] == "turn.ended" for event in here["events"]):
                    await asyncio.sleep(0.05)
                    here = await call(client, b, page)
                assert here["events"] == (await call(client, a, page))["events"][: len(here["events"])]
                while not (hits := (await call(client, b, "/search?q=hello"))["hits"]):
                    await asyncio.sleep(0.05)
                assert {hit["session"] for hit in hits} == {session}
            async with gateway(tmp_path, "a", servers) as again:
                later = await call(client, again, page)
                assert later["log_id"] == here["log_id"]
                assert later["events"][: len(here["events"])] == here["events"]
    finally:
        servers.stop()
