"""A gateway that serves MyLifeDB over real sockets, on a real core; the test plays the agent."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from fairlead.auth.actions import CredentialActions
from fairlead.auth.credentials import Credentials
from fairlead.clients.mylifedb import PROTOCOL
from fairlead.model.web.requests import ServiceCall, ServiceHandler, ServiceHandlers
from fairlead.model.web.routes import ClientProtocol
from fairlead.server.app import App, AppConfig
from fairlead.server.limits import ServerLimits
from fairlead.server.listeners import Binding, allowed_origins, open_sockets
from fairlead.server.runner import ServerRunner
from fairlead.sessions.fanout.broadcast import Broadcasts
from fairlead.sessions.fanout.hub import Subscription
from fairlead.sessions.fanout.session_changes import SessionChanges
from fairlead.sessions.read_state import ReadState
from fairlead.system.clock import SystemClock
from fairlead_testing.mylifedb_client import MyLifeDbClient
from local_http import local_client
from patience import PATIENCE
from sessions.harness import SESSION, CoreHarness

Frame = dict[str, Any]
Wanted = str | Callable[[Frame], bool]


class Tab:
    """A browser's tab: one socket, the frames it received, and the reference client that shows them."""

    def __init__(
        self, socket: ClientConnection, client: MyLifeDbClient, *, packed: bool = False, patience: float = PATIENCE
    ) -> None:
        self.socket = socket
        self.client = client
        self.frames: list[Frame] = []
        self.kinds_seen: set[type] = set()
        self.close_code: int | None = None
        self._packed = packed
        self._patience = patience
        self._taken = 0
        self._news = asyncio.Condition()

    async def listen(self) -> None:
        self.client.opened()
        try:
            async for data in self.socket:
                frame = msgspec.msgpack.decode(data) if isinstance(data, bytes) else msgspec.json.decode(data)
                async with self._news:
                    self.kinds_seen.add(type(data))
                    self.frames.append(frame)
                    self.client.apply(frame)
                    self._news.notify_all()
        except ConnectionClosed:
            pass
        async with self._news:
            self.close_code = self.socket.close_code
            self.client.closed()
            self._news.notify_all()

    async def say(self, **frame: Any) -> None:
        data = msgspec.msgpack.encode(frame) if self._packed else msgspec.json.encode(frame).decode()
        await self.socket.send(data)

    async def until(self, wanted: Wanted) -> Frame:
        """Wait for the next matching frame after the last one that was waited for."""
        fits = (lambda frame: frame["type"] == wanted) if isinstance(wanted, str) else wanted
        async with self._news:
            try:
                async with asyncio.timeout(self._patience):
                    while True:
                        for place in range(self._taken, len(self.frames)):
                            if fits(self.frames[place]):
                                self._taken = place + 1
                                return self.frames[place]
                        assert self.close_code is None, f"closed with {self.close_code}"
                        await self._news.wait()
            except TimeoutError:
                raise AssertionError(f"{wanted} did not come; there were {self.kinds()[-30:]}") from None

    async def closed(self) -> int:
        async with self._news, asyncio.timeout(self._patience):
            await self._news.wait_for(lambda: self.close_code is not None)
        assert self.close_code is not None
        return self.close_code

    @property
    def extensions(self) -> str:
        """Extensions negotiated in the handshake."""
        assert self.socket.response is not None
        return self.socket.response.headers.get("sec-websocket-extensions", "")

    def kinds(self) -> list[str]:
        return [frame["type"] for frame in self.frames]

    def uuids(self) -> list[str]:
        return [frame["uuid"] for frame in self.frames if frame.get("uuid") and frame["type"] != "stream_event"]


class MyLifeDbGateway:
    def __init__(
        self, core: CoreHarness, credentials: Credentials, app: App, book: ReadState, port: int, admin: str
    ) -> None:
        self.core = core
        self.book = book
        self.credentials = credentials
        self.app = app
        self.port = port
        self.admin = admin
        self.open = 0
        """Number of open tabs that have received their history."""

    async def token(self, *scopes: Any, name: str = "somebody") -> str:
        return (await self.credentials.create("token", name, scopes)).secret

    def http(self, token: str = "") -> httpx2.AsyncClient:
        headers = {"authorization": f"Bearer {token or self.admin}"}
        return local_client(base_url=f"http://127.0.0.1:{self.port}", headers=headers)

    async def http_get(self, path: str) -> Any:
        """Return the decoded answer of a call below the sessions."""
        async with self.http() as http:
            return (await http.get(f"/api/claude/sessions{path}")).json()

    def address(self, query: str = "", session: str = SESSION, path: str = "subscribe") -> str:
        return f"ws://127.0.0.1:{self.port}/api/claude/sessions/{session}/{path}{query}"

    @contextlib.asynccontextmanager
    async def tab(
        self, query: str = "", *, token: str = "", client: MyLifeDbClient | None = None, **options: Any
    ) -> AsyncIterator[Tab]:
        headers = {"authorization": f"Bearer {token or self.admin}"}
        session, ready = options.pop("session", SESSION), options.pop("ready", True)
        given = {"additional_headers": headers, "compression": None, "proxy": None, "max_size": None, **options}
        async with connect(self.address(query, session), **given) as socket:
            tab = Tab(socket, client or MyLifeDbClient(), packed=socket.subprotocol == "msgpack")
            listening = asyncio.create_task(tab.listen())
            try:
                if ready:
                    self.open += 1
                    await self.core.until(lambda: len(self._live()) >= self.open)
                yield tab
            finally:
                self.open -= ready
                await socket.close()
                await asyncio.wait({listening})

    def _live(self) -> list[Subscription]:
        """Subscriptions that have caught up and receive new entries."""
        projectors = self.core.registry.views._projectors.values()
        return [watcher for projector in projectors for watcher in projector.feed._watchers() if watcher.live]


@contextlib.asynccontextmanager
async def open_gateway(
    folder: Path,
    limits: ServerLimits | None = None,
    performers: ServiceHandlers | None = None,
    protocol: ClientProtocol = PROTOCOL,
    core: CoreHarness | None = None,
) -> AsyncIterator[MyLifeDbGateway]:
    core = core or CoreHarness(folder)
    core.views = {view.name: view for view in protocol.views}
    news = SessionChanges(core.clock, lambda who, session: core.gateway.ownership.sees(who, session))
    core.news = news.notify
    core.looked = lambda session, who, turns: book.mark_read(session, who, turns)
    await core.start()
    book = ReadState(core.store.documents, news.notify, core.registry.watching)
    clock = SystemClock()
    credentials = Credentials(core.store.documents, clock)
    await credentials.load()
    admin = await credentials.create("token", "ann", ("admin",))
    binding = Binding(port=0)
    sockets = open_sockets(binding)
    all_performers: dict[type[ServiceCall[Any]], ServiceHandler] = {
        **CredentialActions(credentials).handlers(),
        **book.handlers(),
        **news.handlers(),
        **Broadcasts(news, core.store.summary).handlers(),
        **(performers or {}),
    }
    limits = limits or ServerLimits(commands_per_s=1000)
    app = App(
        AppConfig(
            protocols=(protocol,),
            gateway=core.gateway,
            handlers=all_performers,
            credentials=credentials,
            allowed_origins=allowed_origins(binding, sockets),
            clock=clock,
            version="1.2.3",
            limits=limits,
        )
    )
    runner = ServerRunner(app, binding, sockets, clock, limits)
    serving = asyncio.create_task(runner.serve())
    await runner.ready()
    try:
        yield MyLifeDbGateway(core, credentials, app, book, sockets[0].getsockname()[1], admin.secret)
    finally:
        runner.stop()
        await serving
        await credentials.close()
        await core.registry.stop()
        await book.tasks.wait()
        await core.store.close()
