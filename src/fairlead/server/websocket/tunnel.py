"""A socket that another node must serve, because the session's files and processes are there.

The node that the client reached decides about its access, and then only passes messages on (`TunnelRelay`). The home of
the session runs the protocol on a channel instead of a connection (`TunnelServer`). The first message of a channel from
the home says whether it accepts the socket.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from fairlead.auth.credentials import Credentials
from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError, NotFound, Unavailable
from fairlead.model.store import Channel
from fairlead.model.web.requests import Head, Response
from fairlead.model.web.routes import ClientProtocol
from fairlead.model.web.sockets import (
    AcceptedSubprotocol,
    AttachOwner,
    Handshake,
    SocketHandle,
    SocketRoute,
)
from fairlead.server.errors import error_response
from fairlead.server.sockets import SocketEndpoint, SocketHost

TOPIC: Final = "socket"
TEXT: Final = b"t"
BINARY: Final = b"b"
FRAMES: Final = b"f"
CLOSE: Final = b"c"
UNSENT_BYTES: Final = 256 << 10
"""Bytes that may wait on either side before the other one is not read any more."""
LOST: Final = 1012
"""Close code of a socket whose channel broke: the client connects again."""
_SECRETS: Final = ("ticket", "token", "tkn", "access_token", "sig")

log = logging.getLogger("fairlead.nodes")


class SocketHello(msgspec.Struct, frozen=True, kw_only=True):
    """The socket as the client opened it, without its credential."""

    who: Identity
    route: str
    path: str
    peer: str
    subprotocol: str
    params: dict[str, str]
    query: dict[str, str]


class SocketVerdict(msgspec.Struct, frozen=True):
    """`refused`: the response that the client gets instead of the upgrade."""

    refused: Response | None = None
    subprotocol: str = ""


@dataclass(frozen=True, slots=True)
class Tunnel:
    """`home` returns the node of a session, empty for this one; `dial` opens a channel to a node."""

    home: Callable[[str], Awaitable[str]]
    dial: Callable[[str, bytes], Awaitable[Channel]]

    async def open(self, node: str, route: SocketRoute, opening: Handshake) -> Response | AcceptedSubprotocol:
        """Open the socket on its home. Raises NodeAway, Unavailable."""
        hello = SocketHello(
            who=opening.who,
            route=route.name,
            path=opening.head.path,
            peer=opening.head.peer,
            subprotocol=opening.subprotocol,
            params=opening.params,
            query={name: value for name, value in opening.query.items() if name not in _SECRETS},
        )
        channel = await self.dial(node, msgspec.json.encode(hello))
        try:
            first = await channel.receive()
            if first is None:
                raise Unavailable("The connection to the other node is closed.")
            verdict = msgspec.json.decode(first, type=SocketVerdict)
        except BaseException:
            await channel.close()
            raise
        if verdict.refused is not None:
            await channel.close()
            return verdict.refused
        return AcceptedSubprotocol((AttachOwner(TunnelRelay(channel)),), verdict.subprotocol)


class _Outgoing:
    """Sends messages over a channel in order, without waiting; `drained` is called when few bytes wait again."""

    def __init__(self, channel: Channel, drained: Callable[[], None]) -> None:
        self._channel = channel
        self._drained = drained
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.waiting = 0
        self._task = asyncio.create_task(self._run())

    def put(self, message: bytes) -> None:
        self.waiting += len(message)
        self._queue.put_nowait(message)

    def end(self) -> None:
        """Close the channel when everything is sent."""
        self._queue.put_nowait(None)

    async def _run(self) -> None:
        try:
            while (message := await self._queue.get()) is not None:
                await self._channel.send(message)
                high = self.waiting > UNSENT_BYTES // 2
                self.waiting -= len(message)
                if high and self.waiting <= UNSENT_BYTES // 2:
                    self._drained()
        except FairleadError as error:
            log.info("channel lost", extra={"error": error.message})
        finally:
            await self._channel.close()

    async def wait(self) -> None:
        await asyncio.wait({self._task})


def _closing(code: int, reason: str) -> bytes:
    return CLOSE + code.to_bytes(2, "big") + reason.encode()


def _closed(message: bytes) -> tuple[int, str]:
    return int.from_bytes(message[1:3], "big"), message[3:].decode(errors="replace")


class TunnelRelay:
    """The client's side: owns its socket and passes everything on. Implements `model.web.sockets.SocketOwner`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._out = _Outgoing(channel, self._read_on)
        self._wire: SocketHandle | None = None
        self._room = asyncio.Event()
        self._receiving: asyncio.Task[None] | None = None

    def attached(self, wire: SocketHandle) -> None:
        self._wire = wire
        self._receiving = asyncio.create_task(self._receive(wire))

    def received(self, data: bytes, text: bool) -> None:
        self._out.put((TEXT if text else BINARY) + data)
        if self._out.waiting > UNSENT_BYTES and self._wire is not None:
            self._wire.pause()

    def _read_on(self) -> None:
        if self._wire is not None:
            self._wire.resume()

    def drained(self) -> None:
        self._room.set()

    def detached(self, code: int, reason: str) -> None:
        self._wire = None
        self._out.put(_closing(code, reason))
        self._out.end()
        self._room.set()

    async def _receive(self, wire: SocketHandle) -> None:
        code, reason = LOST, "the connection to the session's node broke: connect again"
        while (message := await self._channel.receive()) is not None:
            if message[:1] == CLOSE:
                code, reason = _closed(message)
                break
            wire.send(message[1:])
            while wire.backlog() > UNSENT_BYTES and self._wire is not None:
                self._room.clear()
                await self._room.wait()
        if self._wire is not None:
            wire.close(code, reason)


class ChannelConnection:
    """The home's side: a channel in place of a connection. Implements `server.websocket.Connection`."""

    def __init__(self, channel: Channel, endpoint: SocketEndpoint) -> None:
        self._channel = channel
        self._endpoint = endpoint
        self._out = _Outgoing(channel, lambda: endpoint.on_drain(self))
        self._reading = asyncio.Event()
        self._reading.set()
        self._code = 0
        self.reason = ""

    def send(self, frames: bytes) -> None:
        if not self._code:
            self._out.put(FRAMES + frames)

    def send_compressed(self, payload: bytes, binary: bool = False) -> None:
        raise NotImplementedError("a tunnelled socket is compressed where the client is connected")

    def backlog(self) -> int:
        return self._out.waiting

    def probe(self, answered: Callable[[], None]) -> None:
        # What was sent before is at the other node; what the client has received is not known here.
        answered()

    def pause(self) -> None:
        self._reading.clear()

    def resume(self) -> None:
        self._reading.set()

    def close(self, code: int = 1000, reason: str = "") -> None:
        if not self._code:
            self._code = code
            self._out.put(_closing(code, reason))
            self._out.end()
            self._reading.set()

    async def run(self) -> None:
        """Serve until either side closes."""
        code = 1006
        self._endpoint.on_open(self)
        try:
            while (message := await self._channel.receive()) is not None:
                if message[:1] == CLOSE:
                    code, self.reason = _closed(message)
                    break
                await self._reading.wait()
                self._endpoint.on_message(self, message[1:], message[:1] == TEXT)
                self._endpoint.on_batch_end(self)
        finally:
            code, self._code = self._code or code, self._code or code
            self._endpoint.on_close(self, code)
            self._out.end()
            await self._out.wait()


class TunnelServer:
    """Serves the sockets of clients that are connected to another node."""

    def __init__(
        self, protocols: Sequence[ClientProtocol], host: SocketHost, credentials: Credentials, version: str
    ) -> None:
        self._routes: Mapping[str, SocketRoute] = {
            route.name: route for protocol in protocols for route in protocol.sockets if route.place == "session"
        }
        self._host = host
        self._credentials = credentials
        self._version = version

    async def serve(self, node: str, hello: bytes, channel: Channel) -> None:
        asked = msgspec.json.decode(hello, type=SocketHello)
        route = self._routes.get(asked.route)
        try:
            if route is None:
                raise NotFound("socket", asked.route)
            opening = self._handshake(asked)
            endpoint = SocketEndpoint(route.open(opening), asked.who, self._host, name=route.name, peer=asked.peer)
            # A credential that is revoked ends the socket here too, whichever node hears of it first.
            detach = self._credentials.attach(asked.who, endpoint.on_revoked, endpoint.ask_to_reconnect)
        except FairleadError as error:
            await channel.send(msgspec.json.encode(SocketVerdict(error_response(error))))
            return
        with contextlib.ExitStack() as stack:
            stack.callback(detach)
            stack.callback(endpoint.abandon)
            checked = await self._check(route, opening)
            if isinstance(checked, Response):
                await channel.send(msgspec.json.encode(SocketVerdict(checked)))
                return
            subprotocol = opening.subprotocol
            if checked is not None:
                endpoint.begin_with(checked.begin)
                subprotocol = checked.subprotocol
            await channel.send(msgspec.json.encode(SocketVerdict(subprotocol=subprotocol)))
            await ChannelConnection(channel, endpoint).run()

    def _handshake(self, asked: SocketHello) -> Handshake:
        return Handshake(
            head=Head(method="GET", path=asked.path, peer=asked.peer, socket=True),
            who=asked.who,
            version=self._version,
            fresh=self._host.fresh,
            now=self._host.clock.now_ms,
            subprotocol=asked.subprotocol,
            params=asked.params,
            query=asked.query,
        )

    async def _check(self, route: SocketRoute, opening: Handshake) -> Response | AcceptedSubprotocol | None:
        if route.check is None:
            return None
        try:
            return await self._host.dispatcher.drive(opening.who, route.check(opening))
        except FairleadError as error:
            return error_response(error)
