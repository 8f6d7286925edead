"""The ASGI side of our driver: one application call for one handshake, with its receive() and send().

Accepts or rejects the connection and enforces ASGI's order of messages. The data of an accepted connection does not
pass through ASGI: sockets, frames and endpoints belong to the driver.
"""

import asyncio
import enum
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import unquote

from uvicorn.config import Config
from uvicorn.protocols.utils import get_local_addr, get_remote_addr, is_ssl

from fairlead.server.asgi import Application, Message, Scope
from fairlead.server.websocket.deflate import negotiate
from fairlead.server.websocket.errors import Misuse, PeerGone
from fairlead.server.websocket.handshake import RequestHead, accept_response, refusal, refusal_head

if TYPE_CHECKING:
    from fairlead.server.websocket.protocol import WebSocketDriver

logger = logging.getLogger("fairlead.server.websocket")


class HandshakePhase(enum.Enum):
    HANDSHAKE = enum.auto()
    REFUSING = enum.auto()
    """The application began an HTTP response instead of accepting."""
    REFUSED = enum.auto()
    ACCEPTED = enum.auto()


def websocket_scope(head: RequestHead, config: Config, transport: asyncio.Transport) -> Scope:
    """Build the scope, without the entries for the server's state and the driver."""
    root = config.root_path
    return {
        "type": "websocket",
        "asgi": {"version": config.asgi_version, "spec_version": "2.4"},
        "http_version": "1.1",
        "scheme": "wss" if is_ssl(transport) else "ws",
        "server": get_local_addr(transport),
        "client": get_remote_addr(transport),
        "root_path": root,
        "path": root + unquote(head.path.decode("latin-1")),
        "raw_path": root.encode() + head.path,
        "query_string": head.query,
        "headers": head.headers,
        "subprotocols": head.subprotocols,
        "extensions": {"websocket.http.response": {}},
    }


class AsgiCall:
    """One call of the application, from the request head to its return."""

    __slots__ = ("_body_started", "_head", "_refusal", "_saw_connect", "_wire", "phase")

    def __init__(self, wire: "WebSocketDriver", head: RequestHead) -> None:
        self._wire = wire
        self._head = head
        self.phase = HandshakePhase.HANDSHAKE
        self._saw_connect = False
        self._refusal: Message = {}
        self._body_started = False

    async def run(self, application: Application, scope: Scope) -> None:
        try:
            await application(scope, self.receive, self.send)
        except PeerGone:
            logger.debug("%s left before the application was done", self._wire.peer)
        except asyncio.CancelledError:
            self._wire.abort()
            raise
        except Exception:
            logger.exception("the application failed for %s", self._wire.peer)
            self._leave(1011)
        else:
            self._leave(1000)

    async def receive(self) -> Message:
        if not self._saw_connect:
            self._saw_connect = True
            return {"type": "websocket.connect"}
        return {"type": "websocket.disconnect", "code": self._wire.code}

    async def send(self, message: Message) -> None:
        if self._wire.lost:
            raise PeerGone(self._wire.code)
        match self.phase, message["type"]:
            case HandshakePhase.HANDSHAKE, "websocket.accept":
                self._accept(message)
            case HandshakePhase.HANDSHAKE, "websocket.close":
                self.refuse(403, "Forbidden")
            case HandshakePhase.HANDSHAKE, "websocket.http.response.start":
                self.phase = HandshakePhase.REFUSING
                self._refusal = message
            case HandshakePhase.REFUSING, "websocket.http.response.body":
                self._send_body(message.get("body", b""), message.get("more_body", False))
            case phase, kind:
                raise Misuse(f"{kind} is out of order: the connection is {phase.name.lower()}")

    def refuse(self, status: int, reason: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self.phase = HandshakePhase.REFUSED
        self._wire.write(refusal(status, reason, (*self._wire.default_headers, *headers)))
        self._wire.finish()

    def _accept(self, message: Message) -> None:
        headers = [*self._wire.default_headers, *message.get("headers", ())]
        if message.get("subprotocol"):
            headers.append((b"sec-websocket-protocol", message["subprotocol"].encode("latin-1")))
        deflate = None
        if self._wire.options.compress:
            deflate = negotiate(self._head.all(b"sec-websocket-extensions"))
        if deflate is not None:
            headers.append((b"sec-websocket-extensions", deflate.header))
        response = accept_response(self._head.key, headers)
        self.phase = HandshakePhase.ACCEPTED
        self._wire.accept(response, deflate)

    def _send_body(self, body: bytes, more: bool) -> None:
        if not self._body_started:
            self._body_started = True
            headers = [*self._wire.default_headers, *self._refusal.get("headers", ())]
            if not more and not any(name.lower() == b"content-length" for name, _ in headers):
                headers.append((b"content-length", b"%d" % len(body)))
            body = refusal_head(self._refusal["status"], headers) + body
        self._wire.write(body)
        if not more:
            self.phase = HandshakePhase.REFUSED
            self._wire.finish()

    def _leave(self, code: int) -> None:
        """Finish the handshake or the connection that the application left open when it returned."""
        match self.phase:
            case HandshakePhase.HANDSHAKE if not self._wire.lost:
                logger.error("the application neither accepted nor refused %s", self._wire.peer)
                self.refuse(500, "Internal Server Error")
            case HandshakePhase.REFUSING:
                self._wire.finish()
            case HandshakePhase.ACCEPTED:
                self._wire.close(code)
