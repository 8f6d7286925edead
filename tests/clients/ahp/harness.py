"""AHP clients on real sockets of a gateway with the demo agent."""

import asyncio
import contextlib
import itertools
import json
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
from websockets.asyncio.client import ClientConnection, connect

from fairlead.config import load
from fairlead.wiring import GatewayInfo, running
from fairlead_testing.ahp_client import AhpClient, State
from local_http import local_client
from patience import PATIENCE

ROOT = "ahp-root://"
VERSIONS = ["0.9.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1"]
"""As VS Code 1.139 offers them."""


class RequestFailed(Exception):
    def __init__(self, error: State) -> None:
        super().__init__(error["message"])
        self.code = error["code"]
        self.data = error.get("data")


class AhpPeer:
    """One client: what it received is in `client`, folded as a client does."""

    def __init__(self, socket: ClientConnection, name: str) -> None:
        self.socket = socket
        self.name = name
        self.client = AhpClient()
        self.ended = False
        self._ids, self._actions = itertools.count(1), itertools.count(1)
        self._news = asyncio.Condition()

    async def listen(self) -> None:
        async for text in self.socket:
            async with self._news:
                self.client.take(json.loads(text))
                self._news.notify_all()
        async with self._news:
            self.ended = True
            self._news.notify_all()

    async def until(self, wanted: Callable[[AhpClient], Any]) -> Any:
        async with self._news, asyncio.timeout(PATIENCE):
            while not (found := wanted(self.client)):
                assert not self.ended, "the socket was closed"
                await self._news.wait()
        return found

    # --- requests

    async def request(self, method: str, channel: str = ROOT, /, **params: Any) -> Any:
        name = next(self._ids)
        sent = {"jsonrpc": "2.0", "id": name, "method": method, "params": {"channel": channel, **params}}
        await self.socket.send(json.dumps(sent))
        answer = await self.until(lambda client: client.answers.get(name))
        if "error" in answer:
            raise RequestFailed(answer["error"])
        return answer["result"]

    async def initialize(self, *channels: str, versions: list[str] | None = None) -> Any:
        offered = VERSIONS if versions is None else versions
        about: State = {"protocolVersions": offered, "clientId": self.name, "initialSubscriptions": [ROOT, *channels]}
        return await self.request("initialize", **about)

    async def dispatch(self, channel: str, kind: str, /, **fields: Any) -> State:
        """Dispatch an action, and return the envelope that answers it: with our origin."""
        number = next(self._actions)
        params = {"channel": channel, "clientSeq": number, "action": {"type": kind, **fields}}
        await self.socket.send(json.dumps({"jsonrpc": "2.0", "method": "dispatchAction", "params": params}))
        origin = {"clientId": self.name, "clientSeq": number}
        found: State = await self.until(
            lambda client: next((one for one in client.envelopes if one.get("origin") == origin), None)
        )
        return found

    async def prompt(self, session: str, text: str, turn: str = "") -> State:
        turn = turn or f"request_{uuid.uuid4()}"
        fields = {"turnId": turn, "startedAt": "2026-01-01T00:00:00.000Z", "message": message(text)}
        return await self.dispatch(chat_of(session), "chat/turnStarted", **fields)

    # --- looking

    def chat(self, session: str) -> State:
        return self.client.chats[chat_of(session)]

    async def turns(self, session: str, count: int) -> list[State]:
        """Wait for this many finished turns."""
        found: list[State] = await self.until(
            lambda client: (
                len(client.chats[chat_of(session)]["turns"]) >= count and client.chats[chat_of(session)]["turns"]
            )
        )
        return found

    async def call(self, session: str, status: str) -> State:
        """Wait for a call of the open turn in this state."""

        def look(client: AhpClient) -> State | None:
            parts = client.chats[chat_of(session)].get("activeTurn", {}).get("responseParts", [])
            calls = [part["toolCall"] for part in parts if part["kind"] == "toolCall"]
            return next((call for call in calls if call["status"] == status), None)

        found: State = await self.until(look)
        return found


def message(text: str, **more: Any) -> State:
    return {"text": text, "origin": {"kind": "user"}, **more}


def channel_of(session: str) -> str:
    return f"fairlead:/{session}"


def chat_of(session: str) -> str:
    return f"ahp-chat:/{session}"


class AhpGateway:
    def __init__(self, gateway: GatewayInfo, http: httpx2.AsyncClient, folder: Path) -> None:
        self.gateway = gateway
        self.http = http
        self.folder = folder
        self._names = itertools.count(1)

    @contextlib.asynccontextmanager
    async def peer(self, token: str | None = None, name: str = "", **headers: str) -> AsyncIterator[AhpPeer]:
        url = self.gateway.url.replace("http", "ws", 1)
        query = f"/ahp?tkn={self.gateway.token if token is None else token}"
        async with connect(url + query, additional_headers=headers, max_size=None) as socket:
            peer = AhpPeer(socket, name or f"client-{next(self._names)}")
            listening = asyncio.create_task(peer.listen())
            try:
                yield peer
            finally:
                listening.cancel()
                await asyncio.wait({listening})

    async def token(self, *scopes: str) -> str:
        answer = await self.http.post("/v1/tokens", json={"name": "-".join(scopes), "scopes": scopes})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["secret"])

    async def create(self, **fields: Any) -> str:
        made = await self.http.post("/v1/sessions", json={"cwd": str(self.folder), **fields})
        assert made.status_code == 201, made.text
        return str(made.json()["session"])

    async def events(self, session: str) -> list[State]:
        found: list[State] = (await self.http.get(f"/v1/sessions/{session}/events?limit=500")).json()["events"]
        return found


@contextlib.asynccontextmanager
async def ahp_gateway(folder: Path) -> AsyncIterator[AhpGateway]:
    project = folder / "project"
    project.mkdir(exist_ok=True)
    given = {"data": str(folder / "data"), "port": 0, "roots": [str(project)], "agent": "demo"}
    config = load({"HOME": str(folder)}, given).config
    async with running(config, {"HOME": str(folder), "PATH": "/usr/bin:/bin"}) as gateway:
        headers = {"Authorization": f"Bearer {gateway.token}"}
        async with local_client(base_url=gateway.url, headers=headers) as http:
            yield AhpGateway(gateway, http, project)
