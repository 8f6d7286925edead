"""The whole gateway with the demo agent, claudecodeui on its door, and a user who has signed in there."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
from websockets.asyncio.client import ClientConnection, connect

from fairlead.config import load
from fairlead.wiring import GatewayInfo, running
from local_http import local_client
from patience import PATIENCE

PASSWORD = "correct horse"
SESSIONS = "/api/providers/sessions"


class SignedGateway:
    """`http` is the user's client on the door, `admin` the owner's client on the main port."""

    def __init__(
        self, gateway: GatewayInfo, project: Path, http: httpx2.AsyncClient, admin: httpx2.AsyncClient
    ) -> None:
        self.gateway = gateway
        self.project = project
        self.http = http
        self.admin = admin
        self.door = gateway.doors[0].url
        self.token = ""

    async def add(self, name: str, password: str = PASSWORD, **more: Any) -> None:
        answer = await self.admin.post("/v1/users", json={"name": name, "password": password, **more})
        assert answer.status_code == 201, answer.text

    async def login(self, name: str, password: str = PASSWORD) -> httpx2.Response:
        body = {"username": name, "password": password}
        return await self.http.post("/api/auth/login", json=body, headers={"authorization": ""})

    async def sign_in(self, name: str, password: str = PASSWORD) -> str:
        token: str = (await self.login(name, password)).json()["token"]
        return token

    async def data(self, path: str) -> Any:
        answer = await self.http.get(path)
        assert answer.status_code == 200, answer.text
        body = answer.json()
        assert body["success"] is True
        return body["data"]

    async def create(self, message: str = "", path: str | None = None) -> str:
        body = {"provider": "claude", "projectPath": path or str(self.project), "initialMessage": message}
        answer = await self.http.post(SESSIONS, json=body)
        assert answer.status_code == 201, answer.text
        session: str = answer.json()["data"]["sessionId"]
        return session

    @contextlib.asynccontextmanager
    async def chat(self, token: str | None = None) -> AsyncIterator[ClientConnection]:
        url = f"{self.door.replace('http', 'ws', 1)}/ws?token={self.token if token is None else token}"
        async with connect(url, proxy=None, max_size=None, open_timeout=PATIENCE) as socket:
            yield socket

    async def run(self, session: str, content: str) -> list[dict[str, Any]]:
        """Send a prompt and wait for the end of the run; returns all frames received."""
        async with self.chat() as socket:
            await socket.send(json.dumps({"type": "chat.send", "sessionId": session, "content": content}))
            return await frames_until(socket, lambda frame: frame["kind"] == "complete")


async def frames_until(socket: ClientConnection, last: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    frames: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE):
        while not frames or not last(frames[-1]):
            frames.append(json.loads(await socket.recv()))
    return frames


@contextlib.asynccontextmanager
async def signed_gateway(folder: Path, **settings: Any) -> AsyncIterator[SignedGateway]:
    """A gateway on which `ann` has signed in."""
    project = folder / "project"
    project.mkdir(exist_ok=True)
    given = {"data": str(folder / "data"), "port": 0, "roots": [str(folder)], "agent": "demo", **settings}
    given.setdefault("door", {"claudecodeui": {"port": 0}})
    env = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
    async with running(load(env, given).config, env) as gateway:
        door = local_client(base_url=gateway.doors[0].url)
        owner = {"authorization": f"Bearer {gateway.token}"}
        main = local_client(base_url=gateway.url, headers=owner)
        async with door as http, main as admin:
            made = SignedGateway(gateway, project, http, admin)
            known = [user["name"] for user in (await admin.get("/v1/users")).json()["users"]]
            if "ann" not in known:
                await made.add("ann", scopes=["view", "chat", "approve", "terminal"])
            made.token = await made.sign_in("ann")
            http.headers["authorization"] = f"Bearer {made.token}"
            yield made
