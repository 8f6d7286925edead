"""A whole gateway with two users, one of whom has secrets; and a walk over every route and socket that it serves."""

import asyncio
import contextlib
import re
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from fairlead import wiring
from fairlead.clients.native.decode import KINDS
from fairlead.clients.native.schemas import CreateSession
from fairlead.config import Config
from fairlead.model.commands import Create
from fairlead.model.web.routes import Route
from fairlead.server.discovery import discover
from fairlead.server.route_table import RouteTable, at_main_port
from local_http import local_client

WORD = "qzxwhisper"
"""Part of everything that Anna sends and names."""
SCOPES = ("view", "chat", "approve", "terminal")

ENDLESS = ("mylifedb.notifications", "direct.stream")
"""The routes whose response is an endless stream."""


class Ids(msgspec.Struct, frozen=True):
    """The ids used by a walk: ids of Anna's things, or ids that never existed."""

    session: str
    request: str
    item: str

    def plain(self, text: str) -> str:
        for name in (self.session, self.request, self.item):
            text = text.replace(name, "ID")
        return text


def table() -> RouteTable:
    return RouteTable([at_main_port(protocol) for protocol in discover()])


def named(template: str, ids: Ids) -> str:
    """Fill in every parameter of a path."""

    def fill(found: re.Match[str]) -> str:
        name = found[1].rstrip(".")
        return {"session": ids.session, "request": ids.request}.get(name, ids.item)

    return re.sub(r"\{([^}]*)\}", fill, template)


def values(ids: Ids) -> dict[str, Any]:
    """Values for fields with these names, in any route or command."""
    return {
        "session": ids.session,
        "sessionId": ids.session,
        "conversationId": ids.session,
        "session_id": ids.session,
        "resume": ids.session,
        "child": str(uuid.uuid4()),
        "request": ids.request,
        "requestId": ids.request,
        "message": "hello",
        "text": "hello",
        "content": [{"type": "text", "text": "hello"}],
        "user": "bert",
        "behavior": "allow",
        "allow": [],
        "title": "named by bert",
        "prompt": "hello",
        "name": "berts",
        "schedule": "0 0 1 1 *",
        "settings": {"model": "sonnet"},
        "mode": "plan",
        "model": "sonnet",
        "link": "stdio",
        "path": f"/v1/sessions/{ids.session}/export",
        "budget": None,
        "position": 0,
        "subtype": "x",
        "variables": {"A": "b"},
        "archived": True,
        "events": [],
        "messages": [],
        "topics": ["turn.failed"],
        "on": True,
        "shared": True,
    }


def body_of(kind: Any, ids: Ids) -> dict[str, Any]:
    """The best possible body: the fields of a described type, otherwise every known field."""
    known = values(ids)
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return known
    fields = msgspec.structs.fields(kind)
    if issubclass(kind, CreateSession | Create):
        # An id that is in use cannot be assigned again: the one thing that reveals it.
        known["session"] = str(uuid.uuid4())
    return {field.encode_name: known.get(field.name, "x") for field in fields if field.required or field.name in known}


def frames(ids: Ids) -> Iterator[dict[str, Any]]:
    """Frames for a socket: every command of the native protocol, and the subscriptions of the other protocols."""
    for kind, command in KINDS.items():
        yield {"type": kind, **body_of(command, ids)}
    yield from subscribing(ids)
    yield {"type": "typing", "session": ids.session, "active": True}
    yield {"type": "chat.send", "sessionId": ids.session, "content": "hello"}
    yield {"type": "chat.abort", "sessionId": ids.session}
    yield {"type": "chat.permission-response", "requestId": ids.request, "allow": True}
    yield {"type": "chat:send", "conversationId": ids.session, "message": "hello"}
    yield {"type": "chat:interrupt", "conversationId": ids.session}
    yield {"type": "chat:permission_response", "requestId": ids.request, "allow": True}
    yield {"type": "user_message", "content": "hello"}
    yield {"type": "user", "message": {"role": "user", "content": "hello"}}
    yield {"type": "control_request", "request_id": "1", "request": {"subtype": "interrupt"}}


def subscribing(ids: Ids) -> Iterator[dict[str, Any]]:
    yield {"type": "subscribe", "session": ids.session, "after": 0}
    yield {"type": "subscribe", "topics": ["session", "permission", "turn"]}
    yield {"type": "chat.subscribe", "sessions": [{"sessionId": ids.session, "lastSeq": 0}]}
    yield {"type": "chat:subscribe", "conversationId": ids.session, "lastSeq": 0}


class Listener:
    """One socket, and everything received on it."""

    def __init__(self, path: str, ids: Ids) -> None:
        self.path = path
        self.ids = ids
        self.refused = 0
        self.received: list[str] = []
        self.closed = 0
        self.all_sent = asyncio.Event()
        """Set when every frame was sent and read by the gateway, or when the gateway no longer reads them."""

    @property
    def text(self) -> str:
        return "\n".join(self.received)


class TwoUserGateway:
    def __init__(self, url: str, admin: str) -> None:
        self.url = url
        self.tokens = {"admin": admin}
        self.http = local_client(base_url=url)

    async def call(self, who: str, method: str, path: str, body: Any = None, **more: Any) -> httpx2.Response:
        headers = {"authorization": f"Bearer {self.tokens[who]}"}
        return await self.http.request(method, path, json=body, headers=headers, **more)

    async def get(self, who: str, path: str) -> Any:
        answer = await self.call(who, "GET", path)
        assert answer.status_code == 200, (path, answer.text)
        return answer.json()

    async def post(self, who: str, path: str, body: Any = None) -> Any:
        answer = await self.call(who, "POST", path, body or {})
        assert answer.status_code < 300, (path, answer.text)
        return answer.json()

    async def add(self, name: str, scopes: tuple[str, ...] = SCOPES, user: str = "") -> None:
        """Create a token called `name`; its user is created if it does not exist."""
        user = user or name
        if user not in {known["name"] for known in (await self.get("admin", "/v1/users"))["users"]}:
            await self.post("admin", "/v1/users", {"name": user})
        made = await self.post("admin", "/v1/tokens", {"name": f"{name}-laptop", "user": user, "scopes": scopes})
        self.tokens[name] = made["secret"]

    async def asking(self, who: str, session: str) -> str:
        """Wait until the session has a pending request; return its id."""
        while True:
            found = await self.get(who, f"/v1/sessions/{session}/permissions")
            if found["permissions"]:
                return str(found["permissions"][0]["event"]["request"])
            await asyncio.sleep(0.02)

    async def rested(self, who: str, session: str) -> dict[str, Any]:
        """Wait until nothing is under way in the session; return its view."""
        while True:
            view: dict[str, Any] = await self.get(who, f"/v1/sessions/{session}")
            if view["summary"]["state"] in ("idle", "closed"):
                return view
            await asyncio.sleep(0.02)

    @contextlib.asynccontextmanager
    async def listening(self, who: str, path: str, ids: Ids, *, quiet: bool = False) -> AsyncIterator[Listener]:
        """Open a socket, send every possible frame on it and store the answers. `quiet`: it only subscribes."""
        listener = Listener(named(path, ids), ids)
        address = self.url.replace("http", "ws", 1) + listener.path
        headers = {"Authorization": f"Bearer {self.tokens[who]}"}
        try:
            socket = await connect(address, additional_headers=headers, proxy=None, max_size=None)
        except InvalidStatus as refused:
            listener.refused = refused.response.status_code
            listener.received.append((refused.response.body or b"").decode())
            listener.all_sent.set()
            yield listener
            return

        async def read() -> None:
            with contextlib.suppress(ConnectionClosed):
                async for message in socket:
                    listener.received.append(message if isinstance(message, str) else message.decode(errors="replace"))
            listener.closed = socket.close_code or 0

        async def say() -> None:
            with contextlib.suppress(ConnectionClosed):
                for frame in subscribing(ids) if quiet else frames(ids):
                    await socket.send(msgspec.json.encode(frame).decode())
                await (await socket.ping())
            listener.all_sent.set()

        tasks = (asyncio.create_task(read()), asyncio.create_task(say()))
        try:
            yield listener
        finally:
            await socket.close()
            await asyncio.gather(*tasks)


async def collect_lines(gateway: TwoUserGateway, who: str, path: str, lines: list[str]) -> None:
    """Collect the lines of an endless stream until cancelled."""
    headers = {"authorization": f"Bearer {gateway.tokens[who]}"}
    async with gateway.http.stream("GET", path, headers=headers) as answer:
        lines.append("")
        async for line in answer.aiter_lines():
            lines.append(line)


async def asked(gateway: TwoUserGateway, who: str, route: Route, ids: Ids, query: Mapping[str, str]) -> tuple[int, str]:
    """Status and body of a route; for an endless stream only the status, unless it is refused."""
    body = None if route.method == "GET" else body_of(route.body, ids)
    headers = {"authorization": f"Bearer {gateway.tokens[who]}"}
    path = named(route.path, ids)
    async with gateway.http.stream(route.method, path, json=body, params=query, headers=headers) as answer:
        if route.name in ENDLESS and answer.status_code == 200:
            return answer.status_code, ""
        return answer.status_code, (await answer.aread()).decode(errors="replace")


@contextlib.asynccontextmanager
async def open_gateway(folder: Path) -> AsyncIterator[TwoUserGateway]:
    config = Config(
        port=0,
        data=f"{folder}/data",
        agent="demo",
        roots=(str(folder),),
        claude_homes=(),
        notify_private=("127.0.0.0/8",),
    )
    async with wiring.running(config, {"HOME": str(folder), "PATH": "/usr/bin:/bin"}) as running:
        gateway = TwoUserGateway(running.url, running.token)
        try:
            yield gateway
        finally:
            await gateway.http.aclose()
