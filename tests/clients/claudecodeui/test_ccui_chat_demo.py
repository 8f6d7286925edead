"""The whole gateway with the demo agent: the script that the real CLI also runs, on the main port and on a door."""

from pathlib import Path

import pytest

from clients.claudecodeui.chat_harness import peer_at
from clients.claudecodeui.chat_scenario import PLAYED, play
from fairlead.config import load
from fairlead.wiring import running
from local_http import local_client

pytestmark = pytest.mark.process


@pytest.mark.rules("S003-005", "S003-006", "S003-028", "S003-056", "S003-066")
async def test_the_demo_agent_plays_the_script(tmp_path: Path) -> None:
    given = {"data": str(tmp_path / "data"), "port": 0, "roots": [str(tmp_path)], "agent": "demo", "claude_homes": []}
    config = load({"HOME": str(tmp_path)}, {**given, "door": {"claudecodeui": {"port": 0}}}).config
    async with running(config, {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}) as gateway:
        headers = {"Authorization": f"Bearer {gateway.token}"}
        async with local_client(base_url=gateway.url, headers=headers) as http:
            assert await play(gateway.url, gateway.token, http, tmp_path) == PLAYED
            (project,) = (await http.get("/claudecodeui/api/projects")).json()
            (session,) = project["sessions"]
        (door,) = gateway.doors
        async with peer_at(door.url, gateway.token) as peer:
            ack = await peer.subscribe(session["id"])
            assert (ack["isProcessing"], ack["lastSeq"] > 0) == (False, True)
