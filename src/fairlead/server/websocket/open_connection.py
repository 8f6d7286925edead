"""An accepted WebSocket connection: sends ready frames, parses input for its Endpoint, closes properly.

The parser calls the endpoint directly, and the endpoint writes to the transport, without a queue or a task switch.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Final

from fairlead.model.formats.frames import binary_frame, build_frame, text_frame
from fairlead.server.shares import CredentialShare
from fairlead.server.websocket.connection import DEFAULT_OPTIONS, Connection, ConnectionOptions, Endpoint
from fairlead.server.websocket.deflate import Deflate
from fairlead.server.websocket.errors import FrameError, Misuse
from fairlead.server.websocket.frames import ABNORMAL, CLOSE, FIN, close_frame, ping_frame, pong_frame
from fairlead.server.websocket.keepalive import Keepalive
from fairlead.server.websocket.parser import Deliver, FrameParser
from fairlead.server.websocket.probes import Probes
from fairlead.system.clock import Timer

logger = logging.getLogger("fairlead.server.websocket")

DEFAULT_CLOSE_TIMEOUT: Final = 5.0
"""Seconds that a peer has to read the sent bytes and to answer a close frame."""

_LINGER: Final = 1.0
"""Seconds in which a peer that broke the protocol can still read the reason, before the socket is aborted."""

_PING: Final = ping_frame()


def ignore(data: bytes, text: bool = False) -> None:
    """Drop data that a peer sends after the close."""


@dataclass(eq=False, repr=False, slots=True)
class OpenConnection(asyncio.Protocol):
    """Implements Connection. A server's settings are class attributes."""

    keepalive: ClassVar[Keepalive] = Keepalive()
    close_timeout: ClassVar[float] = DEFAULT_CLOSE_TIMEOUT

    _loop: asyncio.AbstractEventLoop
    _feed: Callable[[bytes], None]
    """Handles data: before an endpoint is attached, by the subclass; then, by the parser."""
    _transport: asyncio.Transport = field(init=False)
    peer: tuple[str, int] | None = None
    options: ConnectionOptions = DEFAULT_OPTIONS
    code: int = ABNORMAL
    reason: str = ""
    _deflate: Deflate | None = None
    _early: bytes = b""
    _parser: FrameParser | None = None
    _endpoint: Endpoint | None = None
    _batch_end: Callable[[Connection], None] | None = None
    _open: bool = False
    _max_write_buffer: int = 0
    _close_timer: Timer | None = None
    _congested: bool = False
    _reading_paused: bool = False
    _heard: bool = True
    _backlog: int = 0
    _probes: Probes | None = None
    _share: CredentialShare | None = None

    def accept(self, response: bytes, deflate: Deflate | None) -> None:
        """Send the response to the handshake; from now on the connection is open."""
        self._transport.write(response)
        self._deflate = deflate
        self._max_write_buffer = self.options.max_write_buffer
        self._share = self.options.share
        self._open = True
        self.keepalive.add(self)

    def attach(self, endpoint: Endpoint) -> None:
        if self._endpoint is not None:
            raise Misuse("a connection has one endpoint: call run() once")
        self._endpoint = endpoint
        self._batch_end = endpoint.on_batch_end
        self.resume()
        self._call_endpoint(endpoint.on_open)
        if self._open:
            self._start_parser(partial(endpoint.on_message, self))

    # For an endpoint and its application: see Connection.

    def send(self, frame: bytes) -> None:
        if not self._open:
            return
        if self._congested and self._transport.get_write_buffer_size() > self._max_write_buffer:
            logger.warning("slow consumer %s: %d bytes wait; closing", self.peer, self.backlog())
            self.close(1013, "too slow: reconnect and resume")
            return
        self._transport.write(frame)
        if self._congested and self._share is not None:
            self._share.note(self, self._transport.get_write_buffer_size())

    # For a credential's share.

    def too_slow(self) -> None:
        logger.warning("slow consumer %s: too much waits for its credential; closing", self.peer)
        self.close(1013, "too much waits unread for this credential: reconnect and resume")

    def cut(self) -> None:
        self._transport.abort()

    # For an endpoint and its application, continued.

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
        self.resume()  # otherwise the peer's answer would stay unread
        if self._parser is None:
            self._start_parser(ignore)

    def backlog(self) -> int:
        return self._transport.get_write_buffer_size()

    def probe(self, answered: Callable[[], None]) -> None:
        if self._open:
            if self._probes is None:
                self._probes = Probes()
            self._transport.write(ping_frame(self._probes.begin(answered)))

    def pause(self) -> None:
        if self._open and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._reading_paused and not self._transport.is_closing():
            self._reading_paused = False
            self._transport.resume_reading()

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

    # Callbacks of the event loop.

    def data_received(self, data: bytes) -> None:
        self._heard = True
        try:
            self._feed(data)
        except FrameError as error:
            self._end_batch()
            self._fail(error.code, error.reason)
        except Exception:
            self._endpoint_failed()
        else:
            self._end_batch()

    def pause_writing(self) -> None:
        self._congested = True

    def resume_writing(self) -> None:
        self._congested = False
        self._heard = True
        if self._share is not None:
            self._share.forget(self)
        if self._open and self._endpoint is not None:
            self._call_endpoint(self._endpoint.on_drain)

    # Internal.

    def finish(self) -> None:
        """Close the socket when everything written has been sent."""
        self._transport.close()
        self._cut_after(self.close_timeout)

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
                self._parser.deliver = ignore

    def _fail(self, code: int, reason: str) -> None:
        """Send a close frame with the reason, then ignore further input (RFC 6455, 7.1.7)."""
        self._feed = ignore
        if not self._open:
            self.finish()
            return
        self._transport.write(close_frame(code, reason))
        self._end(code)
        # Closing with unread bytes would reset the connection, and the peer would lose the close frame: close our
        # half, and read and drop input for a moment.
        self.resume()
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
