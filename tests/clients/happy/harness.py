"""Happy clients on a running gateway with the demo agent: helpers for the plain and the encrypted form."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
from websockets.asyncio.client import ClientConnection, connect

from clients.happy.envelopes import made
from fairlead.config import load
from fairlead.wiring import GatewayInfo, running
from fairlead_testing.happy_client import HappyClient
from local_http import local_client
from patience import PATIENCE

UNKNOWN = "99999999-9999-4999-8999-999999999999"


class HappyPeer:
    """A client on its socket."""

    def __init__(self, socket: ClientConnection, client: HappyClient) -> None:
        self.socket = socket
        self.client = client
        self.frames: list[dict[str, Any]] = []
        self.resumed: dict[str, Any] = {}

    async def until(self, wanted: Callable[[HappyClient], Any]) -> Any:
        async with asyncio.timeout(PATIENCE):
            while not (found := wanted(self.client)):
                frame = json.loads(await self.socket.recv())
                if frame.get("type") == "resumed":
                    self.resumed = frame
                    continue
                self.frames.append(frame)
                made.append(frame["content"])
                assert self.client.receive(frame["meta"]["seq"], frame)
        return found

    async def turn_over(self) -> None:
        before = len(over(self.client))
        await self.until(lambda client: len(over(client)) > before)


def over(client: HappyClient) -> list[str]:
    return [turn.status for turn in client.state.turns if turn.status]


def words(client: HappyClient) -> list[str]:
    return [part.get("text", "") for shown in client.state.shown for part in shown.content if part["type"] == "text"]


class HappyGateway:
    def __init__(self, gateway: GatewayInfo, http: httpx2.AsyncClient, session: str) -> None:
        self.gateway = gateway
        self.http = http
        self.session = session
        self.url = f"/v3/sessions/{session}/messages"

    @contextlib.asynccontextmanager
    async def open_peer(
        self, query: str = "", client: HappyClient | None = None, session: str = "", token: str | None = None
    ) -> AsyncIterator[HappyPeer]:
        token = self.gateway.token if token is None else token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"{self.gateway.url.replace('http', 'ws', 1)}/v1/sessions/{session or self.session}/envelopes{query}"
        async with connect(url, additional_headers=headers) as socket:
            yield HappyPeer(socket, client or HappyClient())

    async def post(self, *posts: tuple[str, Any]) -> list[dict[str, Any]]:
        messages = [{"localId": local, "content": content} for local, content in posts]
        answer = await self.http.post(self.url, json={"messages": messages})
        assert answer.status_code == 200, answer.text
        return list(answer.json()["messages"])

    async def page(self, query: str = "") -> dict[str, Any]:
        answer = await self.http.get(self.url + query)
        assert answer.status_code == 200, answer.text
        page: dict[str, Any] = answer.json()
        return page


def user_message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": {"type": "text", "text": text}, "meta": {"sentFrom": "phone"}}


@contextlib.asynccontextmanager
async def open_gateway(tmp_path: Path, session: str = "") -> AsyncIterator[HappyGateway]:
    """Run a gateway on the data below `tmp_path`, with a new session unless `session` is given."""
    given = {"data": str(tmp_path / "data"), "port": 0, "roots": [str(tmp_path)], "agent": "demo"}
    config = load({"HOME": str(tmp_path)}, given).config
    async with running(config, {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}) as gateway:
        headers = {"Authorization": f"Bearer {gateway.token}"}
        async with local_client(base_url=gateway.url, headers=headers) as http:
            if not session:
                session = (await http.post("/v1/sessions", json={"cwd": str(tmp_path)})).json()["session"]
            yield HappyGateway(gateway, http, session)


async def answer_all(gateway: HappyGateway, peer: HappyPeer) -> None:
    """Allow every permission request over the native protocol until the turn is over."""
    while True:
        await peer.until(lambda client: waiting(peer) or (client.state.turns and not client.state.open_turn))
        asked = waiting(peer)
        if not asked:
            return
        for request in asked:
            answer = await gateway.http.post(f"/v1/permissions/{request}", json={"behavior": "allow"})
            assert answer.status_code == 200, answer.text
        await peer.until(lambda client: not waiting(peer))


def waiting(peer: HappyPeer) -> set[str]:
    facts = [frame["content"]["ev"].get("permission") for frame in peer.frames]
    settled = {fact["request"] for fact in facts if fact and fact["state"] != "asked"}
    return {fact["request"] for fact in facts if fact} - settled
