"""Clients of each protocol that stay: they notice that the connection ended and reconnect by themselves, each by its
protocol's own rule, with the position that it has. Public, for tests of restarts.

async with NativeLive(url, token, session) as client:
    await client.until(lambda: client.over)
    client.shown()                          # what a person sees; equal for two clients that missed nothing
"""

import asyncio
import contextlib
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Any, Final, Protocol, Self

import httpx2
import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage

from fairlead_testing.agui_client import payloads_of
from fairlead_testing.claudecodeui_client import ClaudeCodeUiClient
from fairlead_testing.claudecodeui_client import Shown as AppShown
from fairlead_testing.cognova_client import CognovaClient
from fairlead_testing.cognova_client import Shown as CognovaShown
from fairlead_testing.happy_client import HappyClient
from fairlead_testing.mylifedb_client import MyLifeDbClient
from fairlead_testing.native_client import Fold

RETRY_SECONDS: Final = 0.1
"""How long a client waits before it tries to connect again."""
PATIENCE: Final = 60.0


class LiveClient(ABC):
    """One client of a session at a gateway. `connections` counts those that were opened, `cuts` those that ended."""

    name: str

    def __init__(self, url: str, token: str, session: str) -> None:
        self.url = url
        self.headers = {"Authorization": f"Bearer {token}"}
        self.session = session
        self.connections = 0
        self.cuts = 0
        self._news = asyncio.Condition()
        self._staying: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._staying = asyncio.create_task(self._stay())
        await self.until(lambda: self.connections > 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._staying is not None
        self._staying.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._staying

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait until `condition` holds; it is checked after every frame. Raises what ended the client, if something
        did."""
        async with asyncio.timeout(PATIENCE), self._news:
            while not condition():
                if self._staying is not None and self._staying.done():
                    self._staying.result()
                await self._news.wait()

    async def _stay(self) -> None:
        try:
            while True:
                with contextlib.suppress(OSError, httpx2.TransportError, InvalidHandshake, InvalidMessage):
                    await self._connect()
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            await self._tell()

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def _opened(self) -> None:
        self.connections += 1
        await self._tell()

    async def _cut(self) -> None:
        self.cuts += 1
        await self._tell()

    @abstractmethod
    async def _connect(self) -> None:
        """Connect with the position that the client has, take frames, and return when the connection has ended."""

    @abstractmethod
    async def allow(self, request: str) -> None:
        """Allow a pending request."""

    @property
    @abstractmethod
    def pending(self) -> set[str]:
        """The requests that wait for an answer."""

    @property
    @abstractmethod
    def over(self) -> bool:
        """Whether the client has the end of a turn."""

    @abstractmethod
    def shown(self) -> Any:
        """What a person sees, without what depends on the time at which the client joined."""


class SocketClient(LiveClient):
    """A client on a WebSocket."""

    _socket: ClientConnection | None = None

    @abstractmethod
    def _path(self) -> str:
        """The address, with the client's position where the protocol has it there."""

    async def _greet(self) -> None:
        """Send what a new connection begins with."""

    @abstractmethod
    def _take(self, text: str) -> None: ...

    def _closed(self) -> None:
        """The connection has ended."""

    async def _connect(self) -> None:
        address = self.url.replace("http", "ws", 1) + self._path()
        async with connect(address, additional_headers=self.headers, max_size=None, proxy=None) as socket:
            self._socket = socket
            await self._greet()
            await self._opened()
            with contextlib.suppress(ConnectionClosed):
                async for text in socket:
                    self._take(text if isinstance(text, str) else text.decode())
                    await self._tell()
        self._closed()
        await self._cut()

    async def _say(self, message: Mapping[str, Any]) -> None:
        assert self._socket is not None
        await self._socket.send(json.dumps(message))


class NativeLive(SocketClient):
    """It subscribes after the last seq that it has handled, with the id of the log."""

    name = "native"

    def __init__(self, url: str, token: str, session: str) -> None:
        super().__init__(url, token, session)
        self.fold = Fold()
        self._seq = 0
        self._log_id = ""

    def _path(self) -> str:
        return "/v1/ws"

    async def _greet(self) -> None:
        place = {"after": self._seq, "log_id": self._log_id}
        await self._say({"id": 1, "type": "subscribe", "session": self.session, **place})

    def _take(self, text: str) -> None:
        line = json.loads(text)
        if line["type"] == "subscribed":
            assert line["verdict"] == "ok", line
            self._log_id = line["log_id"]
        elif "prev" in line:
            assert line["prev"] <= self._seq < line["seq"], f"{line['seq']} after {self._seq}"
            self._seq = line["seq"]
            self.fold.apply(line)

    async def allow(self, request: str) -> None:
        await self._say({"id": 2, "type": "answer", "session": self.session, "request": request, "behavior": "allow"})

    @property
    def pending(self) -> set[str]:
        return set(self.fold.state.asked)

    @property
    def over(self) -> bool:
        return any(turn.status != "running" for turn in self.fold.state.turns.values())

    def shown(self) -> Any:
        return self.fold.state


class MyLifeDbLive(SocketClient):
    """A new connection replays all history, and the page shows each record once."""

    name = "mylifedb"

    def __init__(self, url: str, token: str, session: str) -> None:
        super().__init__(url, token, session)
        self.client = MyLifeDbClient()

    def _path(self) -> str:
        return f"/api/claude/sessions/{self.session}/subscribe"

    async def _greet(self) -> None:
        self.client.opened()

    def _take(self, text: str) -> None:
        self.client.received(text)

    def _closed(self) -> None:
        self.client.closed()

    async def allow(self, request: str) -> None:
        answer = {"subtype": "success", "response": {"behavior": "allow"}}
        await self._say({"type": "control_response", "request_id": request, "response": answer})

    @property
    def pending(self) -> set[str]:
        return set(self.client.state.requests)

    @property
    def over(self) -> bool:
        return any(row.get("type") == "result" for row in self.client.rows)

    def shown(self) -> Any:
        """Without times, in which the agent's message and the transcript's copy may differ, and pieces of texts."""
        state = msgspec.to_builtins(self.client.state)
        messages = [{name: message[name] for name in message if name != "timestamp"} for message in state["messages"]]
        return messages, state["working"], state["requests"], state["mode"], [_key(row) for row in self.client.rows]


def _key(row: Mapping[str, Any]) -> Any:
    return row.get("uuid") or row


class HappyLive(SocketClient):
    """It asks for the envelopes after the last one that it has."""

    name = "happy"

    def __init__(self, url: str, token: str, session: str) -> None:
        super().__init__(url, token, session)
        self.client = HappyClient()
        self._log_id = ""

    def _path(self) -> str:
        log = f"&log_id={self._log_id}" if self._log_id else ""
        return f"/v1/sessions/{self.session}/envelopes?after_seq={self.client.state.last_seq}{log}"

    def _take(self, text: str) -> None:
        frame = json.loads(text)
        if frame.get("type") == "resumed":
            assert frame["verdict"] == "ok", frame
            self._log_id = frame["log_id"]
        elif "content" in frame:
            assert self.client.receive(frame["meta"]["seq"], frame), "an envelope is missing"

    async def allow(self, request: str) -> None:
        raise NotImplementedError("Happy's envelopes have no answers")

    @property
    def pending(self) -> set[str]:
        return set()

    @property
    def over(self) -> bool:
        return any(turn.status for turn in self.client.state.turns)

    def shown(self) -> Any:
        return self.client.state, self.client.tracer.children


class _ChatClient(Protocol):
    def opened(self, write: Callable[[str], None]) -> None: ...
    def closed(self) -> None: ...
    def feed(self, text: str | bytes) -> None: ...
    def decide(self, request: str, *, allow: bool) -> bool: ...


class ChatLive(SocketClient):
    """A chat that subscribes to its conversations after the last number that it has of each."""

    _client: _ChatClient

    def __init__(self, url: str, token: str, session: str) -> None:
        super().__init__(url, token, session)
        self._out: list[str] = []

    async def _greet(self) -> None:
        self._client.opened(self._out.append)
        await self._flush()

    async def _flush(self) -> None:
        assert self._socket is not None
        while self._out:
            await self._socket.send(self._out.pop(0))

    def _take(self, text: str) -> None:
        self._client.feed(text)

    def _closed(self) -> None:
        self._client.closed()

    async def allow(self, request: str) -> None:
        self._client.decide(request, allow=True)
        await self._flush()


class CognovaLive(ChatLive):
    name = "cognova"

    def __init__(self, url: str, token: str, session: str) -> None:
        super().__init__(url, token, session)
        self._client = client = CognovaClient()
        self._conversation = client.conversations[session] = CognovaShown()

    def _path(self) -> str:
        return "/_ws/chat"

    @property
    def pending(self) -> set[str]:
        return set(self._conversation.requests)

    @property
    def over(self) -> bool:
        return any(answer.status == "complete" for answer in self._conversation.answers)

    def shown(self) -> Any:
        shown = self._conversation
        answers = [(one.parts, one.tools, one.status, one.cost_usd, one.errors) for one in shown.answers]
        return answers, shown.requests, sorted(shown.settled), shown.errors


class ClaudeCodeUiLive(ChatLive):
    """A client that comes fresh gets the active run from its start, and earlier ones from history."""

    name = "claudecodeui"

    def __init__(self, url: str, token: str, session: str) -> None:
        super().__init__(url, token, session)
        self._client = client = ClaudeCodeUiClient()
        self._session = client.sessions[session] = AppShown()

    def _path(self) -> str:
        return "/ws"

    @property
    def pending(self) -> set[str]:
        return set(self._session.requests)

    @property
    def over(self) -> bool:
        return bool(self._session.completes)

    def shown(self) -> Any:
        shown = self._session
        return shown.rows, shown.requests, shown.completes, shown.budget, shown.processing, shown.gaps, shown.errors


class DirectLive(LiveClient):
    """The transport for clients that must miss nothing: a stream of events that continues after the last one. The
    socket of this protocol has no history."""

    name = "direct"

    def __init__(self, url: str, token: str, session: str) -> None:
        super().__init__(url, token, session)
        self.records: dict[int, Any] = {}
        self._requests: dict[str, Any] = {}

    async def _connect(self) -> None:
        last = {"Last-Event-ID": str(max(self.records))} if self.records else {}
        path = f"/v1/code/sessions/{self.session}/events/stream"
        async with self._http() as http, http.stream("GET", path, headers=last) as answer:
            answer.raise_for_status()
            await self._opened()
            with contextlib.suppress(httpx2.TransportError):
                async for event in _events(answer):
                    self._take(event)
                    await self._tell()
        await self._cut()

    def _http(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.url, headers=self.headers, trust_env=False, timeout=PATIENCE)

    def _take(self, event: dict[str, Any]) -> None:
        if "sequence_num" not in event:
            return  # a piece of a text, or a delivery
        number, record = event["sequence_num"], event["payload"]
        assert number > max(self.records, default=0), "sent twice, or in another order"
        self.records[number] = record
        match record["type"]:
            case "control_request":
                self._requests[record["request_id"]] = record["request"]
            case "control_cancel_request":
                self._requests.pop(record["request_id"], None)

    async def allow(self, request: str) -> None:
        response = {"behavior": "allow", "updatedInput": self._requests[request]["input"]}
        inner = {"subtype": "success", "request_id": request, "response": response}
        message = {"type": "control_response", "response": inner}
        async with self._http() as http:
            answer = await http.post(f"/v1/sessions/{self.session}/events", json={"events": [message]})
            answer.raise_for_status()

    @property
    def pending(self) -> set[str]:
        return set(self._requests)

    @property
    def over(self) -> bool:
        return any(record["type"] == "result" for record in self.records.values())

    def shown(self) -> Any:
        """Without requests: those that were settled before a client came are not sent to it."""
        control = "control_request", "control_cancel_request"
        records = {number: record for number, record in self.records.items() if record["type"] not in control}
        return records, self._requests


async def _events(answer: httpx2.Response) -> AsyncIterator[dict[str, Any]]:
    rest = b""
    async for data in answer.aiter_bytes():
        whole, mark, rest = (rest + data).rpartition(b"\n\n")
        for payload in payloads_of(whole + mark):
            yield json.loads(payload)


LIVE_CLIENTS: Final[tuple[type[LiveClient], ...]] = (
    *(NativeLive, MyLifeDbLive, HappyLive, DirectLive, CognovaLive, ClaudeCodeUiLive),
)
