"""A real uvicorn in a thread, and the endpoints that the tests of the driver use."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from fairlead.model.formats.frames import binary_frame, text_frame
from fairlead.server.websocket.connection import EXTENSION, Connection, ConnectionOptions, Endpoint
from fairlead.server.websocket.errors import Misuse
from fairlead.server.websocket.keepalive import Keepalive
from fairlead.server.websocket.protocol import WebSocketDriver, driver_class, run_endpoint
from server.websocket.rawclient import wait_until

MEBIBYTE = 1 << 20
SMALL = ConnectionOptions(max_message=MEBIBYTE, max_write_buffer=2 * MEBIBYTE)


class Hub:
    """State that the endpoints of one server share and the tests read."""

    def __init__(self) -> None:
        self.subscribers: dict[str, set[Connection]] = {}
        self.closes: list[tuple[str, int]] = []
        self.seen: Counter[str] = Counter()
        self.gates: dict[str, asyncio.Event] = {}
        self.loop: asyncio.AbstractEventLoop | None = None

    async def wait_for_gate(self, name: str) -> None:
        self.loop = asyncio.get_running_loop()
        self.gates[name] = asyncio.Event()
        await self.gates[name].wait()

    def open_gate(self, name: str) -> None:
        wait_until(lambda: name in self.gates, f"someone at the gate {name}")
        assert self.loop is not None
        self.loop.call_soon_threadsafe(self.gates.pop(name).set)


class Base:
    name = "base"

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def on_open(self, conn: Connection) -> None:
        self.hub.seen[f"{self.name} open"] += 1

    def on_message(self, conn: Connection, data: bytes, text: bool) -> None:
        self.hub.seen[f"{self.name} message"] += 1

    def on_drain(self, conn: Connection) -> None:
        self.hub.seen[f"{self.name} drain"] += 1

    def on_batch_end(self, conn: Connection) -> None:
        self.hub.seen[f"{self.name} batch"] += 1

    def on_close(self, conn: Connection, code: int) -> None:
        assert isinstance(conn, WebSocketDriver)
        assert not conn._open
        self.hub.closes.append((self.name, code))


class Echo(Base):
    name = "echo"

    def on_message(self, conn: Connection, data: bytes, text: bool) -> None:
        conn.send(text_frame(data) if text else binary_frame(data))


class CompressedEcho(Base):
    name = "compressed"

    def on_message(self, conn: Connection, data: bytes, text: bool) -> None:
        conn.send_compressed(data, binary=not text)


class Kick(Base):
    name = "kick"

    def on_message(self, conn: Connection, data: bytes, text: bool) -> None:
        super().on_message(conn, data, text)
        conn.close(int(data), "bye")


class Boom(Base):
    """Fails in the callback that the path names."""

    name = "boom"

    def __init__(self, hub: Hub, where: str) -> None:
        super().__init__(hub)
        self.where = where

    def on_open(self, conn: Connection) -> None:
        self.blow("open")

    def on_message(self, conn: Connection, data: bytes, text: bool) -> None:
        super().on_message(conn, data, text)
        self.blow("message")

    def on_batch_end(self, conn: Connection) -> None:
        self.blow("batch")

    def on_close(self, conn: Connection, code: int) -> None:
        super().on_close(conn, code)
        self.blow("close")

    def blow(self, where: str) -> None:
        if where == self.where:
            raise RuntimeError("boom")


class Subscriber(Base):
    name = "subscriber"

    def __init__(self, hub: Hub, topic: str) -> None:
        super().__init__(hub)
        self.members = hub.subscribers.setdefault(topic, set())

    def on_open(self, conn: Connection) -> None:
        super().on_open(conn)
        self.members.add(conn)

    def on_close(self, conn: Connection, code: int) -> None:
        super().on_close(conn, code)
        self.members.discard(conn)


class Publisher(Base):
    """Frames of one read are joined and written once to each subscriber."""

    name = "publisher"

    def __init__(self, hub: Hub, topic: str) -> None:
        super().__init__(hub)
        self.members = hub.subscribers.setdefault(topic, set())
        self.pending: list[bytes] = []

    def on_message(self, conn: Connection, data: bytes, text: bool) -> None:
        self.pending.append(text_frame(data))

    def on_batch_end(self, conn: Connection) -> None:
        if self.pending:
            frames, self.pending = b"".join(self.pending), []
            for member in self.members:
                member.send(frames)


class Flood(Base):
    """Sends a mebibyte whenever the buffer has room, `rounds` times; counts how often it had to wait."""

    name = "flood"

    def __init__(self, hub: Hub, rounds: int = 8) -> None:
        super().__init__(hub)
        self.rounds = rounds

    def on_open(self, conn: Connection) -> None:
        self.go(conn)

    def on_drain(self, conn: Connection) -> None:
        super().on_drain(conn)
        self.go(conn)

    def go(self, conn: Connection) -> None:
        while self.rounds and conn.backlog() < 65536:
            self.rounds -= 1
            conn.send(text_frame(b"f" * MEBIBYTE))
        if not self.rounds:
            conn.send(text_frame(b"done"))


class Valve(Base):
    """Pauses reading at every message; "open" from a second connection resumes it."""

    name = "valve"
    stopped: Connection | None = None

    def on_message(self, conn: Connection, data: bytes, text: bool) -> None:
        super().on_message(conn, data, text)
        if data == b"open" and Valve.stopped is not None:
            Valve.stopped.resume()
        else:
            Valve.stopped = conn
            conn.pause()
        conn.send(text_frame(b"seen"))


def build_app(hub: Hub) -> Starlette:
    def serving(
        make: Callable[[WebSocket], Endpoint], options: ConnectionOptions = SMALL
    ) -> Callable[[WebSocket], Awaitable[None]]:
        async def serve(ws: WebSocket) -> None:
            chosen = "gw.v1" if "gw.v1" in ws.scope["subprotocols"] else None
            await run_endpoint(ws.scope, ws.receive, ws.send, make(ws), options=options, subprotocol=chosen)

        return serve

    async def secret(ws: WebSocket) -> None:
        known = "authorization" in ws.headers
        response = PlainTextResponse("not you\n", 403) if known else PlainTextResponse("who are you\n", 401)
        await ws.send_denial_response(response)

    async def denial_stream(ws: WebSocket) -> None:
        await ws.send_denial_response(StreamingResponse(iter(["a", "b", "c"]), 418))

    async def closed_before_accept(ws: WebSocket) -> None:
        await ws.close()

    async def forgetful(ws: WebSocket) -> None:
        """Neither accepts nor refuses."""

    async def broken(ws: WebSocket) -> None:
        raise RuntimeError("before accept")

    async def broken_later(ws: WebSocket) -> None:
        await ws.accept()
        raise RuntimeError("after accept")

    async def late(ws: WebSocket) -> None:
        await ws.accept()
        await hub.wait_for_gate("late")
        hub.closes.append(("late returned", await ws.scope["extensions"][EXTENSION].run(Echo(hub))))

    async def undecided(ws: WebSocket) -> None:
        await hub.wait_for_gate("undecided")
        await ws.accept()

    async def impolite(ws: WebSocket) -> None:
        connection = ws.scope["extensions"][EXTENSION]
        for name, call in (
            ("run before accept", lambda: connection.run(Echo(hub))),
            ("send before accept", lambda: ws._send({"type": "websocket.send", "text": "x"})),
        ):
            try:
                await call()
            except Misuse:
                hub.seen[name] += 1
        await ws.accept()
        try:
            connection.configure(ConnectionOptions())
        except Misuse:
            hub.seen["configure after accept"] += 1
        running = asyncio.ensure_future(connection.run(Echo(hub)))
        await asyncio.sleep(0)
        try:
            await connection.run(Echo(hub))
        except Misuse:
            hub.seen["run twice"] += 1
        await running

    async def stuck(ws: WebSocket) -> None:
        await ws.accept()
        await hub.wait_for_gate("stuck")

    async def hello(request: Any) -> PlainTextResponse:
        return PlainTextResponse("hello")

    return Starlette(
        routes=[
            Route("/hello", hello),
            WebSocketRoute("/echo", serving(lambda ws: Echo(hub))),
            WebSocketRoute("/compressed", serving(lambda ws: CompressedEcho(hub), ConnectionOptions(compress=True))),
            WebSocketRoute("/kick", serving(lambda ws: Kick(hub))),
            WebSocketRoute("/boom/{where}", serving(lambda ws: Boom(hub, ws.path_params["where"]))),
            WebSocketRoute("/sub/{topic}", serving(lambda ws: Subscriber(hub, ws.path_params["topic"]))),
            WebSocketRoute("/pub/{topic}", serving(lambda ws: Publisher(hub, ws.path_params["topic"]))),
            WebSocketRoute("/flood", serving(lambda ws: Flood(hub))),
            WebSocketRoute("/valve", serving(lambda ws: Valve(hub))),
            WebSocketRoute("/secret", secret),
            WebSocketRoute("/denial-stream", denial_stream),
            WebSocketRoute("/closed-before-accept", closed_before_accept),
            WebSocketRoute("/forgetful", forgetful),
            WebSocketRoute("/broken", broken),
            WebSocketRoute("/broken-later", broken_later),
            WebSocketRoute("/late", late),
            WebSocketRoute("/undecided", undecided),
            WebSocketRoute("/impolite", impolite),
            WebSocketRoute("/stuck", stuck),
        ]
    )


class RunningServer:
    def __init__(
        self,
        loop: str = "uvloop",
        *,
        close_timeout: float = 5.0,
        keepalive: Keepalive | None = None,
        **settings: Any,
    ) -> None:
        self.hub = Hub()
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        self.port: int = listener.getsockname()[1]
        config = uvicorn.Config(
            build_app(self.hub),
            loop=loop,
            log_config=None,
            lifespan="off",
            ws=driver_class(keepalive=keepalive, close_timeout=close_timeout),
            **settings,
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listener]})
        self.thread.start()
        wait_until(lambda: self.server.started, "the server's start")

    @property
    def connections(self) -> int:
        return len(self.server.server_state.connections)

    def drivers(self) -> list[WebSocketDriver]:
        return [one for one in self.server.server_state.connections if isinstance(one, WebSocketDriver)]

    def end_of_connections(self) -> None:
        """Wait until the connections of earlier tests have ended: the server outlives a test."""
        state = self.server.server_state
        wait_until(lambda: not (state.connections or state.tasks), "the end of other connections")

    def begin_stop(self) -> None:
        self.server.should_exit = True

    def stop(self) -> None:
        self.begin_stop()
        self.thread.join(20)
        state = self.server.server_state
        assert not self.thread.is_alive(), f"still there: {state.connections} {state.tasks}"
