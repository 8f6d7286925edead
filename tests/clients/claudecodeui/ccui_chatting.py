"""Chat clients on real sockets, before a gateway on a real core; what the agent says is said by the test."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from clients.mylifedb.house import House, open_house
from fairlead.clients.claudecodeui import chat, history_pages
from fairlead.clients.claudecodeui.history import HistoryView
from fairlead.model import commands as cmd
from fairlead.model.ids import SessionId
from fairlead.model.routes import ClientProtocol
from fairlead.server.limits import Limits
from fairlead.testing.claudecodeui_client import ClaudeCodeUiClient
from sessions.rig import ANN, Rig, SaidAgent

PATIENCE = 60.0
Frame = dict[str, Any]
Wanted = str | Callable[[Frame], bool]

CHAT = ClientProtocol(
    name="claudecodeui",
    prefix="/claudecodeui",
    routes=history_pages.ROUTES,
    sockets=(chat.SOCKET,),
    views=(HistoryView(),),
)
"""The chat alone: the other parts need more of a gateway."""


class Peer:
    """One socket of the chat, the frames it got, and the reference client that shows them."""

    def __init__(self, socket: ClientConnection, client: ClaudeCodeUiClient) -> None:
        self.socket = socket
        self.client = client
        self.frames: list[Frame] = []
        self.close_code: int | None = None
        self.taken = 0
        self._news = asyncio.Condition()

    async def listen(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for text in self.socket:
                assert isinstance(text, str)
                async with self._news:
                    self.frames.append(json.loads(text))
                    self.client.feed(text)
                    self._news.notify_all()
        async with self._news:
            self.close_code = self.socket.close_code
            self.client.closed()
            self._news.notify_all()

    async def say(self, kind: str, **fields: Any) -> None:
        await self.socket.send(json.dumps({"type": kind, **fields}))

    async def send(self, session: str, content: str, options: Any = None, **more: Any) -> None:
        given = {} if options is None else {"options": options}
        await self.say("chat.send", sessionId=session, content=content, **given, **more)

    async def subscribe(self, session: str, last: Any = 0) -> Frame:
        await self.say("chat.subscribe", sessions=[{"sessionId": session, "lastSeq": last}])
        return await self.until("chat_subscribed")

    async def until(self, wanted: Wanted) -> Frame:
        """The next frame that fits, after the one that was waited for last."""
        fits = (lambda frame: frame["kind"] == wanted) if isinstance(wanted, str) else wanted
        async with self._news:
            try:
                async with asyncio.timeout(PATIENCE):
                    while True:
                        for place in range(self.taken, len(self.frames)):
                            if fits(self.frames[place]):
                                self.taken = place + 1
                                return self.frames[place]
                        assert self.close_code is None, f"closed with {self.close_code}"
                        await self._news.wait()
            except TimeoutError:
                raise AssertionError(f"{wanted} did not come; there were {self.kinds()[-30:]}") from None

    async def closed(self) -> int:
        async with self._news, asyncio.timeout(PATIENCE):
            await self._news.wait_for(lambda: self.close_code is not None)
        assert self.close_code is not None
        return self.close_code

    async def settled(self) -> None:
        """Whatever was asked of no session before is answered: what is unknown is answered at once, in its order."""
        await self.say("settled?")
        await self.until(lambda frame: frame.get("code") == "UNKNOWN_MESSAGE_TYPE" and "settled?" in frame["error"])

    def kinds(self) -> list[str]:
        return [frame["kind"] for frame in self.frames]

    def run(self, session: str = "") -> list[Frame]:
        """The frames of runs."""
        return [frame for frame in self.frames if "seq" in frame and session in ("", frame["sessionId"])]


@contextlib.asynccontextmanager
async def peer_at(
    url: str, token: str, client: ClaudeCodeUiClient | None = None, path: str = "/ws", **options: Any
) -> AsyncIterator[Peer]:
    given = {"additional_headers": {"authorization": f"Bearer {token}"}, "proxy": None, "max_size": None, **options}
    async with connect(url.replace("http", "ws", 1) + path, **given) as socket:
        peer = Peer(socket, client or ClaudeCodeUiClient())
        listening = asyncio.create_task(peer.listen())
        try:
            yield peer
        finally:
            await socket.close()
            await asyncio.wait({listening})


class ChatHouse:
    def __init__(self, house: House, folder: Path) -> None:
        self.house = house
        self.rig: Rig = house.rig
        self.folder = folder
        self.url = f"http://127.0.0.1:{house.port}"

    @contextlib.asynccontextmanager
    async def peer(
        self, client: ClaudeCodeUiClient | None = None, *, token: str = "", **options: Any
    ) -> AsyncIterator[Peer]:
        async with peer_at(self.url, token or self.house.admin, client, **options) as peer:
            yield peer

    async def session(self, number: int = 1, **fields: Any) -> SessionId:
        """A new session, as POST /api/providers/sessions makes one."""
        name = SessionId(f"5e551011-0000-4000-8000-{number:012d}")
        await self.rig.gateway.command(ANN, cmd.Create(session=name, cwd=str(self.rig.cwd), **fields))
        return name

    async def agent(self, number: int = 1) -> SaidAgent:
        """The n-th process, with the prompt that it was started for."""
        agent = await self.rig.kind.launched(number)
        await agent.prompted()
        await agent.ready()
        return agent

    async def messages(self, session: str, query: str = "", token: str = "") -> Any:
        path = f"/claudecodeui/api/providers/sessions/{session}/messages{query}"
        async with self.house.http(token) as http:
            return (await http.get(path)).json()


@contextlib.asynccontextmanager
async def chat_house(folder: Path, limits: Limits | None = None, rig: Rig | None = None) -> AsyncIterator[ChatHouse]:
    async with open_house(folder, limits, protocol=CHAT, rig=rig) as house:
        yield ChatHouse(house, folder)
