"""Our WebSocket driver: a protocol class for `uvicorn --ws`. The handshake goes through ASGI, the data does not.

After the application accepted, `await connection.run(endpoint)` passes the socket to an Endpoint (open_connection.py).
uvicorn does not document the interface of such a class; the tests pin it.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, cast

from uvicorn.config import Config
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.server import ServerState

from fairlead.server.asgi import Application, Receive, Scope, Send
from fairlead.server.websocket.asgi import AsgiCall, HandshakePhase, websocket_scope
from fairlead.server.websocket.connection import DEFAULT_OPTIONS, EXTENSION, ConnectionOptions, Endpoint
from fairlead.server.websocket.errors import BadHandshake, Misuse
from fairlead.server.websocket.frames import ABNORMAL
from fairlead.server.websocket.handshake import parse_head, refusal
from fairlead.server.websocket.keepalive import Keepalive
from fairlead.server.websocket.open_connection import DEFAULT_CLOSE_TIMEOUT, OpenConnection, ignore

logger = logging.getLogger("fairlead.server.websocket")

MAX_EARLY_BYTES: Final = 64 * 1024
"""Bytes that a peer may send before an endpoint is attached. Beyond that reading pauses, or the connection is aborted
if it has not been accepted yet."""


class WebSocketDriver(OpenConnection):
    """One connection. uvicorn creates these objects, so a server's settings are class attributes: `driver_class`."""

    __slots__ = ("_app_state", "_call", "_config", "_done", "_server_state", "_waiting", "lost")

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(_loop or asyncio.get_running_loop())
        self._config = config
        self._server_state = server_state
        self._app_state = app_state
        self.lost = False
        self._call: AsgiCall | None = None
        self._done: asyncio.Future[int] | None = None
        self._waiting: Callable[[], None] | None = None

    def configure(self, options: ConnectionOptions) -> None:
        """Set the options. Call it before the application accepts: compression is negotiated in the handshake."""
        if self._call is None or self._call.phase is not HandshakePhase.HANDSHAKE:
            raise Misuse("configure() comes before websocket.accept")
        self.options = options

    async def run(self, endpoint: Endpoint) -> int:
        """Serve the accepted connection with `endpoint` until it ends; returns the close code."""
        if self._call is None or self._call.phase is not HandshakePhase.ACCEPTED:
            raise Misuse("run() comes after websocket.accept")
        if not self._open:
            return self.code
        self.attach(endpoint)
        self._done = self._loop.create_future()
        return await self._done

    # For the HTTP protocol class and the application, while the peer has shown no credential.

    def on_authenticated(self, leave: Callable[[], None]) -> None:
        """Register `leave`, which is called when the connection was admitted or is gone."""
        self._waiting = leave

    def mark_authenticated(self) -> None:
        """Note that the handshake carried a valid credential."""
        leave, self._waiting = self._waiting, None
        if leave is not None:
            leave()

    # For the handshake (asgi.AsgiCall).

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        return self._server_state.default_headers

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def abort(self) -> None:
        self._transport.abort()

    # Callbacks of the event loop and of uvicorn.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.peer = get_remote_addr(self._transport)
        self._server_state.connections.add(self)  # type: ignore[arg-type]  # uvicorn names only its own classes

    def eof_received(self) -> None:
        """Return None, which makes the transport close itself; connection_lost follows."""

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self.mark_authenticated()
        if self._share is not None:
            self._share.forget(self)
            self._share = None
        self._end(self.code)
        self._server_state.connections.discard(self)
        if self._close_timer is not None:
            self._close_timer.cancel()
        endpoint, self._endpoint = self._endpoint, None
        self._parser = self._batch_end = None
        self._feed = ignore
        if endpoint is not None:
            try:
                endpoint.on_close(self, self.code)
            except Exception:
                logger.exception("an endpoint failed on the close of %s", self.peer)
        if self._done is not None and not self._done.done():
            self._done.set_result(self.code)

    def shutdown(self) -> None:
        """Close the connection because uvicorn is stopping."""
        if self._open:
            self.close(1012, "the server restarts")
        elif self._call is not None and self._call.phase is HandshakePhase.HANDSHAKE:
            self._call.refuse(503, "the server is stopping")

    # Internal.

    def _before_attach(self, data: bytes) -> None:
        if self._call is None:
            self._on_request(data)
            return
        self._early += data
        if len(self._early) <= MAX_EARLY_BYTES:
            return
        if self._open:
            self.pause()
        else:
            logger.warning("%s sent %d bytes before it was accepted; cut off", self.peer, len(self._early))
            self._early = b""
            self._transport.abort()

    def _on_request(self, data: bytes) -> None:
        """Handle the request head, which uvicorn's HTTP class passes complete and has already checked as HTTP."""
        try:
            head = parse_head(data)
        except BadHandshake as error:
            self._feed = ignore
            self.write(refusal(error.status, error.reason, (*self.default_headers, *error.headers)))
            self.finish()
            return
        self._call = AsgiCall(self, head)
        application = cast("Application", self._config.loaded_app)
        scope = websocket_scope(head, self._config, self._transport)
        scope["state"] = self._app_state.copy()
        scope["extensions"][EXTENSION] = self
        task = self._loop.create_task(self._call.run(application, scope))
        self._server_state.tasks.add(task)
        task.add_done_callback(self._server_state.tasks.discard)


def driver_class(
    *, keepalive: Keepalive | None = None, close_timeout: float = DEFAULT_CLOSE_TIMEOUT
) -> type[WebSocketDriver]:
    """Return the class for `uvicorn.Config(ws=...)`. Servers of one process share one keepalive."""
    settings = {"__slots__": (), "keepalive": keepalive or Keepalive(), "close_timeout": close_timeout}
    return type("ConfiguredWebSocketDriver", (WebSocketDriver,), settings)


async def run_endpoint(
    scope: Scope,
    receive: Receive,
    send: Send,
    endpoint: Endpoint,
    *,
    options: ConnectionOptions = DEFAULT_OPTIONS,
    subprotocol: str | None = None,
) -> int:
    """Accept a connection and serve it; returns the close code. To reject, send ASGI's denial response instead."""
    first = await receive()
    if first["type"] != "websocket.connect":
        return int(first.get("code", ABNORMAL))
    connection: WebSocketDriver = scope["extensions"][EXTENSION]
    connection.configure(options)
    await send({"type": "websocket.accept", "subprotocol": subprotocol})
    return await connection.run(endpoint)
