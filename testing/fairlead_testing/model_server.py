"""The HTTP side that the scripted models share: a server on loopback, and responses that are sent piece by piece."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator, Mapping

import uvicorn
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from fairlead_testing.model_stream import CutHere, Piece


class LoopbackServer:
    """Serves an application on a loopback port from `start` to `stop`; port 0 takes a free one."""

    def __init__(self, app: ASGIApp, port: int = 0) -> None:
        self.url = ""
        self._port = port
        # Without log_config: it would configure the logging of the whole process, and other tests look at that.
        self._server = _Server(uvicorn.Config(app, lifespan="off", log_config=None, access_log=False))
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", self._port))
            listener.listen()  # from here on a client may connect, however long the server takes to come up
        except OSError:
            listener.close()
            raise
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]))

    async def stop(self) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        await self.served()
        # A client may have connected while the server stopped: asyncio needs up to two steps to accept it, and then
        # nobody would close its connection.
        for _ in range(3):
            await asyncio.sleep(0)
        connections = self._server.server_state.connections
        for connection in list(connections):
            connection.transport.abort()
        while connections:
            await asyncio.sleep(0)

    async def served(self) -> None:
        """Returns when the server has ended."""
        assert self._serving is not None
        await self._serving


class EventStream(Response):
    """A response that sends server-sent events one by one and may break off without an end event.

    `delta_delay` is the pace of the pieces that have none of their own.
    """

    media_type = "text/event-stream"

    def __init__(
        self, pieces: Iterator[Piece | CutHere], headers: Mapping[str, str] | None = None, delta_delay: float = 0.0
    ) -> None:
        super().__init__(headers={"cache-control": "no-cache", **(headers or {})})
        del self.headers["content-length"]
        self._pieces = pieces
        self._delta_delay = delta_delay

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            async for data in self._paced(gone):
                await send({"type": "http.response.body", "body": data, "more_body": True})
        except _BrokenOff:
            return  # An unfinished response: the server closes the connection, as a cut stream would.
        finally:
            gone.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _paced(self, gone: asyncio.Future[None]) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            if gone.done():
                return
            if isinstance(piece, CutHere):
                # Send the bytes before the cut first: a close may overtake them.
                await asyncio.wait([gone], timeout=0.05)
                raise _BrokenOff
            yield piece.data
            delay = piece.delay if piece.delay is not None else self._delta_delay
            if delay:
                await asyncio.wait([gone], timeout=delay)


class _BrokenOff(Exception):
    """The script demands that the connection breaks here."""


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


class _Server(uvicorn.Server):
    """uvicorn inside another program, which keeps its signal handlers."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close every connection. With `force_exit` uvicorn leaves open those that still send a response."""
        await super().shutdown(sockets)
        for task in self.server_state.tasks:
            task.cancel()
        await asyncio.gather(*self.server_state.tasks, return_exceptions=True)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        while self.server_state.connections:
            await asyncio.sleep(0)
