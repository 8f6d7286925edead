"""A direct client on a real socket, for tests."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from fairlead.wiring import GatewayInfo
from fairlead_testing.direct_client import DirectClient, Message
from patience import PATIENCE


class DirectPeer:
    """A direct client on its socket."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.frames: list[str] = []
        self.client = DirectClient(lambda text: self._out.append(text))
        self._out: list[str] = []

    async def flush(self) -> None:
        while self._out:
            await self.socket.send(self._out.pop(0))

    async def until(self, wanted: Callable[[DirectClient], Any]) -> Any:
        async with asyncio.timeout(PATIENCE):
            while not (found := wanted(self.client)):
                frame = await self.socket.recv()
                assert isinstance(frame, str) and frame.endswith("\n")
                self.frames.append(frame)
                self.client.feed(frame)
        return found

    async def prompt(self, text: str) -> None:
        self.client.send_message(text)
        await self.flush()

    async def result(self) -> Message:
        """Wait for the next turn to end and return its result message."""
        before = len(self.results())
        await self.until(lambda _: len(self.results()) > before)
        return self.results()[-1]

    def results(self) -> list[Message]:
        return [message for message in self.client.messages if message["type"] == "result"]


@contextlib.asynccontextmanager
async def connect_peer(gateway: GatewayInfo, session: str, token: str | None = None) -> AsyncIterator[DirectPeer]:
    token = gateway.token if token is None else token
    url = gateway.url.replace("http", "ws", 1)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    path = f"/v1/sessions/ws/{session}/subscribe"
    async with connect(url + path, additional_headers=headers, max_size=None) as socket:
        yield DirectPeer(socket)
