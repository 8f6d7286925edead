"""The agent port: the calls of the core to a coding agent, and of the agent to the core.

A kind of agent provides two things: a running `Agent` for a session, which is a thin driver, and an
`Interpreter`, which is pure and turns its records into events. The core never reads a record's bytes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol, get_args

import msgspec

from fairlead.model.commands import Settings
from fairlead.model.content import Content
from fairlead.model.events import Event, PermissionResolved
from fairlead.model.ids import CallId, MessageId, RequestId, SessionId, TurnId
from fairlead.model.policy import Verdict
from fairlead.model.store import Origin, OutputPosition, StoredOutput
from fairlead.model.tools import ToolCatalogue
from fairlead.model.web.routes import ClientProtocol

Capability = Literal[
    "rewind",
    "fork",
    "steer",
    "thinking",
    "edited_input",
    "variables",
    "images",
    "questions",
    "plan",
    "resume",
    "terminal",
    "transcripts",
    "cost",
]
"""What an agent may be able to do beyond a conversation in text (docs/reference/agents.md describes each)."""
CAPABILITIES: Final[frozenset[Capability]] = frozenset(get_args(Capability))


class Record(msgspec.Struct, frozen=True):
    """One message of the agent's own wire, with its original bytes (without the newline).

    `at`: the time of the message, in milliseconds since 1970, if it is earlier than its arrival (a transcript's row).
    `name`: its own id (its uuid), if the caller knows it. `by`: the person who sent it, for a prompt."""

    raw: bytes
    origin: Origin = "agent"
    at: int = 0
    name: str = ""
    by: str = ""


class Interpretation(msgspec.Struct, frozen=True):
    """The events of one record. The record's bytes are stored with the first event; without events they are not stored.

    `drop` are the seqs of deltas that these events repeat: the same append removes them from the log."""

    events: tuple[Event, ...] = ()
    drop: tuple[int, ...] = ()


class Interpreter(Protocol):
    """Turns records into events. Pure: the same records give the same events and ids whenever it runs.

    It has state; `snapshot` and `restore` carry it over a restart. The core calls `assign_seq` with the seq of each
    delta event, so that the block that repeats the deltas can refer to them in its marks."""

    def step(self, record: Record) -> Interpretation: ...
    def assign_seq(self, event: Event, seq: int) -> None: ...
    def exited(self, reason: str, cause: str) -> Interpretation:
        """End the open calls, subagents and turn: the process is gone. Event ids derive from `cause`.

        A turn whose final answer was seen has completed; else it failed with `reason`, or was cancelled if an
        interrupt was requested."""

    def end_quiet_turn(self) -> Interpretation:
        """End a turn whose final answer was seen: the transcript has not grown for a while.

        A transcript has no record of a turn's end; without this call, the next prompt would end the turn."""

    def flush_unresolved(self, cause: str) -> Interpretation:
        """Emit the deferred records whose subagent is still unknown, in the main thread. Event ids derive from
        `cause`."""

    @property
    def deferred_count(self) -> int:
        """Number of deferred records: their subagent is not known yet."""

    @property
    def turn(self) -> TurnId | None:
        """The open turn."""

    @property
    def busy(self) -> bool:
        """Whether the main thread works: a prompt now would go into its turn. A turn of background work leaves it
        free."""

    @property
    def background_work(self) -> tuple[str, ...]:
        """A short description of each background task (subagent or shell) that runs outside the turn."""

    def snapshot(self) -> bytes: ...
    def restore(self, data: bytes) -> None: ...


class ToolCheck(msgspec.Struct, frozen=True):
    """The agent is about to use a tool: the policy gives its verdict before the agent's own rules decide.

    `folder`: the agent's current folder, if it reports one; its shell may have left the session's folder. `used`: the
    agent has used the tool without asking. A denial comes too late then: what a rule or the fence denies is logged as
    an error, and the driver interrupts the turn. `observed`: only a denial by a rule or the fence counts, because the
    agent's own caller decides the rest."""

    call: CallId
    tool: str
    input: dict[str, Any]
    mode: str = ""
    folder: str = ""
    used: bool = False
    observed: bool = False


class PermissionRequest(msgspec.Struct, frozen=True):
    """The agent requests permission to use a tool (also: a question to the person, a plan to approve)."""

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
    """Either `code` or `signal` is set; neither when a killed process does not die (it hangs in the kernel)."""

    code: int | None = None
    signal: int | None = None
    stderr: str = ""


RequestState = PermissionResolved | Literal["pending", "settled", "unknown"]
"""What the log has about a request of the agent: its resolution, that it waits for an answer, that it was settled in
another way, or nothing."""


class AgentSink(Protocol):
    """The core's side of a running agent. `records` is awaited before more is read: this is the back-pressure."""

    async def started(self, child: "ProcessInfo") -> None:
        """Record a process before its first byte. The core deletes the record when `exited` has been logged."""

    async def records(self, batch: Sequence[Record], position: OutputPosition | None = None) -> None:
        """Log the records. `position` is stored in the same append."""

    async def check(self, call: ToolCheck) -> Verdict: ...
    async def permission_requested(self, ask: PermissionRequest) -> None: ...
    async def permission_cancelled(self, request: RequestId) -> None: ...
    async def permission_answered(self, request: RequestId, decision: Decision, by: str) -> bool:
        """The agent's own caller has answered. Return False if another answer counts."""

    async def interrupted(self, by: str) -> None:
        """The agent's own caller has interrupted the turn."""

    async def mcp(self, server: str, message: Mapping[str, Any]) -> Mapping[str, Any] | None: ...
    async def request_state(self, request: RequestId) -> RequestState:
        """What the log has about a request that an earlier gateway may have handled."""

    async def keeper_lost(self) -> None:
        """The keeper has ended, and with it the connection to the process, which is about to end itself."""

    async def exited(self, exit: Exit) -> None: ...


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters for starting a session's agent. `mcp` are the gateway's own MCP servers that the session requested,
    `mcp_servers` those of the settings, each with its configuration."""

    session: SessionId
    cwd: str
    settings: Settings
    resume: str = ""
    fork: bool = False
    resume_at: str = ""
    trusted: bool = False
    mcp: tuple[str, ...] = ()
    mcp_servers: Mapping[str, Mapping[str, Any]] = {}
    env: Mapping[str, str] = {}
    """Variables of the gateway for this process, such as the address and the session's own token for `fairlead mcp`."""


class LentProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process of the agent that a shim runs for its caller. `pid` is 0 on another machine than the gateway's; `by` is
    the person who runs the shim."""

    version: str
    agent_session: str
    pid: int = 0
    started: str = ""
    by: str = ""


class Agent(Protocol):
    """A running agent. Every call raises AgentNotRunning once it has exited."""

    @property
    def pid(self) -> int: ...
    @property
    def version(self) -> str: ...
    @property
    def modes(self) -> tuple[str, ...]:
        """The permission modes that this version knows."""

    @property
    def attended(self) -> bool:
        """Whether a person sits in front of it: then it is not stopped as idle."""

    @property
    def lent(self) -> bool:
        """Whether a shim lends us the process of its caller: then it outlives the gateway."""

    @property
    def kept(self) -> bool:
        """Whether the keeper holds the process: then it can outlive the gateway."""

    async def release(self) -> None:
        """Close the connection to a lent or kept process, which goes on without us."""

    async def write(self, record: Record, *, again: bool = False) -> None:
        """Send a line that `AgentKind.prompt` made. The core has stored it before. `again`: an earlier gateway may have
        sent it to this process; it must not get it twice."""

    async def interrupt(self, key: str = "") -> None:
        """Interrupt the turn. A kept process gets an interrupt with the same key only once."""

    async def control(self, subtype: str, fields: Mapping[str, Any], timeout: float | None = None) -> Any:
        """Send a control request and return its answer. AgentTimeout, AgentRefused, AgentNotRunning."""

    async def set_mode(self, mode: str) -> None: ...
    async def set_model(self, model: str) -> None: ...
    async def set_thinking(self, budget: int | None) -> None: ...
    async def rewind(self, message: MessageId, *, dry_run: bool) -> dict[str, Any]:
        """Restore the files as they were before that message; return what the agent reports. AgentRefused if it
        cannot."""

    async def answer(self, request: RequestId, decision: Decision) -> None: ...
    async def stop(self, reason: str) -> Exit:
        """Stop it in bounded steps: close its input, ask, terminate, kill; the process and its children are reaped."""

    async def set_variables(self, variables: Mapping[str, str]) -> None:
        """Set environment variables for the running process and its children. AgentRefused if it accepts none."""

    def needs_restart(self, old: Settings, new: Settings) -> bool:
        """Whether the change needs a restart because no control request can make it."""


class AgentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about an agent for `doctor`. `problem`: what to do when it cannot be used."""

    name: str
    path: str = ""
    version: str = ""
    ways: dict[str, str] = {}
    problem: str = ""


class ProcessInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A process of ours, recorded before its first byte, so that a restarted gateway recognises it."""

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
    """It connects to its gateway, and keeps trying for a while when the gateway is gone."""
    in_terminal: bool = False
    """It runs on a terminal, and gets a hang-up when the process that holds the terminal is gone: its gateway, or the
    keeper."""
    lent: bool = False
    """A shim runs it for a caller and reconnects when the gateway is back: the gateway never ends it."""
    owner: str = ""
    """The data folder of the gateway that started it, as device and inode: a copy of the folder has another value."""
    kept: bool = False
    """The keeper holds it: a restarted gateway connects to it again."""
    version: str = ""
    launch: Launch | None = None
    """How a kept process was started, without its environment."""
    access: str = ""
    """The digests of its tokens, which a restarted gateway accepts again."""


class AgentKind(Protocol):
    """A kind of agent: one folder under `agents/`."""

    @property
    def name(self) -> str: ...
    @property
    def tools(self) -> ToolCatalogue:
        """Its tools, for the policy."""

    @property
    def capabilities(self) -> frozenset[Capability]: ...

    @property
    def writes_cli_records(self) -> bool:
        """Whether its records have the form of the CLI, which some clients show as they are."""

    @property
    def own_files(self) -> frozenset[str]:
        """The names, in lower case, of the files and folders that configure it: no agent changes them without a
        person's consent."""

    @property
    def reserved_controls(self) -> frozenset[str]:
        """Control requests that clients may not send, because the gateway itself sends or answers them."""

    async def info(self) -> AgentInfo: ...
    def interpreter(self, session: SessionId) -> Interpreter: ...
    def prompt(self, content: Sequence[Content], message: MessageId, agent_session: str) -> Record:
        """Our line for a prompt; `agent_session` is empty until the agent has sent its id."""

    def interrupt_record(self, cause: str) -> Record:
        """A record that informs the interpreter of a requested interrupt; it is logged by the core and never sent."""

    async def launch(self, launch: Launch, sink: AgentSink) -> Agent:
        """Start it and wait until it is ready for a prompt. AgentMissing, AgentNotRunning (with its stderr);
        HistoryMissing if it cannot resume the conversation, but could start a new one."""

    async def invite(self, launch: Launch, sink: AgentSink) -> "InvitedAgent":
        """Invite an agent that a person starts and that dials in. BadRequest if this kind cannot."""

    async def attach(self, launch: Launch, process: LentProcess, sink: AgentSink) -> "InvitedAgent":
        """Expect the shim that lends us this process. BadRequest if this kind cannot."""

    def protocol(self) -> ClientProtocol | None:
        """The routes by which agents of this kind connect, if any."""

    async def follow(self, child: ProcessInfo, sink: AgentSink, after: MessageId | None) -> None:
        """Follow a child that outlived its gateway, or died with it: send the records of its transcript after the
        prompt `after` (origin `transcript`; the interpreter skips those it has seen), until it exits; then call
        `sink.exited`."""

    async def adopt(self, child: ProcessInfo, sink: AgentSink, stored: StoredOutput) -> Agent:
        """Connect again to a kept process of an earlier gateway, whose output is stored up to `stored`. NotFound if the
        keeper does not have it (any more)."""

    async def forget(self, agent_session: str, cwd: str) -> None:
        """Delete the agent's own file of a session, if any: only at a person's request."""

    async def end(self, child: ProcessInfo) -> None:
        """Stop a child that outlived its gateway (`--on-restart=kill`), by pid and start time, and its group."""


class AgentInvitation(msgspec.Struct, frozen=True, kw_only=True):
    """How a person starts a session's agent by hand: `command` is a line for a POSIX shell, token included."""

    url: str
    token: str
    command: str


class ShimInvitation(msgspec.Struct, frozen=True, kw_only=True):
    """How a shim connects. `approvals`: people answer permission requests even if the shim's caller cannot."""

    url: str
    token: str
    approvals: bool = False


class InvitedAgent(Protocol):
    """An agent that a person was invited to start."""

    @property
    def invitation(self) -> AgentInvitation | ShimInvitation: ...

    async def arrival(self) -> Agent:
        """Wait until it has dialed in and accepts prompts. AgentNotRunning if it is cancelled or fails before that."""

    async def cancel(self) -> None:
        """Cancel the invitation."""
