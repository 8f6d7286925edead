"""Chat clients on real sockets to a gateway with a real core; the test plays the agent."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

from clients.chat_client import ChatPeer, Frame
from clients.mylifedb.harness import MyLifeDbGateway, open_gateway
from fairlead.clients.claudecodeui.chat import conversation
from fairlead.clients.claudecodeui.chat.history import PROJECTION
from fairlead.clients.claudecodeui.rest import history_pages
from fairlead.model import commands as cmd
from fairlead.model.ids import SessionId
from fairlead.model.web.routes import ClientProtocol
from fairlead.server.limits import ServerLimits
from fairlead_testing.claudecodeui_client import ClaudeCodeUiClient
from sessions.harness import ANN, CoreHarness, FakeAgent

CHAT = ClientProtocol(
    name="claudecodeui",
    prefix="/claudecodeui",
    routes=tuple(history_pages.ROUTES),
    sockets=(conversation.SOCKET,),
    views=(PROJECTION,),
)
"""Only the chat: the other parts of the protocol need more of a gateway."""


def frame_kinds(frames: Iterable[Frame]) -> list[str]:
    """Kinds of the frames, without `status` (their number depends on the model) and without the end of an empty
    stream."""
    found: list[str] = []
    streaming = False
    for frame in frames:
        kind = frame["kind"]
        if kind != "status" and (kind != "stream_end" or streaming):
            found.append(kind)
        streaming = kind == "stream_delta" or (streaming and kind != "stream_end")
    return found


class Peer(ChatPeer[ClaudeCodeUiClient]):
    def word(self, frame: Frame) -> str:
        return str(frame["kind"])

    async def send(self, session: str, content: str, options: Any = None, **more: Any) -> None:
        given = {} if options is None else {"options": options}
        await self.say("chat.send", sessionId=session, content=content, **given, **more)

    async def subscribe(self, session: str, last: Any = 0) -> Frame:
        await self.say("chat.subscribe", sessions=[{"sessionId": session, "lastSeq": last}])
        return await self.until("chat_subscribed")

    async def settled(self) -> None:
        """Wait until all earlier messages that name no session are answered: an unknown message is answered at once
        and in order."""
        await self.say("settled?")
        await self.until(lambda frame: frame.get("code") == "UNKNOWN_MESSAGE_TYPE" and "settled?" in frame["error"])

    def run_kinds(self, session: str = "") -> list[str]:
        """The kinds of the frames of runs, without `status` and without the end of an empty stream."""
        return frame_kinds(self.run(session))

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


class ChatHarness:
    def __init__(self, gateway: MyLifeDbGateway, folder: Path) -> None:
        self.gateway = gateway
        self.core: CoreHarness = gateway.core
        self.folder = folder
        self.url = f"http://127.0.0.1:{gateway.port}"

    @contextlib.asynccontextmanager
    async def peer(
        self, client: ClaudeCodeUiClient | None = None, *, token: str = "", **options: Any
    ) -> AsyncIterator[Peer]:
        async with peer_at(self.url, token or self.gateway.admin, client, **options) as peer:
            yield peer

    async def session(self, number: int = 1, **fields: Any) -> SessionId:
        """A new session, as POST /api/providers/sessions makes one."""
        name = SessionId(f"5e551011-0000-4000-8000-{number:012d}")
        await self.core.gateway.command(ANN, cmd.Create(session=name, cwd=str(self.core.cwd), **fields))
        return name

    async def agent(self, number: int = 1) -> FakeAgent:
        """The n-th process, after it has received the prompt that it was started for."""
        agent = await self.core.kind.launched(number)
        await agent.prompted()
        await agent.ready()
        await self.core.all_live()
        return agent

    async def messages(self, session: str, query: str = "", token: str = "") -> Any:
        path = f"/claudecodeui/api/providers/sessions/{session}/messages{query}"
        async with self.gateway.http(token) as http:
            return (await http.get(path)).json()


@contextlib.asynccontextmanager
async def open_chat(
    folder: Path, limits: ServerLimits | None = None, core: CoreHarness | None = None
) -> AsyncIterator[ChatHarness]:
    async with open_gateway(folder, limits, protocol=CHAT, core=core) as gateway:
        yield ChatHarness(gateway, folder)
