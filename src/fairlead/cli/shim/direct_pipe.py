"""The shim for a session that is at work in the gateway: a pipe to that session.

A second process would damage the transcript. The session keeps its own settings, hooks and MCP servers."""

import asyncio
import os
from typing import Final

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from fairlead.cli.shim.gateway import MESSAGE_BYTES, ShimGateway
from fairlead.cli.shim.lines import LineBuffer
from fairlead.client.errors import Unreachable
from fairlead.system.pipes import PipeClosed, PipeReader, PipeWriter

PATH: Final = "/v1/sessions/ws/{session}/subscribe"


class _Typed(msgspec.Struct):
    type: str = ""


class DirectPipe:
    def __init__(self, gateway: ShimGateway, session: str) -> None:
        self._gateway = gateway
        self._session = session
        self._prompts = 0
        self._results = 0
        self._ended = False
        self._over = asyncio.Event()

    async def run(self) -> None:
        """Run until the caller has closed its input and has its results, or the socket is closed. Raises
        Unreachable."""
        url = self._gateway.endpoint.url.replace("http", "ws", 1) + PATH.format(session=self._session)
        headers = {"authorization": f"Bearer {self._gateway.endpoint.token}"}
        try:
            socket = await connect(url, additional_headers=headers, max_size=MESSAGE_BYTES, proxy=None)
        except (OSError, WebSocketException) as error:
            raise Unreachable(f"The session cannot be reached: {error}") from error
        async with socket:
            reading = asyncio.create_task(self._read_caller(socket))
            writing = asyncio.create_task(self._write_caller(socket))
            over = asyncio.create_task(self._over.wait())
            await asyncio.wait({writing, over}, return_when=asyncio.FIRST_COMPLETED)
            for task in (reading, writing, over):
                task.cancel()
            await asyncio.wait({reading, writing, over})

    async def _read_caller(self, socket: ClientConnection) -> None:
        buffer = LineBuffer()

        async def take(data: bytes) -> None:
            for line in buffer.feed(data):
                self._prompts += _type_of(line) == "user"
                await socket.send(line, text=True)

        await PipeReader(os.dup(0)).run(take)
        self._ended = True
        self._check_over()

    async def _write_caller(self, socket: ClientConnection) -> None:
        writer = PipeWriter(os.dup(1))
        try:
            async for message in socket:
                data = message if isinstance(message, bytes) else message.encode()
                await writer.write(data if data.endswith(b"\n") else data + b"\n")
                self._results += sum(_type_of(line) == "result" for line in data.split(b"\n") if b'"result"' in line)
                self._check_over()
        except (PipeClosed, WebSocketException):
            pass
        finally:
            writer.close()

    def _check_over(self) -> None:
        if self._ended and self._results >= self._prompts:
            self._over.set()


def _type_of(line: bytes) -> str:
    try:
        return msgspec.json.decode(line, type=_Typed).type
    except msgspec.DecodeError:
        return ""
