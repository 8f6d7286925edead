"""Our WebSocket driver: a protocol class for `uvicorn --ws`. The handshake goes through ASGI, the data does not.

After the application accepted, `await connection.run(endpoint)` passes the socket to an Endpoint: the parser calls
it directly and it writes ready frames to the transport, without a queue or a task switch. An application that
calls receive() and send() instead gets plain ASGI (asgi.py). uvicorn does not document the interface of such a
class; the tests pin it. Frames, handshake bytes and keepalive timing are in separate files.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final, cast

from uvicorn.config import Config
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.server import ServerState

from fairlead.server.websocket.asgi import Application, AsgiCall, HandshakePhase, websocket_scope
from fairlead.server.websocket.connection import (
    DEFAULT_OPTIONS,
    EXTENSION,
    Connection,
    ConnectionOptions,
    ConnectionShare,
    Endpoint,
)
from fairlead.server.websocket.deflate import Deflate
from fairlead.server.websocket.errors import BadHandshake, FrameError, Misuse
from fairlead.server.websocket.frames import (
    ABNORMAL,
    CLOSE,
    FIN,
    binary_frame,
    build_frame,
    close_frame,
    ping_frame,
    pong_frame,
    text_frame,
)
from fairlead.server.websocket.handshake import parse_head, refusal
from fairlead.server.websocket.keepalive import Keepalive, KeepaliveTimer
from fairlead.server.websocket.parser import Deliver, FrameParser
from fairlead.server.websocket.probes import Probes

logger = logging.getLogger("fairlead.server.websocket")

MAX_EARLY_BYTES: Final = 64 * 1024
"""Bytes that a peer may send before an endpoint is attached. Beyond that reading pauses, or the connection is aborted
if it has not been accepted yet."""

DEFAULT_CLOSE_TIMEOUT: Final = 5.0
"""Seconds that a peer has to read the sent bytes and to answer a close frame."""

_LINGER: Final = 1.0
"""Seconds in which a peer that broke the protocol can still read the reason, before the socket is aborted."""

_PING: Final = ping_frame()


def _ignore(data: bytes, text: bool = False) -> None:
    """Drop data that a peer sends after the close."""


class WebSocketDriver(asyncio.Protocol):
    """One connection. uvicorn creates these objects, so a server's settings are class attributes: `driver_class`."""

    __slots__ = (
        "_app_state",
        "_backlog",
        "_batch_end",
        "_call",
        "_close_timer",
        "_config",
        "_congested",
        "_deflate",
        "_done",
        "_drained",
        "_early",
        "_endpoint",
        "_feed",
        "_heard",
        "_loop",
        "_max_write_buffer",
        "_open",
        "_parser",
        "_probes",
        "_reading_paused",
        "_server_state",
        "_share",
        "_transport",
        "_waiting",
        "code",
        "lost",
        "options",
        "peer",
        "reason",
    )

    keepalive: ClassVar[Keepalive] = Keepalive()
    close_timeout: ClassVar[float] = DEFAULT_CLOSE_TIMEOUT

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._config = config
        self._server_state = server_state
        self._app_state = app_state
        self._loop = _loop or asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self.peer: tuple[str, int] | None = None
        self.options = DEFAULT_OPTIONS
        self.code = ABNORMAL
        self.reason = ""
        self.lost = False
        self._call: AsgiCall | None = None
        self._deflate: Deflate | None = None
        self._early = b""
        self._parser: FrameParser | None = None
        self._feed: Callable[[bytes], None] | None = None
        self._endpoint: Endpoint | None = None
        self._batch_end: Callable[[Connection], None] | None = None
        self._done: asyncio.Future[int] | None = None
        self._open = False
        self._max_write_buffer = 0
        self._close_timer: KeepaliveTimer | None = None
        self._congested = False
        self._drained: asyncio.Event | None = None
        self._reading_paused = False
        self._heard = True
        self._backlog = 0
        self._probes: Probes | None = None
        self._waiting: Callable[[], None] | None = None
        self._share: ConnectionShare | None = None

    # For an endpoint and its application: see Connection.

    @property
    def closed(self) -> bool:
        return not self._open

    def send(self, frame: bytes) -> None:
        if not self._open:
            return
        if self._congested and self._transport.get_write_buffer_size() > self._max_write_buffer:
            logger.warning("slow consumer %s: %d bytes wait; closing", self.peer, self.write_buffer_size())
            self.close(1013, "too slow: reconnect and resume")
            return
        self._transport.write(frame)
        if self._congested and self._share is not None:
            self._share.note(self, self._transport.get_write_buffer_size())

    # For a credential's share.

    def waiting_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    def too_slow(self) -> None:
        logger.warning("slow consumer %s: too much waits for its credential; closing", self.peer)
        self.close(1013, "too much waits unread for this credential: reconnect and resume")

    def cut(self) -> None:
        self._transport.abort()

    # For an endpoint and its application, continued.

    def send_text(self, payload: bytes) -> None:
        self.send(text_frame(payload))

    def send_compressed(self, payload: bytes, binary: bool = False) -> None:
        if self._deflate is not None:
            self.send(self._deflate.frame(payload, binary))
        else:
            self.send(binary_frame(payload) if binary else text_frame(payload))

    def close(self, code: int = 1000, reason: str = "") -> None:
        if not self._open:
            return
        self._transport.write(close_frame(code, reason))
        self._end(code)
        self._cut_after(self.close_timeout)
        self.resume_reading()  # otherwise the peer's answer would stay unread
        if self._parser is None:
            self._start_parser(_ignore)

    def write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def probe(self, answered: Callable[[], None]) -> None:
        if self._open:
            if self._probes is None:
                self._probes = Probes()
            self._transport.write(ping_frame(self._probes.begin(answered)))

    def pause_reading(self) -> None:
        if self._open and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._reading_paused and not self._transport.is_closing():
            self._reading_paused = False
            self._transport.resume_reading()

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

    # Callbacks of the keepalive and the parser.

    def keep_alive(self) -> None:
        if not self._open:
            return
        backlog = self._transport.get_write_buffer_size()
        # While reading is paused, a peer cannot show that it is alive. A peer whose backlog shrinks is alive: its pong
        # comes after the backlog.
        if self._heard or self._reading_paused or backlog < self._backlog:
            self._heard = False
            self._backlog = backlog
            self._transport.write(_PING)
        else:
            logger.info("%s did not answer a ping; closing", self.peer)
            self._fail(1011, "no answer to a ping")

    def on_ping(self, payload: bytes) -> None:
        self.send(pong_frame(payload))

    def on_pong(self, payload: bytes) -> None:
        """Answer the probes. Keepalive needs nothing here: any byte shows life, and data_received noted it."""
        if self._probes is not None:
            self._probes.answered(payload)

    def on_peer_close(self, code: int, payload: bytes) -> None:
        if self._open:
            self._transport.write(build_frame(FIN | CLOSE, payload))
            self.reason = payload[2:].decode()
            self._end(code)
        self.finish()

    # For the handshake: see asgi.AsgiTransport.

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        return self._server_state.default_headers

    def accept(self, response: bytes, deflate: Deflate | None) -> None:
        self._transport.write(response)
        self._deflate = deflate
        self._max_write_buffer = self.options.max_write_buffer
        self._share = self.options.share
        self._open = True
        self.keepalive.add(self)

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def finish(self) -> None:
        self._transport.close()
        self._cut_after(self.close_timeout)

    def abort(self) -> None:
        self._transport.abort()

    def attach(self, endpoint: Endpoint) -> None:
        if self._endpoint is not None:
            raise Misuse("a connection has one endpoint: call run() once, or receive()")
        self._endpoint = endpoint
        self._batch_end = endpoint.on_batch_end
        self.resume_reading()
        self._call_endpoint(endpoint.on_open)
        if self._open:
            self._start_parser(partial(endpoint.on_message, self))

    async def drained(self) -> None:
        if self._drained is None:
            self._drained = asyncio.Event()
        while self._congested and not self.lost:
            await self._drained.wait()

    # Callbacks of the event loop and of uvicorn.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.peer = get_remote_addr(self._transport)
        self._server_state.connections.add(self)  # type: ignore[arg-type]  # uvicorn names only its own classes

    def data_received(self, data: bytes) -> None:
        feed = self._feed
        if feed is None:
            self._before_attach(data)
            return
        self._heard = True
        try:
            feed(data)
        except FrameError as error:
            self._end_batch()
            self._fail(error.code, error.reason)
        except Exception:
            self._endpoint_failed()
        else:
            self._end_batch()

    def eof_received(self) -> None:
        """Return None, which makes the transport close itself; connection_lost follows."""

    def pause_writing(self) -> None:
        self._congested = True
        if self._drained is not None:
            self._drained.clear()

    def resume_writing(self) -> None:
        self._congested = False
        self._heard = True
        if self._share is not None:
            self._share.forget(self)
        if self._drained is not None:
            self._drained.set()
        if self._open and self._endpoint is not None:
            self._call_endpoint(self._endpoint.on_drain)

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
        if self._drained is not None:
            self._drained.set()
        endpoint, self._endpoint = self._endpoint, None
        self._parser = self._batch_end = None
        self._feed = _ignore
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
            self.pause_reading()
        else:
            logger.warning("%s sent %d bytes before it was accepted; cut off", self.peer, len(self._early))
            self._early = b""
            self._transport.abort()

    def _on_request(self, data: bytes) -> None:
        """Handle the request head, which uvicorn's HTTP class passes complete and has already checked as HTTP."""
        try:
            head = parse_head(data)
        except BadHandshake as error:
            self._feed = _ignore
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

    def _start_parser(self, deliver: Deliver) -> None:
        self._parser = FrameParser(
            deliver, self, max_message=self.options.max_message, inflate=self._deflate is not None
        )
        self._feed = self._parser.feed
        early, self._early = self._early, b""
        if early:
            self.data_received(early)

    def _end(self, code: int) -> None:
        """Stop sending and delivering messages."""
        if self._open:
            self._open = False
            self.code = code
            self.keepalive.discard(self)
            if self._parser is not None:
                self._parser.deliver = _ignore

    def _fail(self, code: int, reason: str) -> None:
        """Send a close frame with the reason, then ignore further input (RFC 6455, 7.1.7)."""
        self._feed = _ignore
        if not self._open:
            self.finish()
            return
        self._transport.write(close_frame(code, reason))
        self._end(code)
        # Closing with unread bytes would reset the connection, and the peer would lose the close frame: close our
        # half, and read and drop input for a moment.
        self.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._cut_after(min(_LINGER, self.close_timeout))

    def _cut_after(self, delay: float) -> None:
        if self._close_timer is None:
            self._close_timer = self._loop.call_later(delay, self._transport.abort)

    def _end_batch(self) -> None:
        if self._batch_end is not None:
            self._call_endpoint(self._batch_end)

    def _call_endpoint(self, method: Callable[[Connection], None]) -> None:
        try:
            method(self)
        except Exception:
            self._endpoint_failed()

    def _endpoint_failed(self) -> None:
        logger.exception("an endpoint failed for %s; closing with 1011", self.peer)
        self._fail(1011, "internal error")


def driver_class(
    *, keepalive: Keepalive | None = None, close_timeout: float = DEFAULT_CLOSE_TIMEOUT
) -> type[WebSocketDriver]:
    """Return the class for `uvicorn.Config(ws=...)`. Servers of one process share one keepalive."""
    settings = {"__slots__": (), "keepalive": keepalive or Keepalive(), "close_timeout": close_timeout}
    return type("ConfiguredWebSocketDriver", (WebSocketDriver,), settings)
