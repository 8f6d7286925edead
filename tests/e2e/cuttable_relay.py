"""A relay between the CLI and the gateway that a test can cut: bytes pass both ways until then."""

import asyncio
import contextlib
import itertools
import json
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from patience import PATIENCE

REFUSAL = b"HTTP/1.1 %d Not now\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Relay:
    """Listens on a port of 127.0.0.1 and forwards to the gateway, which sees its own address as the host.

    `heads` are the heads of the received requests, `pings` the times of the WebSocket pings that the CLI sent alone,
    `spoken` counts the reads that began with a message of the CLI on a socket.
    `slam`: every new connection is closed at once, `fail`: every POST is answered with this status; `tries` are the
    times of both, in seconds. `bodies` are those of the POSTs; `received` is everything that the gateway sent.
    """

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.pings: list[float] = []
        self.spoken = 0
        self.port = 0
        self.deaf = self.slam = False
        self.fail = 0
        self.tries: list[float] = []
        self.bodies: list[bytes] = []
        self.received = bytearray()
        self._target = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._came = asyncio.Condition()

    async def __aenter__(self) -> "Relay":
        await self.listen()
        return self

    async def __aexit__(self, *ended: object) -> None:
        await self.away()
        # A connection that was being accepted: asyncio needs up to two steps for that.
        for _ in range(3):
            await asyncio.sleep(0)
        await self.cut()

    def aim(self, urls: Sequence[str]) -> tuple[str, ...]:
        """Our addresses in place of the gateway's own."""
        self._target = urlsplit(urls[0]).port or 0
        return (f"http://127.0.0.1:{self.port}",)

    # --- the wire

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def away(self) -> None:
        """Cut, and refuse every further connection until `listen`."""
        if self._server is not None:
            self._server.close()
        await self.cut()

    async def cut(self) -> None:
        """Close every connection without notifying either side."""
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    # --- received

    def sockets(self) -> list[dict[str, str]]:
        """The headers of each upgrade, names in lower case."""
        upgrades = [head for head in self.heads if "upgrade: websocket" in head.lower()]
        return [_headers(head) for head in upgrades]

    def posts(self) -> list[str]:
        return [head.split(" ")[1] for head in self.heads if head.startswith("POST ")]

    def lines(self) -> list[dict[str, Any]]:
        """Every message that the gateway sent over a socket."""
        return [json.loads(line) for line in re.findall(rb'{"type":.*?\n', bytes(self.received))]

    async def connections(self, count: int, timeout: float = PATIENCE) -> None:
        """Wait for this many upgrades in total."""
        async with asyncio.timeout(timeout), self._came:
            while len(self.sockets()) < count:
                await self._came.wait()

    # --- inside

    async def tried(self, count: int, timeout: float = PATIENCE) -> list[float]:
        """The seconds between this many failed attempts."""
        async with asyncio.timeout(timeout), self._came:
            while len(self.tries) < count:
                await self._came.wait()
        return [later - before for before, later in itertools.pairwise(self.tries)]

    async def _refuse(self, writer: asyncio.StreamWriter, answer: bytes) -> None:
        writer.write(answer)
        writer.close()
        async with self._came:
            self.tries.append(asyncio.get_running_loop().time())
            self._came.notify_all()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.slam:
            await self._refuse(writer, b"")
            return
        # From the beginning: a relay that ends while it connects to the gateway must cut this end too.
        self._writers.add(writer)
        try:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:  # the gateway has ended; its CLI is about to end
            self._writers.discard(writer)
            writer.transport.abort()
            return
        both = {writer, inner_writer}
        self._writers |= both
        try:
            tasks = [
                asyncio.create_task(self._outward(reader, inner_writer, writer)),
                asyncio.create_task(self._inward(inner_reader, writer)),
            ]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        finally:
            self._writers -= both
            for end in both:
                end.transport.abort()

    async def _outward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, back: asyncio.StreamWriter
    ) -> None:
        ours, theirs = f"127.0.0.1:{self.port}".encode(), f"127.0.0.1:{self._target}".encode()
        upgraded = False
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while data := await reader.read(1 << 16):
                if not upgraded and (b"HTTP/1.1\r\n" in data):
                    # Ports chosen by the system have five digits: the length stays the same.
                    data = data.replace(ours, theirs)
                    data = await _whole(data, reader)
                    head = data.partition(b"\r\n\r\n")[0].decode("latin-1")
                    upgraded = "upgrade: websocket" in head.lower()
                    async with self._came:
                        self.heads.append(head)
                        if head.startswith("POST "):
                            self.bodies.append(data.partition(b"\r\n\r\n")[2])
                        self._came.notify_all()
                    if self.fail and head.startswith("POST "):
                        await self._refuse(back, REFUSAL % self.fail)
                        return
                elif data[0] == 0x89:
                    self.pings.append(asyncio.get_running_loop().time())
                elif upgraded and data[0] in (0x81, 0x82):
                    self.spoken += 1
                writer.write(data)
                await writer.drain()

    async def _inward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                self.received += data
                if not self.deaf:
                    writer.write(data)
                    await writer.drain()


async def _whole(data: bytes, reader: asyncio.StreamReader) -> bytes:
    """A request with its whole body; the CLI may send its head alone."""
    while b"\r\n\r\n" not in data:
        data += await reader.readuntil(b"\r\n\r\n")
    head, _, body = data.partition(b"\r\n\r\n")
    rest = int(_headers(head.decode("latin-1")).get("content-length", 0)) - len(body)
    return data + (await reader.readexactly(rest) if rest > 0 else b"")


def _headers(head: str) -> dict[str, str]:
    lines = head.split("\r\n")[1:]
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
