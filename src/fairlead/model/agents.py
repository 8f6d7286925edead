"""The agent port: what the core asks of a coding agent, and what an agent tells the core.

A kind of agent (Claude, the demo) makes two things: a running `Agent` for a session, which is a thin driver,
and an `Interpreter`, which is pure and turns its records into events. The core never reads a record's bytes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from fairlead.model.commands import Settings
from fairlead.model.content import Content
from fairlead.model.events import Event
from fairlead.model.ids import CallId, MessageId, RequestId, SessionId, TurnId
from fairlead.model.policy import Verdict
from fairlead.model.routes import ClientProtocol
from fairlead.model.store import Origin


class Record(msgspec.Struct, frozen=True):
    """One message of the agent's own wire, with its bytes as they came (without the newline).

    `at`: when it was said, in milliseconds since 1970, where that was before it came to us (a transcript's row).
    `name`: what it calls itself (its uuid), where whoever hands it over knows."""

    raw: bytes
    origin: Origin = "agent"
    at: int = 0
    name: str = ""


class Interpretation(msgspec.Struct, frozen=True):
    """What one record means. The record's bytes are stored beside the first event; no event, not stored.

    `drop` are the seqs of deltas that these events repeat: the log lets them go with the same append."""

    events: tuple[Event, ...] = ()
    drop: tuple[int, ...] = ()


class Interpreter(Protocol):
    """Turns records into events. Pure: the same records give the same events and ids whenever it runs.

    It has a memory; `snapshot` and `restore` carry it over a restart. The core calls `placed` with the seq
    that each delta event got, so that the block that repeats them can say so in its marks."""

    def step(self, record: Record) -> Interpretation: ...
    def placed(self, event: Event, seq: int) -> None: ...
    def exited(self, reason: str, cause: str) -> Interpretation:
        """The process is gone: what was open ends (calls, subagents, the turn). `cause` makes the event ids.

        A turn whose final answer was seen has completed; else it failed with `reason`, or was cancelled if an
        interrupt was asked for."""
        ...

    def settle(self) -> Interpretation:
        """A transcript has grown no more for a while: a turn whose final answer was seen is over.

        A transcript does not say so itself; without this, the next prompt would."""
        ...

    def give_up(self, cause: str) -> Interpretation:
        """What waits to be known as somebody's has waited long enough: it is told as nobody's. `cause` makes ids."""
        ...

    @property
    def waiting(self) -> int:
        """How many records wait to be known as somebody's."""
        ...

    @property
    def turn(self) -> TurnId | None:
        """The open turn."""
        ...

    @property
    def busy(self) -> bool:
        """The main thread works: a prompt now would go into its turn. In a turn of background work it is free."""
        ...

    @property
    def background(self) -> int:
        """How much the agent still does beside the turn (background subagents and shells)."""
        ...

    @property
    def background_work(self) -> tuple[str, ...]:
        """What that is, each in a few words."""
        ...

    def snapshot(self) -> bytes: ...
    def restore(self, data: bytes) -> None: ...


class ToolCheck(msgspec.Struct, frozen=True):
    """The agent is about to use a tool: the policy's word is wanted before anything of the agent's own decides.

    `folder`: where the agent is now, if it says so; its shell may have moved from where the session began."""

    call: CallId
    tool: str
    input: dict[str, Any]
    mode: str = ""
    folder: str = ""


class PermissionRequest(msgspec.Struct, frozen=True):
    """The agent asks whether it may use a tool (also: a question to the person, a plan to approve)."""

    request: RequestId
    call: CallId
    tool: str
    input: dict[str, Any]
    suggestions: tuple[Any, ...] = ()


class Decision(msgspec.Struct, frozen=True):
    behavior: Literal["allow", "deny"]
    message: str = ""
    updated_input: dict[str, Any] | None = None
    interrupt: bool = False
    call: CallId | None = None


class Exit(msgspec.Struct, frozen=True):
    code: int | None = None
    signal: int | None = None
    stderr: str = ""


class AgentSink(Protocol):
    """The core's side of a running agent. `records` is awaited before more is read: that is the back-pressure."""

    async def records(self, batch: Sequence[Record]) -> None: ...
    async def check(self, call: ToolCheck) -> Verdict: ...
    async def asked(self, ask: PermissionRequest) -> None: ...
    async def ask_cancelled(self, request: RequestId) -> None: ...
    async def mcp(self, server: str, message: Mapping[str, Any]) -> Mapping[str, Any] | None: ...
    async def exited(self, exit: Exit) -> None: ...


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How a session's agent is to be started."""

    session: SessionId
    cwd: str
    settings: Settings
    resume: str = ""
    fork: bool = False
    resume_at: str = ""
    trusted: bool = False
    mcp: tuple[str, ...] = ()


class Agent(Protocol):
    """A running agent. Every call raises AgentGone once it has exited."""

    @property
    def pid(self) -> int: ...
    @property
    def version(self) -> str: ...
    @property
    def modes(self) -> tuple[str, ...]:
        """The permission modes that this version knows."""
        ...

    @property
    def attended(self) -> bool:
        """A person sits before it: it is not ended for being idle."""
        ...

    async def write(self, record: Record) -> None:
        """A line of ours that `AgentKind.prompt` made: the core stores it first, then it is sent."""
        ...

    async def interrupt(self) -> None: ...
    async def control(self, subtype: str, fields: Mapping[str, Any], timeout: float | None = None) -> Any:
        """A control request and its answer. AgentTimeout, AgentRefused, AgentGone."""
        ...

    async def set_mode(self, mode: str) -> None: ...
    async def set_model(self, model: str) -> None: ...
    async def set_thinking(self, budget: int | None) -> None: ...
    async def answer(self, request: RequestId, decision: Decision) -> None: ...
    async def stop(self, reason: str) -> Exit:
        """The bounded ladder: close its input, ask, terminate, kill; the process and its children are reaped."""
        ...

    async def set_variables(self, variables: Mapping[str, str]) -> None:
        """Environment variables for the running process and what it starts. AgentRefused where it takes none."""
        ...

    def needs_restart(self, old: Settings, new: Settings) -> bool:
        """Whether the change cannot be made by a control request."""
        ...


class AgentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What `doctor` tells of an agent. `problem` says what to do when it cannot be used."""

    name: str
    path: str = ""
    version: str = ""
    ways: dict[str, str] = {}
    problem: str = ""


class ProcessInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A process of ours, recorded before its first byte, so that a restarted gateway knows it again."""

    session: SessionId
    pid: int
    started: str
    group: int
    agent: str
    agent_session: str
    cwd: str
    home: str = ""
    transcript: str = ""
    at: int = 0
    dials_in: bool = False
    """It connects to its gateway, and goes on trying for a while when that is gone."""
    in_terminal: bool = False
    """It lives on a terminal of its gateway's, and is hung up on when that is gone."""
    owner: str = ""
    """The data folder of the gateway that started it, by its device and inode: a copy of the folder has another."""


class AgentKind(Protocol):
    """One folder under `agents/`."""

    @property
    def name(self) -> str: ...
    async def info(self) -> AgentInfo: ...
    def interpreter(self, session: SessionId) -> Interpreter: ...
    def prompt(self, content: Sequence[Content], message: MessageId, agent_session: str) -> Record:
        """Our line for a prompt; `agent_session` is empty before the agent has told its id."""
        ...

    def interrupting(self, cause: str) -> Record:
        """What tells the interpreter that an interrupt was asked for; never sent, the core logs it as its own."""
        ...

    async def launch(self, launch: Launch, sink: AgentSink, record_child: "ChildRecorder") -> Agent:
        """Start it and wait until it is ready for a prompt. AgentMissing, AgentGone (with its own words)."""
        ...

    async def invite(self, launch: Launch, sink: AgentSink, record_child: "ChildRecorder") -> "InvitedAgent":
        """Expect an agent that a person starts and that dials in. BadRequest where this kind cannot."""
        ...

    def protocol(self) -> ClientProtocol | None:
        """The routes by which agents of this kind come in, where there are any."""
        ...

    async def follow(self, child: ProcessInfo, sink: AgentSink, after: MessageId | None) -> None:
        """A child that outlived its gateway, or died with it: give the records that its transcript has after the
        prompt `after` (origin `transcript`; the interpreter knows those it has seen), until it exits; then
        `sink.exited`."""
        ...

    async def forget(self, agent_session: str, cwd: str) -> None:
        """Delete the agent's own file of a session, where there is one: only when a person asked for it."""
        ...

    async def end(self, child: ProcessInfo) -> None:
        """End a child that outlived its gateway (`--on-restart=kill`), by pid and start time, and its group."""
        ...


class AgentInvitation(msgspec.Struct, frozen=True, kw_only=True):
    """How a person starts a session's agent by hand: `command` is a line for a POSIX shell, token included."""

    url: str
    token: str
    command: str


class InvitedAgent(Protocol):
    """An agent that a person was invited to start."""

    @property
    def invitation(self) -> AgentInvitation: ...

    async def arrival(self) -> Agent:
        """When it has dialed in and takes prompts. AgentGone if it is called off, or does not get so far."""
        ...

    async def call_off(self) -> None:
        """Nobody is expected any more."""
        ...


class ChildRecorder(Protocol):
    """Told of a process before its first byte. The core forgets it when `AgentSink.exited` has been logged."""

    async def started(self, child: ProcessInfo) -> None: ...
