"""Chat clients on real sockets to a gateway with a real core; the test plays the agent."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

from clients.chat_client import ChatPeer, Frame
from clients.mylifedb.harness import MyLifeDbGateway, open_gateway
from fairlead.clients.cognova import chat, conversations
from fairlead.clients.cognova.history import PROJECTION
from fairlead.clients.cognova.rest import with_errors, with_token
from fairlead.model.ids import SessionId
from fairlead.model.web.routes import ClientProtocol
from fairlead.server.limits import ServerLimits
from fairlead_testing.cognova_client import CognovaClient
from sessions.harness import CoreHarness, FakeAgent

CHAT = ClientProtocol(
    name="cognova",
    prefix="/cognova",
    routes=tuple(map(with_errors, conversations.ROUTES)),
    sockets=(with_token(chat.SOCKET),),
    views=(PROJECTION,),
)
"""Only the chat: the other parts of the protocol need more of a gateway."""


class Peer(ChatPeer[CognovaClient]):
    def word(self, frame: Frame) -> str:
        return str(frame["type"]).removeprefix("chat:")

    async def send(self, message: str, conversation: str | None = None, **more: Any) -> None:
        where = {} if conversation is None else {"conversationId": conversation}
        await self.say("chat:send", message=message, **where, **more)

    async def begin(self, message: str, **more: Any) -> SessionId:
        """Begin a new conversation and return its id."""
        await self.send(message, **more)
        return SessionId((await self.until("session_created"))["conversationId"])

    async def settled(self) -> None:
        """Wait until all earlier messages are answered: a socket answers pings in order."""
        await self.say("ping")
        await self.until(lambda frame: frame["type"] == "pong")

    def stream(self) -> list[Frame]:
        """The frames of conversations, without those of the connection itself."""
        return [frame for frame in self.frames if "seq" in frame]


@contextlib.asynccontextmanager
async def peer_at(
    url: str, token: str, client: CognovaClient | None = None, path: str = "/_ws/chat", **options: Any
) -> AsyncIterator[Peer]:
    given = {"additional_headers": {"authorization": f"Bearer {token}"}, "proxy": None, "max_size": None, **options}
    async with connect(url.replace("http", "ws", 1) + path, **given) as socket:
        peer = Peer(socket, client or CognovaClient())
        listening = asyncio.create_task(peer.listen())
        try:
            yield peer
        finally:
            await socket.close()
            await asyncio.wait({listening})


class ChatHarness:
    def __init__(self, gateway: MyLifeDbGateway) -> None:
        self.gateway = gateway
        self.core: CoreHarness = gateway.core
        self.url = f"http://127.0.0.1:{gateway.port}"

    @contextlib.asynccontextmanager
    async def peer(
        self, client: CognovaClient | None = None, *, token: str = "", **options: Any
    ) -> AsyncIterator[Peer]:
        async with peer_at(self.url, token or self.gateway.admin, client, **options) as peer:
            yield peer

    async def agent(self, number: int = 1) -> FakeAgent:
        """The n-th process, after it has received the prompt that it was started for."""
        agent = await self.core.kind.launched(number)
        await agent.prompted()
        await agent.ready()
        await self.core.all_live()
        return agent

    async def interrupted(self, agent: FakeAgent, times: int = 1) -> None:
        """Wait until the agent has received this number of interrupts, and let it obey."""
        await self.core.until(lambda: agent.requests.count(("interrupt", None)) == times)
        await agent.result(subtype="error_during_execution", is_error=True, result=None)

    async def get(self, path: str, token: str = "") -> Any:
        async with self.gateway.http(token) as http:
            return (await http.get(f"/cognova/api/conversations{path}")).json()["data"]


async def stream(agent: FakeAgent, *pieces: str, message: str = "m1", whole: bool = True) -> None:
    """Stream a text; with `whole` also its end."""

    async def event(**fields: Any) -> None:
        body = {"type": "stream_event", "uuid": agent._uuid("stream"), "session_id": agent.launch.session}
        await agent.say(body | {"parent_tool_use_id": None, "event": fields})

    await event(type="message_start", message={"id": message, "role": "assistant", "content": [], "usage": {}})
    await event(type="content_block_start", index=0, content_block={"type": "text", "text": ""})
    for piece in pieces:
        await event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
    if whole:
        await agent.text("".join(pieces), message)
        await event(type="content_block_stop", index=0)
        await event(type="message_stop")


@contextlib.asynccontextmanager
async def open_chat(
    folder: Path, limits: ServerLimits | None = None, core: CoreHarness | None = None
) -> AsyncIterator[ChatHarness]:
    async with open_gateway(folder, limits, protocol=CHAT, core=core) as gateway:
        yield ChatHarness(gateway)
