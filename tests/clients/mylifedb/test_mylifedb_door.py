"""An unmodified client on a dedicated door, and the protocol's name and version."""

import asyncio
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from fairlead.config import Config, DoorConfig
from fairlead.wiring import running
from local_http import local_client
from patience import PATIENCE

pytestmark = pytest.mark.process

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "mylifedb.md"


@pytest.mark.rules("S000-001", "S000-003")
async def test_a_door_is_the_original_server_at_the_root(tmp_path: Path) -> None:
    door = DoorConfig(port=0, options={"pages": "1"})
    config = Config(port=0, data=str(tmp_path / "data"), agent="demo", roots=(str(tmp_path),), door={"mylifedb": door})
    async with running(config, {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}) as gateway:
        (info,) = gateway.doors
        assert info.name == "mylifedb"
        headers = {"Authorization": f"Bearer {gateway.token}"}
        async with local_client(base_url=info.url, headers=headers) as http:
            made = (await http.post("/api/claude/sessions", json={"workingDir": str(tmp_path)})).json()
            assert (await http.get(f"/api/claude/sessions/{made['id']}")).json()["id"] == made["id"]
            assert (await http.get("/v1/sessions")).status_code == 404, "nobody else is here"
            served = (await http.get("/health")).json()["protocols"]
            assert served == ["mylifedb"]
        address = info.url.replace("http", "ws", 1).replace("127.0.0.1", "localhost")
        socket_url = f"{address}/api/claude/sessions/{made['id']}/subscribe?access_token={gateway.token}"
        async with connect(socket_url, proxy=None) as socket:
            first = await asyncio.wait_for(socket.recv(), PATIENCE)
            assert first == '{"type":"session_info","totalPages":1,"lowestBurstPage":0}'
    assert PAGE.read_text().startswith("# The MyLifeDB protocol\n\nVersion 1.0 of")
