"""A client of a gateway: the whole of Fairlead in this process, a real agent behind it, the native socket in front."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2
from websockets.asyncio.client import ClientConnection, connect

from fairlead.config import Config, load
from fairlead.sessions.dependencies import McpServerSettings
from fairlead.wiring import GatewayInfo, running
from fairlead_testing.model_api import ScriptedModel
from fairlead_testing.native_client import Fold, NativeClientState
from local_http import local_client
from patience import PATIENCE

Line = dict[str, Any]
Wanted = str | Callable[[Line], bool]


class GatewayHarness:
    """One socket on one gateway. Events are stored as they arrive; `until` waits for one.

    Starting the CLI costs more than a turn, so a test may play several scenes on one process: in each,
    `events` starts empty. `folded` and `raw` always cover the whole session.
    """

    def __init__(self, gateway: GatewayInfo, http: httpx2.AsyncClient, socket: ClientConnection, cwd: Path) -> None:
        self.gateway = gateway
        self.http = http
        self.cwd = cwd
        self.events: list[Line] = []
        self.earlier: list[Line] = []
        self.session = ""
        self.settings: Line = {}
        self._socket = socket
        self._ids = iter(range(1, 10**9))
        self._replies: dict[int, asyncio.Future[Line]] = {}
        self._news = asyncio.Condition()
        self._taken = 0

    async def listen(self) -> None:
        with contextlib.suppress(Exception):
            async for text in self._socket:
                line = json.loads(text)
                async with self._news:
                    if "seq" in line and "prev" in line:
                        self.events.append(line)
                    elif line.get("id") in self._replies:
                        self._replies.pop(line["id"]).set_result(line)
                    self._news.notify_all()

    # --- asking

    async def ask(self, kind: str, **fields: Any) -> Line:
        """Send one command and return its reply, which may be an error."""
        number = next(self._ids)
        future = self._replies[number] = asyncio.get_running_loop().create_future()
        await self._socket.send(json.dumps({"id": number, "type": kind, **fields}))
        return await asyncio.wait_for(future, PATIENCE)

    async def do(self, kind: str, **fields: Any) -> Line:
        """Send one command in the current session that must succeed."""
        reply = await self.ask(kind, session=self.session, **fields)
        assert reply["type"] != "error", reply
        return reply

    async def open(self, text: str = "", **fields: Any) -> str:
        """Open a new session, subscribed from its first event, with a first prompt if given.

        The given fields override the settings of the harness.
        """
        if self.settings:
            fields["settings"] = {**self.settings, **fields.get("settings", {})}
        answer = await self.http.post("/v1/sessions", json={"cwd": str(self.cwd), **fields})
        assert answer.status_code == 201, answer.text
        await self.watch(answer.json()["session"])
        if text:
            await self.send(text)
        return self.session

    async def watch(self, session: str, **cursor: Any) -> Line:
        self.session = session
        return await self.do("subscribe", **({"after": 0} | cursor))

    async def send(self, text: str, **fields: Any) -> str:
        reply = await self.do("send", content=[{"type": "text", "text": text}], **fields)
        return str(reply["message"])

    async def answer(self, asked: Line, behavior: str = "allow", **fields: Any) -> Line:
        return await self.do("answer", request=asked["request"], behavior=behavior, **fields)

    async def leave(self) -> None:
        """Stop watching this session before another one is watched: its events stop arriving, and the stored ones are
        dropped.
        """
        await self.do("unsubscribe")
        self.scene()
        self.earlier.clear()

    def scene(self) -> None:
        """Begin a new scene: the events so far belong to an earlier scene of the test."""
        self.earlier.extend(self.events)
        self.events.clear()
        self._taken = 0

    # --- waiting

    async def until(self, wanted: Wanted, *, timeout: float = PATIENCE) -> Line:
        """The next event that matches, after the last one that was waited for."""
        fits = (lambda line: line["type"] == wanted) if isinstance(wanted, str) else wanted

        def found() -> Line | None:
            for place in range(self._taken, len(self.events)):
                if fits(self.events[place]):
                    self._taken = place + 1
                    return self.events[place]
            return None

        async with self._news:
            try:
                async with asyncio.timeout(timeout):
                    while (line := found()) is None:
                        await self._news.wait()
            except TimeoutError:
                raise AssertionError(f"{wanted} did not come; there were {self.kinds()[-30:]}") from None
        return line

    async def turn(self, text: str) -> Line:
        """Send a prompt and wait for the end of its turn."""
        await self.send(text)
        return await self.until("turn.ended")

    # --- looking

    def kinds(self) -> list[str]:
        return [line["type"] for line in self.events]

    def all(self, kind: str) -> list[Line]:
        return [line for line in self.events if line["type"] == kind]

    def texts(self) -> list[str]:
        return [line["text"] for line in self.all("text")]

    def folded(self) -> NativeClientState:
        fold = Fold()
        for line in (*self.earlier, *self.events):
            fold.apply(line)
        return fold.state

    async def log(self) -> list[Line]:
        """The log as it is stored, read over REST."""
        lines: list[Line] = []
        after = 0
        while True:
            page = (await self.http.get(f"/v1/sessions/{self.session}/events?after={after}&limit=500")).json()
            lines.extend(page["events"])
            if page.get("next") is None:
                return lines
            after = page["next"]

    async def raw(self) -> list[Line]:
        """The stored log, checked to fold to the same state that this client folded live."""
        fold = Fold()
        for line in await self.log():
            fold.apply(line)
        assert fold.state == self.folded()
        return await self.log()


def settings(data: Path, roots: Path, **overrides: Any) -> Config:
    given = {"data": str(data), "port": 0, "roots": [str(roots)], **overrides}
    return load({"HOME": str(data.parent)}, given).config


@contextlib.asynccontextmanager
async def open_gateway(
    config: Config, env: Mapping[str, str], cwd: Path, mcp: Mapping[str, McpServerSettings] | None = None
) -> AsyncIterator[GatewayHarness]:
    async with running(config, env, mcp) as gateway, opened(gateway, cwd) as harness:
        yield harness


@contextlib.asynccontextmanager
async def opened(gateway: GatewayInfo, cwd: Path) -> AsyncIterator[GatewayHarness]:
    headers = {"Authorization": f"Bearer {gateway.token}"}
    address = gateway.url.replace("http", "ws", 1) + "/v1/ws"
    async with (
        local_client(base_url=gateway.url, headers=headers) as http,
        connect(address, additional_headers=headers, max_size=None) as socket,
    ):
        harness = GatewayHarness(gateway, http, socket, cwd)
        listening = asyncio.create_task(harness.listen())
        try:
            yield harness
        finally:
            listening.cancel()
            await asyncio.wait({listening})


async def a_question_is_answered(harness: GatewayHarness, model: ScriptedModel) -> None:
    """A scene for every link: the answer reaches the model."""
    await harness.send("SCRIPT:question")
    asked = await harness.until("question.asked")
    question = asked["questions"][0]
    label = question["options"][1]["label"]
    await harness.answer(asked, answers={question["question"]: label})
    assert (await harness.until("turn.ended"))["status"] == "completed"
    assert label in str(model.of("question")[-1].since_last_answer)
