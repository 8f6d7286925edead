"""A client of the native socket that stores the events it received, with its cursor, over any number of connections."""

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidMessage

from fairlead_testing.native_client import Fold, NativeClientState
from faults.gateway_process import TOKEN, GatewayProcess
from faults.log_checks import Line, is_prompt
from patience import PATIENCE

Wanted = Callable[[Line], bool]


class Hangup(Exception):
    """There is no connection, or it ended before the answer came."""


class NativeClient:
    """Subscribes to one session. `lines` is everything it ever received of it, over all its connections, in order."""

    def __init__(self, session: str, token: str = TOKEN) -> None:
        self.session = session
        self.token = token
        self.log_id = ""
        self.lines: list[Line] = []
        self.errors: list[Line] = []
        self.over: set[str] = set()
        """Our messages whose turn has ended."""
        self.settled: set[str] = set()
        """Requests that were decided or cancelled."""
        self._turns: dict[str, str] = {}
        self.close_code: int | None = None
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Line]] = {}
        self._news = asyncio.Condition()
        self._socket: ClientConnection | None = None
        self._listening: asyncio.Task[None] | None = None
        self._reads = asyncio.Event()
        self._reads.set()

    @property
    def seq(self) -> int:
        return self.lines[-1]["seq"] if self.lines else 0

    # --- connecting and disconnecting

    async def come(self, gateway: GatewayProcess) -> Line:
        """Connect and continue at the cursor; return the answer to the subscription."""
        await self.connect(gateway)
        answer = await self.ask("subscribe", after=self.seq, log_id=self.log_id)
        assert answer["type"] == "subscribed", answer
        self.log_id = self.log_id or answer["log_id"]
        return answer

    async def connect(self, gateway: GatewayProcess, **options: Any) -> None:
        url = gateway.url.replace("http", "ws", 1) + "/v1/ws"
        headers = {"Authorization": f"Bearer {self.token}"}
        try:
            self._socket = await connect(
                url, additional_headers=headers, max_size=None, proxy=None, open_timeout=PATIENCE, **options
            )
        except (InvalidMessage, OSError):
            raise Hangup from None
        self.close_code = None
        self._listening = asyncio.create_task(self._listen(self._socket))

    async def go(self) -> None:
        """Disconnect, without waiting for frames in flight."""
        if self._socket is not None and self._listening is not None:
            self._socket.transport.abort()
            await asyncio.wait({self._listening})
            self._socket = None
            self._raise_what_it_found()

    def stop_reading(self) -> None:
        """Keep the connection open from here on without reading from it."""
        self._reads.clear()

    def read_on(self) -> None:
        self._reads.set()

    async def gone(self) -> None:
        """Wait until the gateway has ended the connection."""
        assert self._listening is not None
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait({self._listening})

    async def _listen(self, socket: ClientConnection) -> None:
        decode = msgspec.json.Decoder().decode
        try:
            while True:
                await self._reads.wait()
                line = decode(await socket.recv(decode=False))
                if "prev" in line:
                    self._event(line)
                elif line["type"] == "error" and "id" not in line:
                    self.errors.append(line)
                elif (waiting := self._answers.pop(line.get("id", 0), None)) is not None and not waiting.done():
                    waiting.set_result(line)
                async with self._news:
                    self._news.notify_all()
        except ConnectionClosed:
            pass
        finally:
            self.close_code = socket.close_code
            for waiting in self._answers.values():
                if not waiting.done():
                    waiting.set_exception(Hangup())
                    waiting.exception()
            self._answers.clear()
            async with self._news:
                self._news.notify_all()

    def _event(self, line: Line) -> None:
        # In order, each once, and no gap: the law of a subscription.
        assert line["session"] == self.session
        assert line["seq"] > self.seq, f"{line['seq']} after {self.seq}"
        assert line["prev"] <= self.seq, f"a hole: {line['prev']} before {line['seq']}, last seen {self.seq}"
        self.lines.append(line)
        if is_prompt(line):
            self._turns[line["turn"]] = line["message"]
        elif line["type"] == "turn.ended" and line["turn"] in self._turns:
            self.over.add(self._turns[line["turn"]])
        elif line["type"] in ("permission.resolved", "permission.cancelled"):
            self.settled.add(line["request"])

    # --- requests

    async def ask(self, kind: str, **fields: Any) -> Line:
        """Send one frame and return its answer, which may be an error. Raises Hangup."""
        number = next(self._ids)
        answer: asyncio.Future[Line] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        assert self._socket is not None
        try:
            await self._socket.send(
                msgspec.json.encode({"id": number, "type": kind, "session": self.session, **fields}), text=True
            )
        except ConnectionClosed:
            raise Hangup from None
        # Not `wait_for`: in Python 3.11 it may swallow a cancellation.
        async with asyncio.timeout(PATIENCE):
            return await answer

    async def send(self, text: str, **fields: Any) -> Line:
        return await self.ask("send", text=text, **fields)

    # --- waiting and inspecting

    async def until(self, wanted: str | Wanted, *, since: int = 0, patience: float | None = PATIENCE) -> Line:
        """The first matching event above the seq `since`, now or later. Raises Hangup if the connection ends first."""
        fits: Wanted = (lambda line: bool(line["type"] == wanted)) if isinstance(wanted, str) else wanted
        looked = 0
        line: Line = {}

        def found() -> bool:
            nonlocal looked, line
            while looked < len(self.lines):
                line = self.lines[looked]
                looked += 1
                if line["seq"] > since and fits(line):
                    return True
            return False

        await self.holds(found, str(wanted), patience=patience)
        return line

    async def holds(self, condition: Callable[[], bool], what: str = "", *, patience: float | None = PATIENCE) -> None:
        """Wait until `condition` holds; it is checked after every frame and every `news`. Raises Hangup."""
        async with self._news:
            try:
                async with asyncio.timeout(patience):
                    while not condition():
                        if self._listening is None or self._listening.done():
                            self._raise_what_it_found()
                            raise Hangup
                        await self._news.wait()
            except TimeoutError:
                kinds = [line["type"] for line in self.lines[-20:]]
                raise AssertionError(f"{what or condition} did not come; the last were {kinds}") from None

    async def news(self) -> None:
        """Let those who wait check their conditions: something has changed besides the frames."""
        async with self._news:
            self._news.notify_all()

    def _raise_what_it_found(self) -> None:
        if self._listening is not None and not self._listening.cancelled():
            with contextlib.suppress(asyncio.InvalidStateError):
                if (error := self._listening.exception()) is not None:
                    raise error

    async def passed(self, seq: int) -> None:
        """Wait until it has received everything up to `seq`."""
        await self.until(lambda line: line["seq"] >= seq)

    def all(self, kind: str) -> list[Line]:
        return [line for line in self.lines if line["type"] == kind]

    def folded(self) -> NativeClientState:
        return folded(self.lines)


def folded(lines: list[Line]) -> NativeClientState:
    fold = Fold()
    for line in lines:
        fold.apply(line)
    return fold.state


async def after_a_turn(gateway: GatewayProcess) -> tuple[NativeClient, int]:
    """A client that watches a new session, after its first turn, and the pid of the session's agent."""
    client = NativeClient(await gateway.create())
    await client.come(gateway)
    await client.send("SCRIPT:text")
    await client.until("turn.ended")
    (agent,) = gateway.agents(client.session)
    return client, agent
