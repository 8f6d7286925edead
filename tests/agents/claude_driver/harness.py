"""Shared helpers for the tests of the driver: a link without a process, a recording sink, and a driver between them."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import msgspec

from fairlead.agents.claude.stdio.driver import ClaudeAgent
from fairlead.agents.links.kept_output import KeptOutput
from fairlead.model.agents import (
    Decision,
    Exit,
    Launch,
    PermissionRequest,
    ProcessInfo,
    Record,
    RequestState,
    ToolCheck,
)
from fairlead.model.commands import Settings
from fairlead.model.errors import AgentNotRunning
from fairlead.model.ids import RequestId, SessionId
from fairlead.model.policy import Behavior, Verdict
from fairlead.model.store import OutputPosition
from fairlead.system.pipes import Take
from fairlead_testing.clock import ManualClock
from patience import PATIENCE, settled


class FakeLink:
    """Implements `links.Link`: a test supplies the agent's output and inspects the lines sent to the agent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.lines: list[bytes] = []
        self.keys: list[str] = []
        self.exit = Exit(code=0)
        self.on_send: Callable[[dict[str, Any]], None] | None = None
        self.stopped = 0
        self._output: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._running = True

    @property
    def pid(self) -> int:
        return 4711

    output: KeptOutput | None = None

    @property
    def running(self) -> bool:
        return self._running

    async def receive(self, take: Take) -> None:
        while (data := await self._output.get()) is not None:
            await take(data)

    async def send(self, data: bytes, key: str = "") -> None:
        if not self._running:
            raise AgentNotRunning("The agent reads no more.")
        assert data.endswith(b"\n") and data.count(b"\n") == 1, data
        self.lines.append(data)
        self.keys.append(key)
        message = msgspec.json.decode(data)
        self.sent.append(message)
        if self.on_send is not None:
            self.on_send(message)

    async def stop(self) -> Exit:
        self.stopped += 1
        self.die(self.exit)
        return self.exit

    def says(self, *messages: Any) -> None:
        """Deliver these messages to the gateway in one read."""
        self._output.put_nowait(b"".join(msgspec.json.encode(message) + b"\n" for message in messages))

    def says_bytes(self, data: bytes) -> None:
        self._output.put_nowait(data)

    def die(self, exit: Exit) -> None:
        if self._running:
            self._running = False
            self.exit = exit
            self._output.put_nowait(None)

    def answers_of(self, request_id: str) -> list[dict[str, Any]]:
        """Return the inner bodies of our answers to this request."""
        answers = [m["response"] for m in self.sent if m["type"] == "control_response"]
        return [answer for answer in answers if answer["request_id"] == request_id]


def answers(link: FakeLink, *, silent: Sequence[str] = ()) -> None:
    """Let the fake agent answer every control request at once with an empty success, except the `silent` subtypes."""

    def answer(message: dict[str, Any]) -> None:
        if message["type"] == "control_request" and message["request"]["subtype"] not in silent:
            link.says(success(message["request_id"]))

    link.on_send = answer


def success(request_id: str, response: Any = None) -> dict[str, Any]:
    inside = {"subtype": "success", "request_id": request_id}
    return {"type": "control_response", "response": inside | ({} if response is None else {"response": response})}


def asks(request_id: str, **request: Any) -> dict[str, Any]:
    return {"type": "control_request", "request_id": request_id, "request": request}


def hook(request_id: str, tool: str = "Bash", tool_input: Any = None, **more: Any) -> dict[str, Any]:
    """Build the callback of the policy hook, as the CLI sends it."""
    hook_input = {
        "hook_event_name": "PreToolUse",
        "permission_mode": "default",
        "tool_name": tool,
        "tool_input": {"command": "ls"} if tool_input is None else tool_input,
        "tool_use_id": f"call-{request_id}",
    }
    fields = {"callback_id": "fairlead-policy", "input": hook_input, "tool_use_id": f"call-{request_id}"}
    return asks(request_id, subtype="hook_callback", **(fields | more))


def can_use(request_id: str, tool: str = "Bash", tool_input: Any = None, call: str = "") -> dict[str, Any]:
    given = {"command": "ls"} if tool_input is None else tool_input
    name = call or f"call-{request_id}"
    return asks(request_id, subtype="can_use_tool", tool_name=tool, input=given, tool_use_id=name)


class MemorySink:
    """Implements `model.agents.AgentSink`; `story` lists all calls in order."""

    def __init__(self) -> None:
        self.story: list[tuple[str, Any]] = []
        self.verdict: Verdict | Exception = Verdict(Behavior.ASK, "ask")
        self.mcp_answer: Mapping[str, Any] | Exception | None = None
        self.request_states: dict[str, RequestState] = {}
        self.gate: asyncio.Event | None = None
        self._news = asyncio.Event()

    def _note(self, kind: str, what: Any) -> None:
        self.story.append((kind, what))
        self._news.set()

    def all(self, kind: str) -> list[Any]:
        return [what for name, what in self.story if name == kind]

    @property
    def raws(self) -> list[bytes]:
        return [record.raw for record in self.all("record")]

    async def until(self, true: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not true():
                self._news.clear()
                await self._news.wait()

    async def record_with(self, words: bytes, start: int = 0) -> bytes:
        await self.until(lambda: any(words in raw for raw in self.raws[start:]))
        return next(raw for raw in self.raws[start:] if words in raw)

    async def started(self, child: ProcessInfo) -> None:
        self._note("started", child)

    async def records(self, batch: Sequence[Record], position: OutputPosition | None = None) -> None:
        for record in batch:
            self._note("record", record)
        if position is not None:
            self._note("position", position)
        if self.gate is not None:
            await self.gate.wait()

    async def check(self, call: ToolCheck) -> Verdict:
        self._note("check", call)
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict

    async def permission_requested(self, ask: PermissionRequest) -> None:
        self._note("asked", ask)

    async def permission_cancelled(self, request: RequestId) -> None:
        self._note("cancelled", request)

    async def permission_answered(self, request: RequestId, decision: Decision, by: str) -> bool:
        self._note("answered", (request, decision, by))
        return True

    async def interrupted(self, by: str) -> None:
        self._note("interrupted", by)

    async def mcp(self, server: str, message: Mapping[str, Any]) -> Mapping[str, Any] | None:
        self._note("mcp", (server, message))
        if isinstance(self.mcp_answer, Exception):
            raise self.mcp_answer
        return self.mcp_answer

    async def request_state(self, request: RequestId) -> RequestState:
        return self.request_states.get(request, "unknown")

    async def keeper_lost(self) -> None:
        self._note("keeper lost", None)

    async def exited(self, exit: Exit) -> None:
        self._note("exited", exit)


NEW = (2, 1, 325)
OLD = (2, 1, 37)
MCP_TOOL = "mcp__theirs__act"
SESSION = SessionId("6a1f0b6e-5f5c-4c55-9a44-000000000001")


class DriverHarness:
    """A driver with its fake link, sink and clock."""

    def __init__(self, version: tuple[int, int, int] = NEW, output: KeptOutput | None = None) -> None:
        self.link = FakeLink()
        self.link.output = output
        self.sink = MemorySink()
        self.clock = ManualClock()
        self.agent = ClaudeAgent(self.link, self.sink, self.clock, version)

    async def start(self, **settings: Any) -> Self:
        answers(self.link)
        return await self.start_as_it_is(**settings)

    async def start_as_it_is(self, **settings: Any) -> Self:
        """Start without answers to the control requests, unless `link.on_send` gives them."""
        await self.agent.start(Launch(session=SESSION, cwd="/w", settings=Settings(**settings), mcp=("ours",)))
        return self

    async def end(self) -> None:
        self.link.die(Exit(code=0))
        await self.sink.until(lambda: self.sink.all("exited"))

    async def answer_to(self, request_id: str) -> dict[str, Any]:
        await settled()
        found = self.link.answers_of(request_id)
        assert len(found) == 1, found
        return found[0]
