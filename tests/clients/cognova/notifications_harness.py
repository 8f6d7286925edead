"""Peers of /notifications and REST calls on a real server with a real NotificationService and core; the clock is
manual."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from fairlead.auth.actions import CredentialActions
from fairlead.auth.credentials import Credentials
from fairlead.clients.cognova import PROTOCOL
from fairlead.model.ids import SessionId
from fairlead.model.web.requests import ServiceCall, ServiceHandler
from fairlead.model.web.session_changes import What
from fairlead.notifications.http_client import HttpClient
from fairlead.notifications.service import NotificationService
from fairlead.server.app import App, AppConfig
from fairlead.server.limits import ServerLimits
from fairlead.server.listeners import Binding, allowed_origins, open_sockets
from fairlead.server.runner import ServerRunner
from fairlead.system.clock import SystemClock
from local_http import local_client
from patience import PATIENCE
from sessions.harness import CoreHarness

Frame = dict[str, Any]


class Listener:
    """One socket of the feed and the frames it received."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.frames: list[Frame] = []
        self._pings = 0
        self._news = asyncio.Condition()

    async def listen(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for text in self.socket:
                assert isinstance(text, str)
                async with self._news:
                    self.frames.append(json.loads(text))
                    self._news.notify_all()

    async def say(self, frame: Any) -> None:
        self._pings += frame == {"type": "ping"}
        await self.socket.send(frame if isinstance(frame, str | bytes) else json.dumps(frame))

    async def until(self, number: int) -> list[Frame]:
        """Wait until `number` frames have arrived."""
        async with self._news, asyncio.timeout(PATIENCE):
            await self._news.wait_for(lambda: len(self.frames) >= number)
        return self.frames

    async def change(self, resource: str, action: str) -> Frame:
        """Wait for a change of this kind and return the last one."""

        def found() -> list[Frame]:
            return [one for one in self.frames if (one.get("resource"), one.get("action")) == (resource, action)]

        async with self._news:
            try:
                async with asyncio.timeout(PATIENCE):
                    await self._news.wait_for(found)
            except TimeoutError:
                raise AssertionError(f"{resource}/{action} did not come; there were {self.frames[-10:]}") from None
        return found()[-1]

    async def settled(self) -> list[Frame]:
        """All frames before the answer to a ping, without that answer: no other frame is still on its way."""
        await self.say({"type": "ping"})
        async with self._news, asyncio.timeout(PATIENCE):
            await self._news.wait_for(lambda: self._pongs() == self._pings)
            self._pings -= 1
            last = max(place for place, one in enumerate(self.frames) if one["type"] == "pong")
            del self.frames[last]
        return self.frames

    def _pongs(self) -> int:
        return sum(one["type"] == "pong" for one in self.frames)


class FeedHarness:
    def __init__(
        self, core: CoreHarness, service: NotificationService, credentials: Credentials, port: int, admin: str
    ) -> None:
        self.core = core
        self.service = service
        self.credentials = credentials
        self.port = port
        self.admin = admin

    async def token(self, *scopes: Any) -> str:
        return (await self.credentials.create("token", "somebody", scopes)).secret

    async def call(self, method: str, path: str, body: Any = None, token: str = "", **more: Any) -> httpx2.Response:
        headers = {"x-api-token": token or self.admin}
        async with local_client(headers=headers) as http:
            given = {} if body is None else {"json": body}
            return await http.request(method, f"http://127.0.0.1:{self.port}/cognova{path}", **given, **more)

    async def done(self, method: str, path: str, body: Any = None) -> Any:
        """The data of a call that succeeds."""
        answer = await self.call(method, path, body)
        assert answer.status_code == 200, answer.text
        return answer.json().get("data")

    @contextlib.asynccontextmanager
    async def listener(self, query: str = "", token: str = "") -> AsyncIterator[Listener]:
        headers = {"authorization": f"Bearer {token or self.admin}"}
        address = f"ws://127.0.0.1:{self.port}/notifications{query}"
        async with connect(address, additional_headers=headers, compression=None, proxy=None) as socket:
            listener = Listener(socket)
            listening = asyncio.create_task(listener.listen())
            try:
                yield listener
            finally:
                await socket.close()
                await asyncio.wait({listening})


@contextlib.asynccontextmanager
async def open_feed(folder: Path) -> AsyncIterator[FeedHarness]:
    core = CoreHarness(folder)
    core.views = {view.name: view for view in PROTOCOL.views}
    numbers = iter(range(1, 1_000_000))

    def fresh() -> str:
        return f"00000000-0000-4000-8000-{next(numbers):012d}"

    async def describe(session: SessionId) -> tuple[str, tuple[str, ...]]:
        summary = await core.store.summary(session)
        return ("", ()) if summary is None else (summary.title, (summary.owner, *summary.shared))

    def news(session: SessionId, what: What) -> None:
        service.session_changed(session, what)

    core.news = news
    core.committed = lambda session, events: service.committed(session, events)
    await core.start()
    service = NotificationService(
        core.store.resources,
        core.store.documents,
        lambda: core.gateway,
        folder,
        core.clock,
        fresh=fresh,
        describe=describe,
        who_is=lambda credential: credentials.identity(credential),
        caller=HttpClient(core.clock),
    )
    await service.begin()
    await service.start()
    clock = SystemClock()
    credentials = Credentials(core.store.documents, clock)
    await credentials.load()
    admin = await credentials.create("token", "ann", ("admin",))
    binding = Binding(port=0)
    sockets = open_sockets(binding)
    performers: dict[type[ServiceCall[Any]], ServiceHandler] = {
        **CredentialActions(credentials).handlers(),
        **service.handlers(),
    }
    limits = ServerLimits(commands_per_s=1000)
    parts = AppConfig(
        protocols=(PROTOCOL,),
        gateway=core.gateway,
        handlers=performers,
        credentials=credentials,
        allowed_origins=allowed_origins(binding, sockets),
        clock=clock,
        version="1.2.3",
        limits=limits,
        fresh=fresh,
    )
    runner = ServerRunner(App(parts), binding, sockets, clock, limits)
    serving = asyncio.create_task(runner.serve())
    await runner.ready()
    try:
        yield FeedHarness(core, service, credentials, sockets[0].getsockname()[1], admin.secret)
    finally:
        runner.stop()
        await serving
        await credentials.close()
        await core.registry.stop()
        await service.stop()
        await core.store.close()
