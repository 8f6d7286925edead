"""A node that stops: its sessions are away, or another node that has their folder continues them."""

import asyncio
from pathlib import Path

import pytest

from nodes.gateways import client_of, gateway, known
from patience import PATIENCE
from stores.nats_servers import NatsServers

pytestmark = pytest.mark.process


async def test_sessions_of_a_node_that_stopped_are_away_and_continue_when_it_is_back(tmp_path: Path) -> None:
    servers = NatsServers(tmp_path / "nats").start()
    project = tmp_path / "home" / "project"
    try:
        async with asyncio.timeout(PATIENCE * 2), gateway(tmp_path, "other", servers) as other:
            async with gateway(tmp_path, "home", servers) as home, client_of(home, project) as client:
                session = await client.open()
                await client.turn("SCRIPT:text one")
                log = await client.log()
            async with client_of(other, project) as client:
                listed = (await client.http.get("/v1/nodes")).json()["nodes"]
                assert {node["name"]: node["alive"] for node in listed} == {"home": False, "other": True}
                await client.watch(session)
                await client.until("turn.ended")
                refused = await client.ask("send", session=session, content=[{"type": "text", "text": "two"}])
                assert (refused["type"], refused["code"]) == ("error", "node_away")
                assert refused["data"]["node"] == "home"
                assert [line["seq"] for line in await client.log()][: len(log)] == [line["seq"] for line in log]
                async with gateway(tmp_path, "home", servers):
                    await client.turn("SCRIPT:text two")
                    assert client.texts()[-1].split()[-1] == "two"
    finally:
        servers.stop()


async def test_a_session_in_a_shared_folder_continues_on_another_node(tmp_path: Path) -> None:
    servers = NatsServers(tmp_path / "nats").start()
    shared = tmp_path / "work"
    shared.mkdir()
    settings = {"roots": (str(shared),), "shared": (str(shared),), "claude_home": str(shared)}
    try:
        async with asyncio.timeout(PATIENCE * 2), gateway(tmp_path, "other", servers, **settings) as other:
            async with gateway(tmp_path, "home", servers, **settings) as home, client_of(home, shared) as client:
                session = await client.open()
                await client.turn("SCRIPT:text one")
                await known(other, "home")
            async with client_of(other, shared) as client:
                await client.watch(session)
                await client.until("turn.ended")
                await client.turn("SCRIPT:text two")
                assert [text.split()[-1] for text in client.texts()] == ["one", "two"]
                assert (await client.http.get(f"/v1/sessions/{session}")).json()["summary"]["node"] == "other"
                async with gateway(tmp_path, "home", servers, **settings) as back, client_of(back, shared) as again:
                    await again.watch(session)
                    for _ in range(2):
                        await again.until("turn.ended")
                    await again.turn("SCRIPT:text three")
                    assert (await again.http.get(f"/v1/sessions/{session}")).json()["summary"]["node"] == "other"
    finally:
        servers.stop()
