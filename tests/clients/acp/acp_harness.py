"""Editors on real sockets to a gateway with a real core; the test plays the agent.

Every message that an editor receives is checked against the protocol's schema."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from clients.acp.acp_schema import check_message, has_schema
from clients.mylifedb.harness import MyLifeDbGateway, open_gateway
from fairlead.clients.acp import PROTOCOL
from fairlead.model.auth import Identity
from fairlead.model.ids import SessionId
from fairlead.server.limits import ServerLimits
from fairlead.sessions.api.folders import ReadSessionChoices, SessionChoices
from fairlead_testing.acp_client import AcpEditor
from patience import PATIENCE
from sessions.harness import CoreHarness, FakeAgent

Fields = dict[str, Any]
EVERYTHING: Fields = {"elicitation": {"form": {}}, "session": {"notices": {}, "compaction": {}}}
"""The capabilities of a client that takes all that Fairlead can send."""


class CallRefused(Exception):
    """The gateway answered a call with an error."""

    def __init__(self, error: Fields) -> None:
        super().__init__(json.dumps(error))
        self.error = error


class Editor:
    """One editor: a socket, every message that it received, and the reference client for each session."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.received: list[Fields] = []
        self.sessions: dict[str, AcpEditor] = {}
        self.seen: set[str] = set()
        """What was received, in the words of the schema check."""
        self.close_code: int | None = None
        self._numbers = itertools.count(1)
        self._methods: dict[Any, str] = {None: "initialize"}
        self._answers: dict[Any, Fields] = {}
        self._arrived = asyncio.Condition()

    async def listen(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for data in self.socket:
                message = json.loads(data)
                async with self._arrived:
                    self._take(message)
                    self._arrived.notify_all()
        async with self._arrived:
            self.close_code = self.socket.close_code
            self._arrived.notify_all()

    def _take(self, message: Fields) -> None:
        if has_schema():
            self.seen.add(check_message(message, self._methods))
        self.received.append(message)
        if "method" not in message:
            assert message["id"] is None or message["id"] not in self._answers, "a call is answered once"
            self._answers[message["id"]] = message
            return
        session = message["params"].get("sessionId") or message["params"]["requestId"].partition("/")[0]
        self.sessions.setdefault(session, AcpEditor()).feed(message)

    # --- calls

    async def start(self, method: str, **params: Any) -> int:
        """Send a call, and return its id without waiting for the answer."""
        number = next(self._numbers)
        self._methods[number] = method
        await self.raw({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    async def answer_to(self, number: Any) -> Fields:
        """The result of a call. Raises CallRefused."""
        await self.until(lambda: number in self._answers)
        message = self._answers[number]
        if "error" in message:
            raise CallRefused(message["error"])
        return dict(message["result"])

    def is_answered(self, number: int) -> bool:
        return number in self._answers

    async def call(self, method: str, **params: Any) -> Fields:
        return await self.answer_to(await self.start(method, **params))

    async def notify(self, method: str, **params: Any) -> None:
        await self.raw({"jsonrpc": "2.0", "method": method, "params": params})

    async def raw(self, message: Any) -> None:
        await self.socket.send(message if isinstance(message, str | bytes) else json.dumps(message))

    async def initialize(self, capabilities: Fields | None = None) -> Fields:
        return await self.call("initialize", protocolVersion=1, clientCapabilities=capabilities or {})

    async def load(self, session: str) -> Fields:
        """Load a session: the reference client starts over."""
        self.sessions[session] = AcpEditor()
        return await self.call("session/load", sessionId=session, cwd="/", mcpServers=[])

    async def resume(self, session: str, **more: Any) -> Fields:
        return await self.call("session/resume", sessionId=session, cwd="/", **more)

    async def prompt(self, session: str, text: str) -> int:
        """Send a prompt; return the id of its call."""
        return await self.start("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    # --- requests to the person

    async def request(self, session: str) -> Fields:
        """Wait for the only open request of a session."""
        await self.until(lambda: len(self.of(session).requests) == 1)
        (message,) = self.of(session).requests.values()
        return message

    async def choose(self, session: str, option: str) -> None:
        """Answer the only open request of a session."""
        message = await self.request(session)
        self.of(session).answered(message["id"])
        outcome = {"outcome": {"outcome": "selected", "optionId": option}}
        await self.raw({"jsonrpc": "2.0", "id": message["id"], "result": outcome})

    # --- waiting

    async def until_status(self, session: str, call: str, status: str) -> None:
        await self.until(lambda: self.of(session).calls.get(call, {}).get("status") == status)

    def of(self, session: str) -> AcpEditor:
        return self.sessions.setdefault(session, AcpEditor())

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until a message has made this true."""
        async with self._arrived:
            try:
                async with asyncio.timeout(PATIENCE):
                    await self._arrived.wait_for(lambda: holds() or self.close_code is not None)
            except TimeoutError:
                raise AssertionError(f"it did not come; the last were {self.received[-10:]}") from None
        assert holds(), f"closed with {self.close_code}"

    async def settled(self, session: str) -> None:
        """Wait until all earlier messages about a session were handled: they are handled in order."""
        with contextlib.suppress(CallRefused):
            await self.call("session/set_config_option", sessionId=session, configId="_settled", value="")


@contextlib.asynccontextmanager
async def editor_at(url: str, token: str, query: str = "") -> AsyncIterator[Editor]:
    """An editor that is connected and has sent nothing yet."""
    headers = {"authorization": f"Bearer {token}"}
    address = url.replace("http", "ws", 1) + f"/acp{query}"
    async with connect(address, additional_headers=headers, proxy=None, max_size=None) as socket:
        editor = Editor(socket)
        listening = asyncio.create_task(editor.listen())
        try:
            yield editor
        finally:
            await socket.close()
            await asyncio.wait({listening})


class AcpHarness:
    def __init__(self, gateway: MyLifeDbGateway) -> None:
        self.gateway = gateway
        self.core: CoreHarness = gateway.core

    @contextlib.asynccontextmanager
    async def editor(
        self, capabilities: Fields = EVERYTHING, *, token: str = "", query: str = "", start: bool = True
    ) -> AsyncIterator[Editor]:
        async with editor_at(f"http://127.0.0.1:{self.gateway.port}", token or self.gateway.admin, query) as editor:
            if start:
                await editor.initialize(capabilities)
            yield editor

    async def new(self, editor: Editor, **more: Any) -> SessionId:
        answer = await editor.call("session/new", **{"cwd": str(self.core.cwd), "mcpServers": []} | more)
        return SessionId(answer["sessionId"])

    async def agent(self, number: int = 1) -> FakeAgent:
        """The n-th process, after it has received the prompt that it was started for."""
        agent = await self.core.kind.launched(number)
        await agent.prompted()
        await agent.ready()
        await self.core.all_live()
        return agent


@contextlib.asynccontextmanager
async def open_acp(folder: Path, limits: ServerLimits | None = None) -> AsyncIterator[AcpHarness]:
    core = CoreHarness(folder)

    async def choices(who: Identity, action: ReadSessionChoices) -> SessionChoices:
        return SessionChoices((str(core.cwd),), modes=("default", "acceptEdits", "plan"))

    async with open_gateway(folder, limits, {ReadSessionChoices: choices}, PROTOCOL, core) as gateway:
        yield AcpHarness(gateway)
