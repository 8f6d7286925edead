"""uvicorn's HTTP protocol class with limits on the time and the number of connections without a credential.

The limits apply until one of the connection's requests was admitted, whatever it does meanwhile. Each of these steps
restarts its time: a complete head, a response sent, a piece of a response that the client has read.

uvicorn does not document the interface of such a class; the range of its version is pinned and tests show that the
hooks used here are called.
"""

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fairlead.server.app import GUARD
from fairlead.server.limits import UnauthenticatedConnections
from fairlead.server.websocket.protocol import WebSocketDriver

HEAD_LIMIT: Final = 64 << 10
"""Bytes of names and values in one request's head; several times as much as browsers and proxies send."""
_RAW_LIMIT: Final = 512 << 10
"""Bytes that may arrive before a head is complete (one endless header): the limit and one read of the socket."""


_REST_S: Final = 10.0
"""Seconds in which the client has to read at least some of the rest of a response."""
_NEVER: Final = 1 << 62


class HeadTooLarge(Exception):
    """Raised inside the parser, which answers 400."""


class GuardedHttp(HttpToolsProtocol):
    """One connection. It counts as unauthenticated from its beginning until a request was admitted."""

    unauthenticated: ClassVar[UnauthenticatedConnections]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._proven = False
        self._leave: Callable[[], None] | None = None
        self._head = 0
        self._raw = 0
        self._in_head = True
        self._lost = False

    def mark_authenticated(self) -> None:
        """Note that a request on this connection carried a valid credential."""
        self._proven = True
        self._go()

    @property
    def congested(self) -> bool:
        return self.flow.write_paused

    def cut(self) -> None:
        self.transport.abort()

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn declares
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._go()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._raw += len(data)
            if self._raw > _RAW_LIMIT and not self.transport.is_closing():
                self.send_400_response("The head of the request is too large.")

    # Callbacks of the parser and of uvicorn.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = self._raw = 0
        self._in_head = True
        extensions: dict[str, Any] = {GUARD: self}
        self.scope["extensions"] = extensions

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._wait()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()
        self._look_at_the_rest(_NEVER)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._wait()

    def handle_websocket_upgrade(self) -> None:
        super().handle_websocket_upgrade()
        driver = self.transport.get_protocol()
        if isinstance(driver, WebSocketDriver):
            # The driver takes the connection over; it stays unauthenticated until its credential was checked.
            driver.on_authenticated(self._go)
        else:
            self._go()

    # Internal.

    def _look_at_the_rest(self, before: int) -> None:
        """Abort the connection of a client that stops reading a response and sends no further request.

        For uvicorn a response is complete when it was passed to the transport; it would wait for the client forever.
        """
        left = 0 if self._lost else self.transport.get_write_buffer_size()
        if not self.cycle.response_complete:
            return
        if left >= before:
            self.transport.abort()
        elif left:
            self.loop.call_later(_REST_S, self._look_at_the_rest, left)

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > HEAD_LIMIT:
            raise HeadTooLarge

    def _wait(self) -> None:
        """Restart the waiting time, as if the connection were new. A closing connection keeps its entry: it still
        exists while its peer reads nothing."""
        if not self._proven and not self.transport.is_closing():
            self._go()
            self._leave = self.unauthenticated.add(self.client[0] if self.client else "", self._put_out)

    def _go(self) -> None:
        if self._leave is not None:
            self._leave()
            self._leave = None

    def _put_out(self) -> None:
        self._leave = None
        self.transport.abort()


def guarded_http(unauthenticated: UnauthenticatedConnections) -> type[GuardedHttp]:
    """Return the class for `uvicorn.Config(http=...)`."""
    return type("ConfiguredGuardedHttp", (GuardedHttp,), {"unauthenticated": unauthenticated})
