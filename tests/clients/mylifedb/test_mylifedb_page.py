"""Requests that MyLifeDB's pages make when they are opened, sent to a door in the same order.

The pages themselves cannot be fetched on a fresh machine: these are the requests that they were observed to make, and
the parts of each answer that they read.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect

from fairlead.config import Config, DoorConfig
from fairlead.wiring import GatewayInfo, running
from local_http import local_client
from patience import PATIENCE

pytestmark = pytest.mark.process

ITEM: dict[str, Any] = {
    "id": str,
    "title": str,
    "workingDir": str,
    "createdAt": int,
    "lastActivity": int,
    "lastUserActivity": int,
    "messageCount": int,
    "sessionState": str,
    "permissionMode": str,
    "isActive": bool,
    "status": str,
}


@asynccontextmanager
async def page(folder: Path) -> AsyncIterator[tuple[GatewayInfo, httpx2.AsyncClient]]:
    """Run a gateway with a door; the client is the page's `fetch`, signed in."""
    for name in ("notes", "notes/2026", ".hidden"):
        (folder / "life" / name).mkdir(parents=True, exist_ok=True)
    door = DoorConfig(port=0, options={"pages": "1"})
    config = Config(
        port=0, data=str(folder / "data"), agent="demo", roots=(str(folder / "life"),), door={"mylifedb": door}
    )
    async with running(config, {"HOME": str(folder), "PATH": "/usr/bin:/bin"}) as gateway:
        headers = {"Authorization": f"Bearer {gateway.token}"}
        url = gateway.doors[0].url
        async with local_client(base_url=url, headers=headers) as http:
            yield gateway, http


async def answered(http: httpx2.AsyncClient, path: str) -> Any:
    answer = await http.get(path)
    assert answer.status_code == 200, (path, answer.text)
    return answer.json()


async def test_it_reports_a_signed_in_user_and_rejects_requests_without_credentials(tmp_path: Path) -> None:
    async with page(tmp_path) as (gateway, http):
        assert isinstance((await answered(http, "/api/settings"))["preferences"], dict)
        assert (await answered(http, "/api/claude/auth-status")) == {"loggedIn": True}
        assert (await http.post("/api/oauth/refresh")).status_code == 200
        back = await http.get("/api/oauth/authorize")
        assert back.status_code == 302 and back.next_request is not None
        assert back.next_request.url.path == "/"
        async with local_client(base_url=gateway.doors[0].url) as stranger:
            for method, path in (
                ("GET", "/api/settings"),
                ("GET", "/api/claude/auth-status"),
                ("POST", "/api/oauth/refresh"),
                ("GET", "/api/oauth/authorize"),
                ("GET", "/api/library/tree"),
                ("GET", "/api/claude/sessions/all"),
            ):
                assert (await stranger.request(method, path)).status_code == 401, path


async def test_the_folder_picker_begins_at_the_root_and_goes_into_folders(tmp_path: Path) -> None:
    root = str(tmp_path / "life")
    async with page(tmp_path) as (_, http):
        begin = await answered(http, "/api/library/tree?depth=0&folder_only=true&fields=path")
        assert begin["basePath"] == root
        older = await answered(http, "/api/library/tree?path=notes&depth=1&folder_only=true&fields=path")
        assert [f"{older['basePath']}/{node['path']}" for node in older["children"]] == [f"{root}/notes/2026"]
        newer = await answered(http, f"/api/library/tree?path={root}/notes&depth=1&folderOnly=true&fields=path")
        assert [f"{newer['basePath']}/{node['path']}" for node in newer["children"]] == [f"{root}/notes/2026"]
        assert [node["path"] for node in (await answered(http, f"/api/library/tree?path={root}"))["children"]] == [
            "notes"
        ]
        assert (await answered(http, "/api/library/tree?path=nowhere"))["children"] == []
        for outside in ("/etc", "../data", f"{root}/../data"):
            refused = await http.get("/api/library/tree", params={"path": outside})
            assert refused.status_code == 403 and "outside the allowed folders" in refused.json()["error"]


async def test_from_an_empty_list_to_the_first_answer(tmp_path: Path) -> None:
    async with page(tmp_path) as (gateway, http):
        empty = await answered(http, "/api/claude/sessions/all?limit=20&status=active")
        assert empty == {"sessions": [], "pagination": {"hasMore": False, "nextCursor": "", "totalCount": 0}}
        async with http.stream("GET", "/api/notifications/stream") as news:
            assert news.headers["content-type"] == "text/event-stream"
            lines = news.aiter_lines()
            body = {"workingDir": str(tmp_path / "life" / "notes"), "permissionMode": "default"}
            made = (await http.post("/api/claude/sessions", json=body)).json()
            assert made["title"] == "Session 1" and made["workingDir"] == body["workingDir"]
            assert await _next_change(lines) == (made["id"], "created")
        path = f"/api/claude/sessions/{made['id']}"
        address = gateway.doors[0].url.replace("http", "ws", 1)
        headers = {"Authorization": f"Bearer {gateway.token}"}
        async with connect(f"{address}{path}/subscribe", additional_headers=headers, proxy=None) as socket:
            first = json.loads(await asyncio.wait_for(socket.recv(), PATIENCE))
            assert first == {"type": "session_info", "totalPages": 1, "lowestBurstPage": 0}
            assert (await http.patch(path, json={"title": "Hello"})).json() == {"success": True}
            await socket.send(json.dumps({"type": "user_message", "content": "SCRIPT:text hello"}))
            kinds: list[str] = []
            while "result" not in kinds:
                kinds.append(json.loads(await asyncio.wait_for(socket.recv(), PATIENCE))["type"])
            (item,) = (await answered(http, "/api/claude/sessions/all?limit=20&status=active"))["sessions"]
            assert {name: type(item[name]) for name in ITEM} == ITEM
            assert (item["title"], item["sessionState"], item["messageCount"]) == ("Hello", "idle", 2)
        older = await answered(http, f"{path}/messages?page=0")
        assert (older["totalPages"], older["sealed"]) == (1, False)
        assert (await answered(http, f"{path}/history"))["messages"] == older["messages"]
        refused = await http.post("/api/claude/sessions", json={**body, "mode": "cli"})
        assert refused.status_code == 400 and "cannot run in a terminal" in refused.json()["error"]


async def _next_change(lines: AsyncIterator[str]) -> tuple[str, str]:
    async with asyncio.timeout(PATIENCE):
        async for line in lines:
            if line.startswith("data: "):
                data = json.loads(line[6:])["data"]
                return data["sessionId"], data["operation"]
    raise AssertionError("the stream ended")
