"""Client of the gateway's native protocol: REST calls, and the events of one session across reconnects.

Nothing here prints. After a reconnect the client resumes from its cursor: every event arrives once, in order.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

import httpx2
import msgspec
import websockets.asyncio.client as websocket
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from fairlead.cli.endpoint import GatewayEndpoint
from fairlead.cli.errors import CliError, CommandFailed, Missing, Unreachable, UsageError, from_code, from_status
from fairlead.model import events as ev
from fairlead.model.ids import is_uuid
from fairlead.model.queries import EventPage, SessionView
from fairlead.model.store import SessionPage, Summary

T = TypeVar("T")
Locate = Callable[[], GatewayEndpoint]

READ_SECONDS = 90.0
"""A response may depend on a reply of the agent: the longest of those (initialize, mcp) takes 60 s."""
PREFIX = 4
"""Minimum length of a session id prefix, which names a session if no other id begins with it."""


class _Error(msgspec.Struct):
    code: str = ""
    message: str = ""


class _ErrorBody(msgspec.Struct):
    error: _Error


class Api:
    """REST client. Every failure is a `CliError`."""

    def __init__(self, locate: Locate) -> None:
        self.locate = locate
        self._endpoint = locate()
        self._http = http_client(self._endpoint)

    async def __aenter__(self) -> "Api":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._http.aclose()

    @property
    def local(self) -> bool:
        """Whether the gateway is on this machine, so that it sees the same folders."""
        return self._endpoint.local

    async def refresh(self) -> None:
        """Locate the gateway again: it may have restarted at another address."""
        endpoint = self.locate()
        if endpoint != self._endpoint:
            await self._http.aclose()
            self._endpoint, self._http = endpoint, http_client(endpoint)

    async def call(
        self, method: str, path: str, kind: type[T], *, query: dict[str, Any] | None = None, body: Any = None
    ) -> T:
        content = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"content-type": "application/json"}
        try:
            answer = await self._http.request(method, path, params=query, content=content, headers=headers)
        except httpx2.TransportError as error:
            raise unreachable(self._endpoint.url, error) from error
        if answer.is_success:
            try:
                return msgspec.json.decode(answer.content, type=kind)
            except msgspec.DecodeError as error:
                raise CommandFailed(f"{self._endpoint.url} sent an invalid answer: {error}") from error
        raise response_error(answer.status_code, answer.content, self._endpoint.url)

    async def get(self, path: str, kind: type[T], /, **query: Any) -> T:
        wanted = {name: value for name, value in query.items() if value not in (None, "")}
        return await self.call("GET", path, kind, query=wanted)

    async def post(self, path: str, kind: type[T], body: Any) -> T:
        return await self.call("POST", path, kind, body=body)

    # --- shared by several commands -----------------------------------------------------------------------

    async def sessions(self, **query: Any) -> AsyncIterator[Summary]:
        """Yield the sessions of all pages, newest first."""
        before: str | None = None
        while True:
            page = await self.get("/v1/sessions", SessionPage, before=before, limit=200, **query)
            for summary in page.sessions:
                yield summary
            if not page.next:
                return
            before = page.next

    async def session(self, name: str) -> str:
        """Return the id of the session that `name` (an id or its prefix) means. Raises UsageError, Missing."""
        wanted = name.strip().lower()
        if is_uuid(wanted):
            return wanted
        if len(wanted) < PREFIX or not set(wanted) <= set("0123456789abcdef-"):
            raise UsageError(f"{name[:80]!r} is not a session: give its id or at least its first {PREFIX} characters.")
        found = [s.session async for s in self.sessions(archived="any") if s.session.startswith(wanted)]
        if not found:
            raise Missing(f"No session begins with {wanted}. List all sessions with: fairlead ls --all")
        if len(found) > 1:
            raise UsageError(f"{len(found)} sessions begin with {wanted}: give more characters. {', '.join(found[:5])}")
        return found[0]

    async def view(self, session: str) -> SessionView:
        return await self.get(f"/v1/sessions/{session}", SessionView)

    async def history(self, session: str, last: int) -> list[bytes]:
        """Return the last `last` events without deltas and bare records, read page by page from the end."""
        found: list[bytes] = []
        before: int | None = None
        while len(found) < last:
            wanted = min(last - len(found), 500)
            page = await self.get(f"/v1/sessions/{session}/messages", EventPage, before=before, limit=wanted)
            found = [*(bytes(raw) for raw in page.events), *found]
            if page.next is None:
                break
            before = page.next
        return found

    async def events(self, session: str, after: int) -> AsyncIterator["EventLine"]:
        """Yield the events after a sequence number up to the current end of the log."""
        while True:
            page = await self.get(f"/v1/sessions/{session}/events", EventPage, after=after, limit=1000)
            for raw in page.events:
                yield read_line(bytes(raw), page.log_id)
            if page.next is None:
                return
            after = page.next


class McpClient:
    """Sends MCP messages to the gateway. A gateway that was restarted is located again."""

    def __init__(self, locate: Locate, *, send: bool) -> None:
        self._locate = locate
        self._path = "/mcp?allow=send" if send else "/mcp"
        self._endpoint: GatewayEndpoint | None = None
        self._http: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> "McpClient":
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._http is not None:
            await self._http.aclose()

    async def post(self, message: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        endpoint = self._locate()
        if self._http is None or endpoint != self._endpoint:
            # A request in flight on the old client is to a gateway that is gone: it fails by itself.
            self._endpoint, self._http = endpoint, http_client(endpoint)
        kinds = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        try:
            answer = await self._http.post(self._path, content=message, headers={**kinds, **headers})
        except httpx2.TransportError as error:
            raise unreachable(endpoint.url, error) from error
        return answer.status_code, answer.content


def http_client(endpoint: GatewayEndpoint) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        base_url=endpoint.url,
        headers={"authorization": f"Bearer {endpoint.token}"},
        # Without TLS there is nothing to verify, and loading the list of certificate authorities is slow.
        verify=_tls(endpoint) or False,
        timeout=httpx2.Timeout(READ_SECONDS, connect=10.0),
        # A proxy in the environment variables is for other hosts, never for this machine.
        trust_env=not endpoint.local,
    )


def _tls(endpoint: GatewayEndpoint) -> ssl.SSLContext | None:
    """Return the TLS context; None without TLS. SSL_CERT_FILE names additional certificate authorities."""
    if not endpoint.url.startswith("https:"):
        return None
    context = httpx2.create_ssl_context()
    if endpoint.own and endpoint.local:
        # The certificate is for the host name that other machines use. The process that listens on this port wrote
        # its address into a folder that only this user can write, and no network lies between.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def unreachable(url: str, error: Exception) -> Unreachable:
    why = str(error) or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in why:
        todo = "Name the file of the authority that signed it in SSL_CERT_FILE."
        return Unreachable(f"The certificate of {url} is not trusted ({why}). {todo}")
    return Unreachable(f"No gateway answers at {url} ({why}). Start one with: fairlead serve")


def response_error(status: int, body: bytes | bytearray | None, url: str) -> CliError:
    """Return the error of a response without success, also to the handshake of a socket."""
    try:
        error = msgspec.json.decode(body or b"", type=_ErrorBody).error
    except msgspec.DecodeError:
        return from_status(status, f"{url} answered {status}: is this a Fairlead gateway?")
    todo = " Give a token of this gateway with FAIRLEAD_TOKEN or --token." if status == 401 else ""
    return from_status(status, error.message + todo, error.code)


def open_socket(endpoint: GatewayEndpoint, path: str, *subprotocols: str) -> websocket.connect:
    secure = _tls(endpoint)
    rest = endpoint.url.partition("://")[2]
    return websocket.connect(
        f"{'wss' if secure else 'ws'}://{rest}{path}",
        additional_headers={"Authorization": f"Bearer {endpoint.token}"},
        subprotocols=[Subprotocol(name) for name in subprotocols] or None,
        ssl=secure,
        max_size=None,
        compression=None,
        close_timeout=1.0,
        proxy=None if endpoint.local else True,
    )


# --- one session's events ---------------------------------------------------------------------------------


class EventLine(msgspec.Struct, frozen=True):
    """One event as received. `event` is None for a type that this version does not know."""

    seq: int
    log_id: str
    raw: bytes
    event: ev.Event | None


class Note(msgspec.Struct, frozen=True):
    """A change of the connection. `gap`: the log differs from the one read before; it is replayed from its start."""

    kind: str
    text: str


class ReconnectDelays(msgspec.Struct, frozen=True):
    """Delays between attempts to reconnect: about half a minute in all, a restart takes a few seconds."""

    tries: int = 12
    first: float = 0.2
    longest: float = 4.0

    def delay(self, attempt: int) -> float:
        return min(self.first * 2.0**attempt, self.longest)


DELAYS = ReconnectDelays()


class _Frame(msgspec.Struct):
    """Any frame of the gateway: an event has a sequence number in the log, other frames are known by their type.

    Only the fields that all frames share: another field may mean one thing in an event and another in other frames."""

    type: str = ""
    seq: int | None = None
    prev: int | None = None


class _Subscribed(msgspec.Struct):
    verdict: str
    log_id: str


def read_line(raw: bytes, log_id: str) -> EventLine:
    try:
        event = ev.decode(raw)
    except msgspec.ValidationError:
        event = None
    return EventLine(msgspec.json.decode(raw, type=_Frame).seq or 0, log_id, raw, event)


class SessionWatch:
    """Subscription to a session's events from a cursor on, for as long as they are read.

    It reconnects after every disconnect and reports each with a `Note`; no event is lost or repeated. Raises
    Unreachable when all attempts to reconnect have failed, and every other `CliError` at once."""

    def __init__(
        self, locate: Locate, session: str, after: int, log_id: str = "", patience: ReconnectDelays = DELAYS
    ) -> None:
        self._locate = locate
        self._session = session
        self.seq = after
        self.log_id = log_id
        self._patience = patience

    async def items(self) -> AsyncGenerator[EventLine | Note, None]:
        """Yield events and notes. The reader must close the generator (`contextlib.aclosing`): it closes the socket."""
        attempt = 0
        lost = False
        while True:
            cause: Exception = EOFError("it closed the connection")
            try:
                connecting = open_socket(self._locate(), "/v1/ws", "fairlead.v1.json")
                async with connecting as socket, aclosing(self._subscribed(socket)) as events:
                    try:
                        async for item in events:
                            attempt = 0
                            if lost:
                                lost = False
                                yield Note("back", "The gateway is back.")
                            if item is not None:
                                yield item
                    except GeneratorExit:
                        # The reader is done. Without this close, the connection would end with an error (1011).
                        await socket.close()
                        raise
            except InvalidStatus as error:
                status = error.response.status_code
                if status < 500 and status != 429:
                    raise response_error(status, error.response.body, self._locate().url) from error
                cause = error
            except (OSError, ConnectionClosed, InvalidHandshake, TimeoutError, EOFError) as error:
                cause = error
            except Unreachable as error:
                # A gateway that stops removes the file with its address.
                cause = error
            if not lost:
                lost = True
                yield Note("lost", "The gateway does not answer; waiting for it.")
            if attempt >= self._patience.tries:
                raise Unreachable(
                    f"The gateway did not come back ({cause}). Nothing is lost: start it with: fairlead serve\n"
                    f"then continue with: fairlead attach {self._session}"
                ) from cause
            await asyncio.sleep(self._patience.delay(attempt))
            attempt += 1

    async def _subscribed(self, socket: websocket.ClientConnection) -> AsyncGenerator[EventLine | Note | None, None]:
        """Subscribe and yield events and notes. Yields None once subscribed: the first event may take a long time."""
        wanted = {"type": "subscribe", "id": 1, "session": self._session, "after": self.seq, "log_id": self.log_id}
        await socket.send(msgspec.json.encode(wanted).decode())
        async for raw in socket:
            data = raw.encode() if isinstance(raw, str) else raw
            frame = msgspec.json.decode(data, type=_Frame)
            if frame.seq is not None and frame.prev is not None:
                if frame.seq > self.seq:
                    line = read_line(data, self.log_id)
                    self.seq = frame.seq
                    yield line
            elif frame.type == "subscribed":
                answer = msgspec.json.decode(data, type=_Subscribed)
                self.log_id = answer.log_id
                yield None
                if answer.verdict == "gap":
                    self.seq = 0
                    yield Note("gap", "The log was replaced; its events follow from the first one.")
            elif frame.type == "error":
                refused = msgspec.json.decode(data, type=_Error)
                raise from_code(refused.code, refused.message)
