"""Our WebSocket driver: a protocol class for `uvicorn --ws`. The handshake goes through ASGI, the data does not.

Each connection is one call of the application, with its receive() and send(), which enforce ASGI's order of messages.
After the application accepted, `await connection.run(endpoint)` passes the socket to an Endpoint (open_connection.py).
uvicorn does not document the interface of such a class; the tests pin it.
"""

import asyncio
import enum
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, cast
from urllib.parse import unquote

from uvicorn.config import Config
from uvicorn.protocols.utils import get_local_addr, get_remote_addr, is_ssl
from uvicorn.server import ServerState

from fairlead.server.asgi import Application, Message, Receive, Scope, Send
from fairlead.server.websocket.connection import DEFAULT_OPTIONS, EXTENSION, ConnectionOptions, Endpoint
from fairlead.server.websocket.deflate import negotiate
from fairlead.server.websocket.errors import BadHandshake, Misuse, PeerGone
from fairlead.server.websocket.frames import ABNORMAL
from fairlead.server.websocket.handshake import RequestHead, accept_response, parse_head, refusal, refusal_head
from fairlead.server.websocket.keepalive import Keepalive
from fairlead.server.websocket.open_connection import DEFAULT_CLOSE_TIMEOUT, OpenConnection, ignore

logger = logging.getLogger("fairlead.server.websocket")

MAX_EARLY_BYTES: Final = 64 * 1024
"""Bytes that a peer may send before an endpoint is attached. Beyond that reading pauses, or the connection is aborted
if it has not been accepted yet."""


class HandshakePhase(enum.Enum):
    REQUEST = enum.auto()
    """The request head has not arrived."""
    HANDSHAKE = enum.auto()
    REFUSING = enum.auto()
    """The application began an HTTP response instead of accepting."""
    REFUSED = enum.auto()
    ACCEPTED = enum.auto()


class WebSocketDriver(OpenConnection):
    """One connection. uvicorn creates these objects, so a server's settings are class attributes: `driver_class`."""

    __slots__ = (
        *("_app_state", "_config", "_done", "_head", "_phase", "_refusal"),
        *("_saw_connect", "_server_state", "_waiting", "lost"),
    )
    _head: RequestHead

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(_loop or asyncio.get_running_loop(), self._before_attach)
        self._config = config
        self._server_state = server_state
        self._app_state = app_state
        self.lost = False
        self._phase = HandshakePhase.REQUEST
        self._saw_connect = False
        self._refusal: Message | None = None
        self._done: asyncio.Future[int] | None = None
        self._waiting: Callable[[], None] | None = None

    def configure(self, options: ConnectionOptions) -> None:
        """Set the options. Call it before the application accepts: compression is negotiated in the handshake."""
        if self._phase is not HandshakePhase.HANDSHAKE:
            raise Misuse("configure() comes before websocket.accept")
        self.options = options

    async def run(self, endpoint: Endpoint) -> int:
        """Serve the accepted connection with `endpoint` until it ends; returns the close code."""
        if self._phase is not HandshakePhase.ACCEPTED:
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
        elif self._phase is HandshakePhase.HANDSHAKE:
            self._refuse(503, "the server is stopping")

    # The handshake: one call of the application.

    def _before_attach(self, data: bytes) -> None:
        """Handle data that comes before an endpoint is attached."""
        if self._phase is HandshakePhase.REQUEST:
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
            self._head = parse_head(data)
        except BadHandshake as error:
            self._feed = ignore
            self._refuse(error.status, error.reason, error.headers)
            return
        self._phase = HandshakePhase.HANDSHAKE
        task = self._loop.create_task(self._run_application())
        self._server_state.tasks.add(task)
        task.add_done_callback(self._server_state.tasks.discard)

    def _scope(self) -> Scope:
        head, config, root = self._head, self._config, self._config.root_path
        return {
            "type": "websocket",
            "asgi": {"version": config.asgi_version, "spec_version": "2.4"},
            "http_version": "1.1",
            "scheme": "wss" if is_ssl(self._transport) else "ws",
            "server": get_local_addr(self._transport),
            "client": self.peer,
            "root_path": root,
            "path": root + unquote(head.path.decode("latin-1")),
            "raw_path": root.encode() + head.path,
            "query_string": head.query,
            "headers": head.headers,
            "subprotocols": head.subprotocols,
            "state": self._app_state.copy(),
            "extensions": {"websocket.http.response": {}, EXTENSION: self},
        }

    async def _run_application(self) -> None:
        application = cast("Application", self._config.loaded_app)
        try:
            await application(self._scope(), self._receive, self._reply)
        except PeerGone:
            logger.debug("%s left before the application was done", self.peer)
        except asyncio.CancelledError:
            self._transport.abort()
            raise
        except Exception:
            logger.exception("the application failed for %s", self.peer)
            self._leave(1011)
        else:
            self._leave(1000)

    async def _receive(self) -> Message:
        if not self._saw_connect:
            self._saw_connect = True
            return {"type": "websocket.connect"}
        return {"type": "websocket.disconnect", "code": self.code}

    async def _reply(self, message: Message) -> None:
        if self.lost:
            raise PeerGone(self.code)
        match self._phase, message["type"]:
            case HandshakePhase.HANDSHAKE, "websocket.accept":
                self._accept(message)
            case HandshakePhase.HANDSHAKE, "websocket.close":
                self._refuse(403, "Forbidden")
            case HandshakePhase.HANDSHAKE, "websocket.http.response.start":
                self._phase = HandshakePhase.REFUSING
                self._refusal = message
            case HandshakePhase.REFUSING, "websocket.http.response.body":
                self._send_body(message.get("body", b""), message.get("more_body", False))
            case phase, kind:
                raise Misuse(f"{kind} is out of order: the connection is {phase.name.lower()}")

    def _refuse(self, status: int, reason: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self._phase = HandshakePhase.REFUSED
        self._transport.write(refusal(status, reason, (*self._server_state.default_headers, *headers)))
        self.finish()

    def _accept(self, message: Message) -> None:
        headers = [*self._server_state.default_headers, *message.get("headers", ())]
        if message.get("subprotocol"):
            headers.append((b"sec-websocket-protocol", message["subprotocol"].encode("latin-1")))
        deflate = None
        if self.options.compress:
            deflate = negotiate(self._head.all(b"sec-websocket-extensions"))
        if deflate is not None:
            headers.append((b"sec-websocket-extensions", deflate.header))
        response = accept_response(self._head.key, headers)
        self._phase = HandshakePhase.ACCEPTED
        self.accept(response, deflate)

    def _send_body(self, body: bytes, more: bool) -> None:
        start, self._refusal = self._refusal, None
        if start is not None:
            headers = [*self._server_state.default_headers, *start.get("headers", ())]
            if not more and not any(name.lower() == b"content-length" for name, _ in headers):
                headers.append((b"content-length", b"%d" % len(body)))
            body = refusal_head(start["status"], headers) + body
        self._transport.write(body)
        if not more:
            self._phase = HandshakePhase.REFUSED
            self.finish()

    def _leave(self, code: int) -> None:
        """Finish the handshake or the connection that the application left open when it returned."""
        match self._phase:
            case HandshakePhase.HANDSHAKE if not self.lost:
                logger.error("the application neither accepted nor refused %s", self.peer)
                self._refuse(500, "Internal Server Error")
            case HandshakePhase.REFUSING:
                self.finish()
            case HandshakePhase.ACCEPTED:
                self.close(code)


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
