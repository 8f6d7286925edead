"""The whole gateway with the demo agent: Cognova's chat on its door, and next to the native protocol."""

from pathlib import Path

import pytest

from clients.cognova.chat_harness import peer_at
from fairlead.config import load
from fairlead.wiring import running
from local_http import local_client

pytestmark = pytest.mark.process


async def test_on_its_door_the_chat_and_its_rest_api_are_at_the_root(tmp_path: Path) -> None:
    given = {"data": str(tmp_path / "data"), "port": 0, "roots": [str(tmp_path)], "agent": "demo"}
    config = load({"HOME": str(tmp_path)}, {**given, "door": {"cognova": {"port": 0}}}).config
    async with running(config, {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}) as gateway:
        (door,) = gateway.doors
        token = {"X-API-Token": gateway.token}
        async with (
            peer_at(door.url, "", additional_headers=token) as peer,
            local_client(base_url=door.url, headers=token) as http,
        ):
            name = await peer.begin("SCRIPT:text hello there")
            await peer.until("stream_end")
            read = (await http.get(f"/api/conversations/{name}")).json()["data"]
            stored = "".join(block["text"] for block in read["messages"][1]["content"])
            assert stored == peer.client.conversations[name].answers[0].text
            assert [one["id"] for one in (await http.get("/api/conversations")).json()["data"]] == [name]
        async with local_client(base_url=gateway.url) as http:
            headers = {"Authorization": f"Bearer {gateway.token}"}
            page = (await http.get(f"/v1/sessions/{name}/events", headers=headers)).json()
            assert "user.message" in [event["type"] for event in page["events"]]
