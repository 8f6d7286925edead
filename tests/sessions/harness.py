"""A complete core in one process for tests: real store, real interpreter; the test supplies the agent's output."""

import asyncio
import itertools
import os
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fairlead.agents.claude.interpreter.interpreter import ClaudeInterpreter
from fairlead.agents.claude.tools import OWN_FILES, RESERVED_CONTROLS, TOOLS
from fairlead.agents.claude.wire.control import user_line
from fairlead.model import events as ev
from fairlead.model.agents import (
    CAPABILITIES,
    AgentInfo,
    AgentInvitation,
    AgentSink,
    Decision,
    Exit,
    Launch,
    LentProcess,
    PermissionRequest,
    ProcessInfo,
    Record,
    ToolCheck,
)
from fairlead.model.auth import Identity
from fairlead.model.commands import Command, Create, Reply, Send, Settings
from fairlead.model.content import Content, TextBlock, to_wire
from fairlead.model.errors import AgentNotRunning, NotFound
from fairlead.model.ids import CallId, MessageId, RequestId, SessionId
from fairlead.model.policy import Verdict
from fairlead.model.store import StoredOutput
from fairlead.model.views import Projection
from fairlead.model.web.session_changes import What
from fairlead.sessions.dependencies import CoreDependencies, PolicySettings, SessionLimits
from fairlead.sessions.gateway import SessionGateway
from fairlead.sessions.registry import Registry
from fairlead.sessions.session import Session
from fairlead.stores.sqlite import SqliteStore
from fairlead_testing.clock import ManualClock
from patience import PATIENCE

ANN = Identity("cred-ann", "owner", "ann", frozenset({"admin"}))
BOB = Identity("cred-bob", "owner", "bob", frozenset({"view", "chat", "approve"}))
SESSION = SessionId("11111111-2222-3333-4444-555555555555")
CHILD = SessionId("99999999-2222-3333-4444-555555555555")
MODES = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")


class FakeAgent:
    """An agent whose output comes from the test. It records the requests it receives."""

    def __init__(self, launch: Launch, sink: AgentSink, pid: int) -> None:
        self.launch = launch
        self.sink = sink
        self.pid = pid
        self.version = "2.1.325"
        self.modes = MODES
        self.written: list[Record] = []
        self.answers: list[tuple[str, Decision]] = []
        self.controls: list[tuple[str, dict[str, Any]]] = []
        self.requests: list[tuple[str, Any]] = []
        self.interrupt_keys: list[str] = []
        self.control_answer: Any = {}
        self.gone = False
        self.attended = False
        self.lent = False
        self.kept = False
        self.released = False
        self.stopping = asyncio.Event()
        self.stop_when = asyncio.Event()
        self.stop_when.set()
        self._count = itertools.count()
        self._prompted = asyncio.Event()

    # --- the port

    async def write(self, record: Record, *, again: bool = False) -> None:
        self._alive()
        self.written.append(record)
        self._prompted.set()

    async def interrupt(self, key: str = "") -> None:
        self._alive()
        self.requests.append(("interrupt", None))
        self.interrupt_keys.append(key)

    async def control(self, subtype: str, fields: Mapping[str, Any], timeout: float | None = None) -> Any:
        self._alive()
        self.controls.append((subtype, dict(fields)))
        return self.control_answer

    async def set_mode(self, mode: str) -> None:
        self.requests.append(("mode", mode))

    async def set_model(self, model: str) -> None:
        self.requests.append(("model", model))

    async def set_thinking(self, budget: int | None) -> None:
        self.requests.append(("thinking", budget))

    async def rewind(self, message: MessageId, *, dry_run: bool) -> dict[str, Any]:
        self._alive()
        self.requests.append(("rewind", (message, dry_run)))
        return dict(self.control_answer)

    async def set_variables(self, variables: Mapping[str, str]) -> None:
        self._alive()
        self.requests.append(("variables", dict(variables)))

    async def answer(self, request: RequestId, decision: Decision) -> None:
        self._alive()
        self.answers.append((request, decision))

    async def stop(self, reason: str) -> Exit:
        self.stopping.set()
        await self.stop_when.wait()
        exit = Exit(code=0)
        await self.die(exit)
        return exit

    async def release(self) -> None:
        self.released = True
        await self.die(Exit())

    def needs_restart(self, old: Settings, new: Settings) -> bool:
        if (old.directories, old.link) != (new.directories, new.link):
            return True
        # A terminal agent cannot be changed by request.
        return new.link == "terminal" and old != new

    # --- output that the test supplies

    async def say(self, *messages: Mapping[str, Any]) -> None:
        await self.sink.records([Record(msgspec.json.encode(message)) for message in messages])

    async def ready(self) -> None:
        await self.say(
            {"type": "system", "subtype": "init", "uuid": self._uuid("init"), "session_id": self.launch.session}
            | {"model": "opus", "permissionMode": "default", "cwd": self.launch.cwd, "tools": ["Bash"]}
            | {"claude_code_version": "2.1.325", "mcp_servers": [], "slash_commands": [], "apiKeySource": "none"}
            | {"output_style": "default"}
        )

    async def text(self, text: str, message: str = "") -> None:
        await self.say(self._assistant({"type": "text", "text": text}, message))

    async def call(self, call: str, tool: str = "Bash", **tool_input: Any) -> None:
        await self.say(self._assistant({"type": "tool_use", "id": call, "name": tool, "input": tool_input}))

    async def result_of(self, call: str, content: str = "ok") -> None:
        block = {"type": "tool_result", "tool_use_id": call, "content": content}
        await self.say(
            {"type": "user", "uuid": self._uuid("user"), "session_id": self.launch.session, "parent_tool_use_id": None}
            | {"message": {"role": "user", "content": [block]}}
        )

    async def ask(self, request: str, call: str, tool: str = "Bash", **tool_input: Any) -> None:
        body = {"subtype": "can_use_tool", "tool_name": tool, "input": tool_input, "tool_use_id": call}
        await self.say({"type": "control_request", "request_id": request, "request": body})
        await self.sink.permission_requested(PermissionRequest(RequestId(request), CallId(call), tool, tool_input))

    async def check(self, call: str, tool: str = "Bash", **tool_input: Any) -> Verdict:
        return await self.sink.check(ToolCheck(CallId(call), tool, tool_input))

    async def result(self, **fields: Any) -> None:
        await self.say(
            {"type": "result", "subtype": "success", "is_error": False, "uuid": self._uuid("result"), "num_turns": 1}
            | {"session_id": self.launch.session, "duration_ms": 5, "duration_api_ms": 3, "total_cost_usd": 0.25}
            | {"result": "done", "stop_reason": "end_turn", "usage": {}, "modelUsage": {}, "permission_denials": []}
            | fields
        )

    async def die(self, exit: Exit) -> None:
        if not self.gone:
            self.gone = True
            await self.sink.exited(exit)

    async def prompted(self) -> str:
        """Wait for the next prompt and return its text."""
        await asyncio.wait_for(self._prompted.wait(), PATIENCE)
        self._prompted.clear()
        return str(msgspec.json.decode(self.written[-1].raw)["message"]["content"])

    def _alive(self) -> None:
        if self.gone:
            raise AgentNotRunning("gone")

    def _uuid(self, what: str) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.pid}/{what}/{next(self._count)}"))

    def _assistant(self, block: Mapping[str, Any], message: str = "") -> dict[str, Any]:
        body = {"id": message or self._uuid("msg"), "type": "message", "role": "assistant", "model": "opus"}
        return (
            {"type": "assistant", "uuid": self._uuid("assistant"), "session_id": self.launch.session}
            | {"parent_tool_use_id": None}
            | {"message": body | {"content": [block], "stop_reason": None, "usage": {"output_tokens": 1}}}
        )


class FakeInvitedAgent:
    """An agent that a person starts. It connects when the test calls `come`."""

    def __init__(self, launch: Launch, sink: AgentSink) -> None:
        self.invitation = AgentInvitation(url="ws://here/x", token="secret", command="claude")
        self.agent = FakeAgent(launch, sink, 0)
        self.started = ""
        self.called_off = False
        self._sink = sink
        self._decided = asyncio.Event()

    def come(self) -> FakeAgent:
        self._decided.set()
        return self.agent

    async def arrival(self) -> FakeAgent:
        await self._decided.wait()
        if self.called_off:
            raise AgentNotRunning("not expected any more")
        launch = self.agent.launch
        await self._sink.started(
            ProcessInfo(
                session=launch.session,
                pid=self.agent.pid,
                started=self.started,
                group=0,
                agent="said",
                agent_session="",
                cwd=launch.cwd,
                lent=self.agent.lent,
            )
        )
        return self.agent

    async def cancel(self) -> None:
        self.called_off = True
        self._decided.set()


class FakeKind:
    name = "said"
    tools = TOOLS
    capabilities = CAPABILITIES
    writes_cli_records = True
    own_files = OWN_FILES
    reserved_controls = RESERVED_CONTROLS

    def __init__(self) -> None:
        self.ways = {"stdio": "yes", "dial-in": "yes", "terminal": "yes"}
        self.agents: list[FakeAgent] = []
        self.guests: list[FakeInvitedAgent] = []
        self.failures: list[Exception] = []
        self.followed: list[tuple[ProcessInfo, MessageId | None]] = []
        self.ended: list[ProcessInfo] = []
        self.keeps = False
        """Whether its processes are at a keeper: `at_keeper` has those that a restarted gateway finds."""
        self.at_keeper: dict[int, FakeAgent] = {}
        self.adopted: list[tuple[ProcessInfo, StoredOutput]] = []
        self.forgotten: list[str] = []
        self.transcript: list[bytes] = []
        self.follow_until = asyncio.Event()
        self.follow_until.set()
        self.launch_when = asyncio.Event()
        self.launch_when.set()
        self._launched = asyncio.Event()
        self._pids = itertools.count(1000)

    async def info(self) -> AgentInfo:
        return AgentInfo(name=self.name, ways=self.ways)

    def interpreter(self, session: SessionId) -> ClaudeInterpreter:
        return ClaudeInterpreter(session)

    def prompt(self, content: Sequence[Content], message: MessageId, agent_session: str) -> Record:
        return Record(user_line(to_wire(tuple(content)), agent_session, message).rstrip(b"\n"), "gateway")

    def interrupt_record(self, cause: str) -> Record:
        return Record(msgspec.json.encode({"type": "fairlead_interrupt", "cause": cause}), "gateway")

    async def launch(self, launch: Launch, sink: AgentSink) -> FakeAgent:
        await self.launch_when.wait()
        if self.failures:
            raise self.failures.pop(0)
        agent = FakeAgent(launch, sink, next(self._pids))
        child = ProcessInfo(
            session=launch.session,
            pid=agent.pid,
            started="1",
            group=agent.pid,
            agent=self.name,
            agent_session=launch.session,
            cwd=launch.cwd,
            kept=self.keeps,
            launch=msgspec.structs.replace(launch, env={}) if self.keeps else None,
        )
        agent.kept = self.keeps
        if self.keeps:
            self.at_keeper[agent.pid] = agent
        await sink.started(child)
        self.agents.append(agent)
        self._launched.set()
        return agent

    def protocol(self) -> None:
        """The kind has no extra ports; `invite` makes invited agents that connect when a test calls `come`."""

    async def invite(self, launch: Launch, sink: AgentSink) -> "FakeInvitedAgent":
        self.guests.append(FakeInvitedAgent(launch, sink))
        return self.guests[-1]

    async def attach(self, launch: Launch, process: LentProcess, sink: AgentSink) -> "FakeInvitedAgent":
        guest = FakeInvitedAgent(launch, sink)
        guest.agent.lent = True
        guest.agent.pid, guest.started = process.pid, process.started
        self.guests.append(guest)
        return guest

    async def follow(self, child: ProcessInfo, sink: AgentSink, after: MessageId | None) -> None:
        self.followed.append((child, after))
        if self.transcript:
            await sink.records([Record(raw, "transcript") for raw in self.transcript])
        await self.follow_until.wait()
        await sink.exited(Exit())

    async def adopt(self, child: ProcessInfo, sink: AgentSink, stored: StoredOutput) -> FakeAgent:
        self.adopted.append((child, stored))
        agent = self.at_keeper.pop(child.pid, None)
        if agent is None or child.launch is None:
            raise NotFound("process", str(child.pid))
        again = FakeAgent(child.launch, sink, child.pid)
        again.kept = True
        self.agents.append(again)
        self._launched.set()
        return again

    async def end(self, child: ProcessInfo) -> None:
        self.ended.append(child)

    async def forget(self, agent_session: str, cwd: str) -> None:
        self.forgotten.append(agent_session)

    async def launched(self, number: int = 1) -> FakeAgent:
        """Wait for the n-th process and return it."""
        while len(self.agents) < number:
            self._launched.clear()
            await asyncio.wait_for(self._launched.wait(), PATIENCE)
        return self.agents[number - 1]


class CoreHarness:
    """A gateway core on a data folder. `restart` makes a new one as if the process had been killed."""

    def __init__(self, folder: Path, *, node: str = "", **policy: Any) -> None:
        """`node`: this core is one of several on the same folder."""
        self.folder = folder
        self.node = node
        self.cwd = folder / "work"
        self.cwd.mkdir(exist_ok=True)
        self.policy = policy
        self.clock = ManualClock()
        self.limits = SessionLimits(max_agents=2, idle_s=600)
        self.kind = FakeKind()
        self.trusts = False
        self.views: dict[str, Projection] = {}
        self.news: Callable[[SessionId, What], None] = lambda session, what: None
        self.committed: Callable[[SessionId, Sequence[ev.Event]], None] = lambda session, events: None
        self.looked: Callable[[SessionId, Collection[Identity], int], None] = lambda session, who, turns: None
        self._uuids = itertools.count()

    async def start(self, *, kill_children: bool = False) -> "CoreHarness":
        self.store = await self.open_store()
        self.services = CoreDependencies(
            store=self.store,
            clock=self.clock,
            kinds={"said": self.kind},
            default_agent="said",
            policy=PolicySettings(
                agent_files=OWN_FILES,
                **{"roots": (str(self.folder),), "resolve": os.path.realpath, **self.policy},
            ),
            new_uuid=lambda: str(uuid.uuid4()),
            trusted=self._trusted,
            make_room=lambda session: self.registry.make_room(session),
            is_folder=os.path.isdir,
            limits=self.limits,
            views=self.views,
            on_change=self.news,
            committed=self.committed,
            on_read=self.looked,
            session_env=frozenset({"TEAM"}),
        )
        self.registry = Registry(self.services)
        self.gateway = SessionGateway(self.services, self.registry)
        await self.registry.start(kill_children=kill_children)
        return self

    async def open_store(self) -> SqliteStore:
        return await SqliteStore.open(self.folder / "data", node=self.node or "local", _alone=not self.node)

    async def _trusted(self, folder: str) -> bool:
        return self.trusts

    async def stop(self) -> None:
        await self.registry.stop()
        await self.store.close()

    async def crash(self) -> None:
        """Simulate the death of the gateway process: nothing more is sent to agents or written."""
        self.registry.tasks.cancel()
        await self.store.close()

    # --- shortcuts

    async def open(self, session: SessionId = SESSION, **fields: Any) -> Reply:
        return await self.do(Create(session=session, cwd=str(self.cwd), **fields))

    async def do(self, command: Command, who: Identity = ANN) -> Reply:
        return await self.gateway.command(who, command)

    async def send(self, text: str, session: SessionId = SESSION, **fields: Any) -> Reply:
        return await self.do(Send(session=session, content=(TextBlock(text),), **fields))

    async def working(self, text: str = "hello") -> FakeAgent:
        """Open a session, send a prompt and wait until the agent works on it."""
        await self.open()
        await self.send(text)
        agent = await self.kind.launched()
        await agent.prompted()
        await agent.ready()
        return agent

    async def log(self, session: SessionId = SESSION) -> list[ev.Event]:
        page = await self.store.read(session, 0, 10_000)
        return [ev.decode(entry.event) for entry in page.entries]

    async def kinds(self, session: SessionId = SESSION) -> list[str]:
        return [ev.kind_of(event) for event in await self.log(session)]

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until the condition is true, with a time limit."""
        async with asyncio.timeout(PATIENCE):
            while not true():
                await asyncio.sleep(0.002)

    async def all_live(self) -> None:
        """Wait until each subscriber is live. One that still reads history gets a whole text without its deltas."""
        feeds = self.registry._feeds
        await self.until(lambda: all(watcher.live for feed in feeds.values() for watcher in feed._watchers()))

    def loaded(self, session: SessionId = SESSION) -> Session:
        found = self.registry.loaded(session)
        assert found is not None
        return found

    def state(self, session: SessionId = SESSION) -> Any:
        """Untyped, because tests read many different parts of it."""
        return self.loaded(session).core.state
