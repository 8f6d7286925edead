"""The servers that websocket_relay.py compares: each prints its port, then sends every message of /pub to every /sub.

Run as `python bench/websocket_servers.py own|stock|websockets`.
"""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from typing import Any

import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.server import ServerConnection, broadcast, serve
from websockets.exceptions import ConnectionClosed

from fairlead.model.formats.frames import text_frame
from fairlead.server.websocket.connection import Connection, ConnectionOptions
from fairlead.server.websocket.protocol import driver_class, run_endpoint


class Group:
    """Frames of one read are built once, joined, and written once to each subscriber."""

    def __init__(self) -> None:
        self.members: set[Connection] = set()
        self.pending: list[bytes] = []


class Peer:
    def __init__(self, group: Group, publishes: bool) -> None:
        self.group = group
        self.publishes = publishes

    def on_open(self, conn: Connection) -> None:
        if not self.publishes:
            self.group.members.add(conn)

    def on_message(self, conn: Connection, data: bytes, text: bool) -> None:
        self.group.pending.append(text_frame(data))

    def on_drain(self, conn: Connection) -> None:
        """Do nothing: no data is held back here."""

    def on_batch_end(self, conn: Connection) -> None:
        if self.group.pending:
            frames = b"".join(self.group.pending)
            self.group.pending.clear()
            for member in self.group.members:
                member.send(frames)

    def on_close(self, conn: Connection, code: int) -> None:
        self.group.members.discard(conn)


async def relay_by_asgi(ws: WebSocket, members: set[WebSocket]) -> None:
    """The same relay as an ordinary ASGI application."""
    await ws.accept()
    if ws.url.path == "/sub":
        members.add(ws)
    with suppress(WebSocketDisconnect):
        async for text in ws.iter_text():
            for member in tuple(members):
                await member.send_text(text)
    members.discard(ws)


def run_uvicorn(settings: dict[str, Any], *, stock: bool) -> None:
    group = Group()
    members: set[WebSocket] = set()

    async def join(ws: WebSocket) -> None:
        if stock:
            await relay_by_asgi(ws, members)
            return
        endpoint = Peer(group, publishes=ws.url.path == "/pub")
        # Enough for the whole burst: this measures speed, not the handling of slow readers.
        options = ConnectionOptions(max_write_buffer=64 << 20)
        await run_endpoint(ws.scope, ws.receive, ws.send, endpoint, options=options)

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(2048)  # before the port is printed: the load client connects at once
    print(listener.getsockname()[1], flush=True)
    app = Starlette(routes=[WebSocketRoute("/pub", join), WebSocketRoute("/sub", join)])
    config = uvicorn.Config(app, loop="uvloop", log_level="error", lifespan="off", **settings)
    uvicorn.Server(config).run(sockets=[listener])


async def run_websockets() -> None:
    members: set[ServerConnection] = set()

    async def handle(connection: ServerConnection) -> None:
        assert connection.request is not None
        if connection.request.path == "/sub":
            members.add(connection)
            await connection.wait_closed()
            members.discard(connection)
        else:
            with suppress(ConnectionClosed):  # the load client disconnects without a close frame
                async for message in connection:
                    broadcast(members, message)

    async with serve(handle, "127.0.0.1", 0, compression=None) as server:
        print(next(iter(server.sockets)).getsockname()[1], flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    match sys.argv[1]:
        case "own":
            run_uvicorn({"ws": driver_class()}, stock=False)
        case "stock":
            run_uvicorn({"ws": "websockets-sansio", "ws_per_message_deflate": False}, stock=True)
        case "websockets":
            uvloop.run(run_websockets())  # the same event loop for all
        case other:
            sys.exit(f"unknown server {other!r}: own, stock or websockets")
