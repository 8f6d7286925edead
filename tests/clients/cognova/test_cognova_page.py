"""The requests that Cognova's page sends when it is opened, sent to a door.

The page itself cannot be fetched on a fresh machine: these are the requests of its composables, and the fields that
each of them reads from the answer.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from clients.cognova.chat_harness import peer_at
from fairlead.config import Config, DoorConfig
from fairlead.wiring import running
from local_http import local_client
from patience import PATIENCE

pytestmark = pytest.mark.process

LISTS = (
    "/api/conversations",
    "/api/tasks",
    "/api/projects",
    "/api/reminders",
    "/api/documents",
    "/api/agents",
    "/api/secrets",
    "/api/hooks/events",
    "/api/memory/search",
)
AGENT = {"name": "Tidy", "schedule": "0 9 * * 1", "prompt": "SCRIPT:text tidy"}


async def test_every_startup_request_is_answered_in_the_expected_shape(tmp_path: Path) -> None:
    door = DoorConfig(port=0)
    config = Config(port=0, data=str(tmp_path / "data"), agent="demo", roots=(str(tmp_path),), door={"cognova": door})
    async with running(config, {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}) as gateway:
        url, token = gateway.doors[0].url, {"X-API-Token": gateway.token}
        async with local_client(base_url=url, headers=token) as http:

            async def data(path: str, **query: Any) -> Any:
                answer = await http.get(path, params=query)
                assert answer.status_code == 200, (path, answer.text)
                return answer.json()["data"]

            signed = (await http.get("/api/auth/get-session")).json()
            assert signed["user"]["name"] and signed["session"]["userId"] == signed["user"]["id"]
            for path in LISTS:
                assert await data(path) == [], path
            assert (await data("/api/settings"))["notifications"]["task"]["enabled"] is True
            for path, first in (("/_ws/chat", "chat:connected"), ("/notifications", "connected")):
                address = url.replace("http", "ws", 1) + path
                async with connect(address, additional_headers=token, proxy=None) as socket:
                    assert json.loads(await asyncio.wait_for(socket.recv(), PATIENCE))["type"] == first
            agent = (await http.post("/api/agents", json=AGENT)).json()["data"]
            assert (await data("/api/agents/stats", period="7d"))["activeAgents"] == 1
            assert await data(f"/api/agents/{agent['id']}/runs", limit=20) == []
            assert (await data(f"/api/agents/{agent['id']}/stats", period="7d"))["totalRuns"] == 0
            await http.post(f"/api/agents/{agent['id']}/run")
            (run,) = await data(f"/api/agents/{agent['id']}/runs", limit=20)
            assert run["agentId"] == agent["id"] and run["startedAt"].endswith("Z")
            assert (await data(f"/api/agents/{agent['id']}/stats", period="24h"))["lastRunAt"] == run["startedAt"]
            async with peer_at(url, "", additional_headers=token) as peer:
                name = await peer.begin("SCRIPT:text hello")
                await peer.until("stream_end")
            assert name in [one["id"] for one in await data("/api/conversations")]
            asked, answer = (await data(f"/api/conversations/{name}"))["messages"]
            assert (asked["role"], answer["role"]) == ("user", "assistant")
        async with local_client(base_url=url) as stranger:
            for path in ("/api/auth/get-session", *LISTS):
                assert (await stranger.get(path)).status_code == 401, path
