"""A local web server that receives notices and answers as the test configures."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from patience import PATIENCE


class ReceivedCall(msgspec.Struct):
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class WebhookReceiver:
    """`answers` are used up one by one; after that every answer is 200."""

    def __init__(self) -> None:
        self.taken: list[ReceivedCall] = []
        self.answers: list[str] = []
        self.port = 0
        self._news = asyncio.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def until(self, number: int) -> list[ReceivedCall]:
        async with self._news, asyncio.timeout(PATIENCE):
            await self._news.wait_for(lambda: len(self.taken) >= number)
        return self.taken

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        answer = self.answers.pop(0) if self.answers else "200 OK"
        writer.write(f"HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()
        async with self._news:
            self.taken.append(ReceivedCall(head[0].split(" ")[1], headers, body))
            self._news.notify_all()


@contextlib.asynccontextmanager
async def listening() -> AsyncIterator[WebhookReceiver]:
    hook = WebhookReceiver()
    server = await asyncio.start_server(hook.serve, "127.0.0.1", 0)
    hook.port = server.sockets[0].getsockname()[1]
    async with server:
        yield hook
