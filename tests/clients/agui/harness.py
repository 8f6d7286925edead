"""AG-UI clients on a running gateway with the demo agent."""

import asyncio
import contextlib
import copy
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2

from fairlead.config import load
from fairlead.wiring import GatewayInfo, running
from fairlead_testing.agui_client import AgUiClient, Event, events_of
from local_http import local_client
from patience import PATIENCE


class Page:
    """A page with one thread: it sends its whole history with each run, as AG-UI's own client does."""

    def __init__(self, gateway: "AgUiGateway", thread: str = "") -> None:
        self.gateway = gateway
        self.thread = thread or str(uuid.uuid4())
        self.client = AgUiClient()
        self.runs: list[list[Event]] = []
        self.body: dict[str, Any] = {}

    def write(self, text: str, name: str = "") -> str:
        name = name or str(uuid.uuid4())
        self.client.messages.append({"id": name, "role": "user", "content": text})
        return name

    def input(self, **more: Any) -> dict[str, Any]:
        messages = copy.deepcopy(self.client.messages)
        return {"threadId": self.thread, "runId": str(uuid.uuid4()), "messages": messages, "state": {}, **more}

    async def run(self, **more: Any) -> list[Event]:
        """Run the thread to the end of the run."""
        return await self.repeat(self.input(**more))

    async def repeat(self, body: dict[str, Any]) -> list[Event]:
        self.body = body
        async with asyncio.timeout(PATIENCE), self.gateway.stream(body) as answer:
            assert answer.status_code == 200, await answer.aread()
            assert answer.headers["content-type"] == "text/event-stream"
            data = b"".join([chunk async for chunk in answer.aiter_bytes()])
        events = events_of(data)
        self.runs.append(events)
        for event in events:
            self.client.apply(event)
        assert not self.client.running
        return events

    async def say(self, text: str) -> list[Event]:
        self.write(text)
        return await self.run()

    async def answer(self, **payload: Any) -> list[Event]:
        """Answer every open interrupt with the same payload."""
        resume = [
            {"interruptId": one["id"], "status": "resolved", "payload": payload} for one in self.client.interrupts
        ]
        return await self.run(resume=resume)

    @property
    def texts(self) -> list[tuple[str, Any]]:
        return [(m["role"], m["content"]) for m in self.client.messages if m["role"] != "tool" and m.get("content")]


class AgUiGateway:
    def __init__(self, gateway: GatewayInfo, http: httpx2.AsyncClient, root: Path) -> None:
        self.gateway = gateway
        self.http = http
        self.root = root

    @contextlib.asynccontextmanager
    async def stream(self, body: Any, path: str = "/v1/agui", token: str = "") -> AsyncIterator[httpx2.Response]:
        headers = {"Accept": "text/event-stream", **({"Authorization": f"Bearer {token}"} if token else {})}
        async with self.http.stream("POST", path, json=body, headers=headers) as answer:
            yield answer

    async def post(self, body: Any, path: str = "/v1/agui", token: str = "") -> httpx2.Response:
        async with self.stream(body, path, token) as answer:
            await answer.aread()
        return answer

    async def token(self, *scopes: str) -> str:
        answer = await self.http.post("/v1/tokens", json={"name": "-".join(scopes), "scopes": list(scopes)})
        assert answer.status_code in (200, 201), answer.text
        return str(answer.json()["secret"])

    async def turns_over(self, session: str, count: int) -> None:
        """Wait until that many turns of a session have ended."""
        async with asyncio.timeout(PATIENCE):
            while True:
                page = (await self.http.get(f"/v1/sessions/{session}/events?limit=1000")).json()
                if sum(event["type"] == "turn.ended" for event in page["events"]) >= count:
                    return
                await asyncio.sleep(0.05)

    def page(self, thread: str = "") -> Page:
        return Page(self, thread)


@contextlib.asynccontextmanager
async def open_gateway(tmp_path: Path) -> AsyncIterator[AgUiGateway]:
    given = {"data": str(tmp_path / "data"), "port": 0, "roots": [str(tmp_path)], "agent": "demo"}
    config = load({"HOME": str(tmp_path)}, given).config
    async with running(config, {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}) as gateway:
        headers = {"Authorization": f"Bearer {gateway.token}"}
        async with local_client(base_url=gateway.url, headers=headers) as http:
            yield AgUiGateway(gateway, http, tmp_path)


def kinds(events: list[Event]) -> list[str]:
    return [event["type"] for event in events]
