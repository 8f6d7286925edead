"""The ASGI application: finds the route, asks the gate, and only then runs the route's code.

Rule: the gate and the handler use the same route match, and every HTTP and WebSocket request passes `_admit`; no other
path leads to a handler or a socket protocol. Frameworks' routers are not used for that reason.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar
from uuid import uuid4

from msgspec import structs

from fairlead.auth.credentials import Credentials
from fairlead.auth.gate import AccessAllowed, AccessRefused, AccessRequirement
from fairlead.auth.origins import AllowedOrigins
from fairlead.model.auth import Identity
from fairlead.model.errors import BadRequest, FairleadError, NotFound, TooLarge, TooMany
from fairlead.model.gateway import Gateway
from fairlead.model.web.requests import Head, Response, ServiceHandlers, parse_query
from fairlead.model.web.routes import (
    Answer,
    ChangeStream,
    ClientProtocol,
    FileStream,
    LogStream,
    Request,
    Route,
    SendToStreams,
    SessionStream,
)
from fairlead.model.web.session_changes import ChangeListenerHandle
from fairlead.model.web.sockets import AcceptedSubprotocol, Handshake, SocketRoute
from fairlead.monitoring.routes import own_routes
from fairlead.server.access import STORE_AWAY, AccessControl, allow_cross_origin
from fairlead.server.asgi import Receive, Scope, Send
from fairlead.server.dispatch import Dispatcher
from fairlead.server.errors import Stopping, error_response, unexpected
from fairlead.server.limits import DEFAULT_LIMITS, ServerLimits, open_per_credential
from fairlead.server.multipart import FormBody
from fairlead.server.requests import access_requirement, choose_subprotocol, head_of, read_body, wait_disconnected
from fairlead.server.responses import (
    change_chunks,
    prepend,
    refusal,
    send_and_close,
    send_file,
    send_response,
    send_stream,
)
from fairlead.server.route_table import RouteMatch, RouteTable, at_door, at_main_port
from fairlead.server.session_streams import SessionStreams
from fairlead.server.shares import CredentialShare, CredentialShares, HeldBody
from fairlead.server.socket_services import SocketServices
from fairlead.server.sockets import SocketEndpoint, SocketHost
from fairlead.server.websocket.connection import EXTENSION, ConnectionOptions
from fairlead.server.websocket.protocol import run_endpoint
from fairlead.server.websocket.tunnel import Tunnel
from fairlead.system.clock import Clock, within
from fairlead.system.tasks import run_until
from fairlead.uploads.api import AcceptForm

T = TypeVar("T")

GUARD: Final = "fairlead.guard"
"""Key in scope["extensions"] of a connection that has not shown a credential yet."""

_CHUNK: Final = 64 << 10
_CLOSE: Final = ("connection", "close")

_Opened = tuple[
    SocketEndpoint,
    ConnectionOptions,
    str | None,
    Callable[[], None],
    Callable[[], Awaitable[Response | AcceptedSubprotocol | None]] | None,
]
"""A socket that the gate admitted: its endpoint, options and subprotocol, the function that releases its credential,
and the check that may still reject it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AppConfig:
    """Dependencies and settings of the application.

    `base` is the public URL, or empty. `inbound` are the routes that agents connect to, and other routes that do not
    belong to a client protocol. `door`: the single protocol is served at the root. `options` are defaults for query
    parameters. `basic`: browsers sign in by HTTP Basic. `shares` counts the open connections of each credential, over
    all ports; by default the application creates it from `limits`. `on_refused` is called with every request that the
    gate rejects. `closed`: this node takes no connections now. `tunnel`: the way to sockets that other nodes serve.
    """

    protocols: Sequence[ClientProtocol]
    gateway: Gateway
    handlers: ServiceHandlers
    credentials: Credentials
    allowed_origins: AllowedOrigins
    clock: Clock
    version: str
    base: str = ""
    inbound: Sequence[ClientProtocol] = ()
    door: bool = False
    basic: bool = False
    shares: CredentialShares | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    limits: ServerLimits = DEFAULT_LIMITS
    fresh: Callable[[], str] = lambda: str(uuid4())
    on_refused: Callable[[Head, AccessRefused], None] = lambda head, verdict: None
    closed: Callable[[], bool] = lambda: False
    tunnel: Tunnel | None = None


class App:
    def __init__(self, parts: AppConfig) -> None:
        served = sorted(protocol.name for protocol in parts.protocols)
        place = at_door if parts.door else at_main_port
        self.protocols = parts.protocols
        placed = [place(protocol) for protocol in parts.protocols]
        self.table = RouteTable([own_routes("" if parts.door else parts.version, served), *placed, *parts.inbound])
        self._streams = SessionStreams(parts.gateway, parts.credentials, parts.clock)
        services = SocketServices(parts.clock)
        handlers: ServiceHandlers = {**parts.handlers, SendToStreams: self._streams.send_to_streams}
        self.dispatcher = Dispatcher(parts.gateway, {**handlers, **services.handlers()})
        # The requirement for unknown paths: to a caller without a credential they look like all other paths.
        accounts = parts.door and any(route.accounts for protocol in placed for route in protocol.routes)
        self._unknown = AccessRequirement(access="any", accounts=accounts, basic=parts.basic)
        # A client of a door may understand only its own protocol's errors.
        self._worded = next((protocol.refused for protocol in placed if protocol.refused), None) if parts.door else None
        self._parts = parts
        self._access = AccessControl(parts.allowed_origins, parts.credentials, parts.on_refused)
        limits = parts.limits
        shares = parts.shares
        if shares is None:
            shares = CredentialShares(open_per_credential(limits), limits.bytes_per_credential)
        self._shares = shares
        self.sockets = SocketHost(self.dispatcher, parts.clock, parts.limits, parts.fresh, services)
        self._stopping = asyncio.Event()
        self._listening: set[ChangeListenerHandle] = set()

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        # Not `async`: the additional coroutine would stay in memory as long as its socket.
        if scope["type"] == "http":
            return allow_cross_origin(self._http, self._parts.allowed_origins, scope, receive, send)
        if scope["type"] == "websocket":
            return self._websocket(scope, receive, send)
        raise RuntimeError(f"unsupported ASGI scope: {scope['type']}")

    def _demand(self, match: RouteMatch[Route] | RouteMatch[SocketRoute] | None) -> AccessRequirement:
        return (
            self._unknown if match is None else access_requirement(match.route, match.params, basic=self._parts.basic)
        )

    def _admit(self, scope: Scope, head: Head, demand: AccessRequirement) -> AccessAllowed | AccessRefused:
        shut = demand.access != "public" and self._parts.closed()
        verdict = STORE_AWAY if shut else self._access.admit(head, demand)
        if isinstance(verdict, AccessAllowed) and demand.access != "public":
            extensions = scope.get("extensions", {})
            guard = extensions.get(GUARD) or extensions.get(EXTENSION)
            if guard is not None:
                guard.mark_authenticated()
        return verdict

    # --- HTTP

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = head_of(scope)
        match = self.table.http(head.method, head.path)
        demand = self._demand(match)
        verdict = await self._access.check_basic(head, demand) or self._admit(scope, head, demand)
        if isinstance(verdict, AccessRefused):
            await send_and_close(send, receive, self._refused(verdict, match), self._parts.clock)
            return
        if match is None:
            await self._send(send, self._missing(head))
            return
        try:
            share, give_back = self._shares.take(verdict.identity)
        except TooMany as error:
            refused = AccessRefused(error.status, error.code, error.message)
            await send_and_close(send, receive, self._refused(refused, match), self._parts.clock)
            return
        try:
            answer = await self._answer(match, head, verdict.identity, receive)
            await self._reply(scope, receive, send, verdict.identity, answer, share)
        finally:
            give_back()

    def _refused(self, verdict: AccessRefused, match: RouteMatch[Route] | RouteMatch[SocketRoute] | None) -> Response:
        return refusal(verdict, self._worded if match is None else match.route.refused or self._worded)

    async def _reply(
        self, scope: Scope, receive: Receive, send: Send, who: Identity, answer: Answer, share: CredentialShare
    ) -> None:
        if isinstance(answer, LogStream):
            await self._send_log(receive, send, who, answer)
        elif isinstance(answer, ChangeStream):
            await self._send_changes(receive, send, who, answer)
        elif isinstance(answer, SessionStream):
            try:
                await self._streams.send(receive, send, who, answer)
            except FairleadError as error:
                await self._send(send, error_response(error, self._worded))
        elif isinstance(answer, FileStream):
            await send_file(receive, send, answer, self._parts.clock.now_ms(), head=scope["method"] == "HEAD")
        elif _CLOSE in answer.headers:
            await send_and_close(send, receive, answer, self._parts.clock)
        else:
            with HeldBody(share, scope.get("extensions", {}).get(GUARD)) as held:
                await send_response(send, answer, self._parts.clock.now_ms(), left=held.set_remaining)

    async def _answer(self, match: RouteMatch[Route], head: Head, who: Identity, receive: Receive) -> Answer:
        parts, route = self._parts, match.route
        try:
            seconds = parts.limits.waiting_s if route.access == "public" else parts.limits.body_s
            most = parts.limits.message_bytes if route.body_limit is None else route.body_limit
            body = b"" if route.form else await within(parts.clock, seconds, read_body(head, most, receive))
            request = Request(
                head=head,
                who=who,
                fresh=parts.fresh(),
                at=parts.clock.now_ms(),
                version=parts.version,
                base=parts.base.rstrip("/") or f"{'https' if head.secure else 'http'}://{head.first('host')}",
                params=match.params,
                query={**parts.options, **parse_query(head.query)},
                body=body,
            )
            if route.form:
                return await self._answer_form(route, request, receive)
            answering = self.dispatcher.drive(who, route.handle(request))
            return await (self._while_wanted(receive, answering) if route.waits else answering)
        except FairleadError as error:
            closing = (_CLOSE,) if isinstance(error, TooLarge) else ()
            return structs.replace(error_response(error, self._worded), headers=closing)
        except TimeoutError:
            late = error_response(BadRequest("The body of the request did not arrive in time."), self._worded)
            return structs.replace(late, status=408, headers=(_CLOSE,))
        except Exception as error:
            fault = unexpected(error, parts.fresh(), f"{head.method} {route.path}")
            return error_response(fault, self._worded)

    async def _answer_form(self, route: Route, request: Request, receive: Receive) -> Answer:
        form = FormBody(request.head, receive, self.dispatcher, self._parts.clock, self._parts.limits.form_s)
        answer = await self.dispatcher.drive(request.who, route.handle(request), {AcceptForm: form.accept})
        if form.whole or not isinstance(answer, Response):
            return answer
        return structs.replace(answer, headers=(*answer.headers, _CLOSE))

    async def _while_wanted(self, receive: Receive, answering: Coroutine[Any, Any, T]) -> T:
        """Wait for an answer that may take hours, until the client disconnects or the server stops."""
        work = await run_until(answering, wait_disconnected(receive), self._stopping.wait())
        if work.cancelled():
            raise Stopping
        return work.result()

    def stop(self) -> None:
        """End all waiting requests and streams of changes and sessions."""
        self._stopping.set()
        for listener in tuple(self._listening):
            listener.close()
        self._streams.stop(Stopping())

    def _missing(self, head: Head) -> Response:
        methods = self.table.methods(head.path)
        if not methods:
            return error_response(NotFound("path", head.path), self._worded)
        allowed = error_response(BadRequest(f"{head.path} takes {', '.join(methods)}."), self._worded)
        return Response(status=405, body=allowed.body, headers=(("allow", ", ".join(methods)),))

    async def _send(self, send: Send, response: Response, *, socket: bool = False) -> None:
        await send_response(send, response, self._parts.clock.now_ms(), socket=socket)

    async def _send_log(self, receive: Receive, send: Send, who: Identity, answer: LogStream) -> None:
        chunks = self._chunks(who, answer)
        try:
            # Read before the status is sent: a log that cannot be read is an error, not an empty file.
            first = await anext(chunks)
        except FairleadError as error:
            await self._send(send, error_response(error, self._worded))
            return
        headers = {"content-type": answer.content_type, **dict(answer.headers)}
        await send_stream(receive, send, prepend(first, chunks), headers, self._parts.clock.now_ms())

    async def _send_changes(self, receive: Receive, send: Send, who: Identity, answer: ChangeStream) -> None:
        """Stream changes until the client disconnects, its credential is revoked or the server stops."""
        clock, listener = self._parts.clock, answer.listener
        detach = self._parts.credentials.attach(who, listener.close)
        self._listening.add(listener)
        try:
            headers = {"content-type": answer.content_type}
            await send_stream(receive, send, change_chunks(answer, clock), headers, clock.now_ms())
        finally:
            self._listening.discard(listener)
            listener.close()
            detach()

    async def _chunks(self, who: Identity, answer: LogStream) -> AsyncGenerator[bytes]:
        revoked = asyncio.Event()
        detach = self._parts.credentials.attach(who, revoked.set, revoked.set)
        try:
            ready = bytearray(answer.renderer.begin())
            async for entry in self._parts.gateway.export(who, answer.session):
                ready += answer.renderer.entry(entry)
                if len(ready) >= _CHUNK:
                    yield bytes(ready)
                    ready.clear()
                if revoked.is_set():
                    raise ConnectionAbortedError("the credential was revoked")
            yield bytes(ready + answer.renderer.end())
        finally:
            detach()

    # --- WebSocket

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = head_of(scope)
        match = self.table.socket(head.path)
        guessing = await self._access.check_basic(head, self._demand(match)) if self._parts.basic else None
        opened = self._open_socket(scope, head, match) if guessing is None else self._refused(guessing, match)
        del head, match
        if isinstance(opened, Response):
            await self._send(send, opened, socket=True)
            return
        endpoint, options, subprotocol, detach, check = opened
        del opened
        try:
            checked = None if check is None else await check()
            if isinstance(checked, Response):
                await self._send(send, checked, socket=True)
                return
            if checked is not None:
                endpoint.begin_with(checked.begin)
                subprotocol = checked.subprotocol or None
            del check, checked
            await run_endpoint(scope, receive, send, endpoint, options=options, subprotocol=subprotocol)
        finally:
            endpoint.abandon()
            detach()

    def _open_socket(self, scope: Scope, head: Head, match: RouteMatch[SocketRoute] | None) -> Response | _Opened:
        """Admit a socket and create its endpoint.

        Not asynchronous, so that revoking the credential at any time after the gate's decision closes this socket.
        Objects that only the handshake needs are released when this returns.
        """
        verdict = self._admit(scope, head, self._demand(match))
        if isinstance(verdict, AccessRefused):
            return self._refused(verdict, match)
        if match is None:
            return error_response(NotFound("socket", head.path))
        parts, route, who = self._parts, match.route, verdict.identity
        try:
            opening = Handshake(
                head=head,
                who=who,
                version=parts.version,
                fresh=parts.fresh,
                now=parts.clock.now_ms,
                subprotocol=choose_subprotocol(route, scope.get("subprotocols", [])),
                params=match.params,
                query={**parts.options, **parse_query(head.query)},
            )
            conversation = route.open(opening)
        except FairleadError as error:
            return error_response(error)
        try:
            share, give_back = self._shares.take(who)
        except TooMany as error:
            return self._refused(AccessRefused(error.status, error.code, error.message), match)
        compress = bool(route.compress_query) and opening.query.get(route.compress_query) == "1"
        endpoint = SocketEndpoint(conversation, who, self.sockets, name=route.name, peer=head.peer, compress=compress)
        most = route.message_limit or parts.limits.message_bytes
        options = ConnectionOptions(max_message=most, compress=compress, share=share)
        detach = parts.credentials.attach(who, endpoint.on_revoked, endpoint.ask_to_reconnect)

        def leave() -> None:
            detach()
            give_back()

        waits = route.check is not None or verdict.ticket or route.place == "session"
        check = partial(self._checked, match, opening, verdict.ticket) if waits else None
        return endpoint, options, opening.subprotocol or None, leave, check

    async def _checked(
        self, match: RouteMatch[SocketRoute], opening: Handshake, ticket: str
    ) -> Response | AcceptedSubprotocol | None:
        route, path, tunnel = match.route, match.route.path, self._parts.tunnel
        try:
            refused = await self._access.spend(opening.head, ticket) if ticket else None
            if refused is not None:
                return self._refused(refused, match)
            if tunnel is not None and route.place == "session" and (home := await tunnel.home(match.params["session"])):
                return await tunnel.open(home, route, opening)
            return None if route.check is None else await self.dispatcher.drive(opening.who, route.check(opening))
        except FairleadError as error:
            return error_response(error)
        except Exception as error:
            return error_response(unexpected(error, self._parts.fresh(), path))
