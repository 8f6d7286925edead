"""Events: what happened in a session, independent of the agent. One frozen class per kind; `type` on the wire is its
tag.

Rule: an event is true for every client. It holds facts that several projections need (was this text streamed before,
which subagent, how a turn ended), so that projections need little state. Adding a kind means adding it to `Event` at
the end of this file; the type checker then names every `match` to extend.

`id` is permanent, `at` is milliseconds since 1970 and grows strictly within a log, `turn` and `subagent` are set on
every event inside one. `seq` is not here: the log assigns it.
"""

from typing import Any, ClassVar, Literal

import msgspec

from fairlead.model.commands import Link
from fairlead.model.content import Content
from fairlead.model.ids import CallId, EventId, MessageId, RequestId, SessionId, SubagentId, TurnId


class EventBase(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """The common fields of all events."""

    id: EventId
    at: int = 0
    turn: TurnId | None = None
    subagent: SubagentId | None = None


# --- the session ---------------------------------------------------------------------------------


class SessionOpened(EventBase, frozen=True, kw_only=True, tag="session.opened"):
    cwd: str
    agent: str
    title: str = ""
    by: str = ""
    branch: str = ""
    owner: str | None = None
    """The user who owns the session; None: it is from before sessions had owners, and everybody sees it."""
    shared: tuple[str, ...] = ()


class SessionForked(EventBase, frozen=True, kw_only=True, tag="session.forked"):
    """This session continues from `parent` at `seq`; the parent's entries up to there are its own history."""

    parent: SessionId
    seq: int
    message: MessageId | None = None
    by: str = ""
    owner: str | None = None
    """The user who owns the fork; None: the parent's owner."""


class SessionResumed(EventBase, frozen=True, kw_only=True, tag="session.resumed"):
    """A new process continues this session's history; `agent_session` is the agent's session id."""

    agent_session: str
    message: MessageId | None = None


class SessionChanged(EventBase, frozen=True, kw_only=True, tag="session.changed"):
    """Title, archive flag, settings, rules sent by clients, owner or shared users; only changed fields are set."""

    title: str | None = None
    archived: bool | None = None
    settings: dict[str, Any] | None = None
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] | None = None
    owner: str | None = None
    shared: tuple[str, ...] | None = None
    by: str = ""


class SessionClosed(EventBase, frozen=True, kw_only=True, tag="session.closed"):
    reason: str
    by: str = ""


# --- the agent's process --------------------------------------------------------------------------


class AgentStarted(EventBase, frozen=True, kw_only=True, tag="agent.started"):
    """A process was started; with `resumed` it continues the history of the previous process."""

    agent: str
    pid: int
    version: str = ""
    resumed: bool = False
    reason: str = ""


class AgentReady(EventBase, frozen=True, kw_only=True, tag="agent.ready"):
    """Facts that the agent reported about itself at the start of a turn; sent once, and again when they change."""

    agent_session: str
    version: str = ""
    model: str = ""
    mode: str = ""
    cwd: str = ""
    tools: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    mcp_servers: tuple[dict[str, Any], ...] = ()


class AgentExited(EventBase, frozen=True, kw_only=True, tag="agent.exited"):
    """`expected`: the gateway ended it (idle, closed, restarted for settings). Else it crashed; `stderr` has the end of
    its error output."""

    reason: str
    expected: bool
    code: int | None = None
    signal: int | None = None
    stderr: str = ""


class HandoverRequested(EventBase, frozen=True, kw_only=True, tag="handover.asked"):
    """A hand-over to another link was requested. `waits_for` describes the work that it waits for, if any."""

    link: Link
    when: Literal["turn_end", "now"] = "turn_end"
    waits_for: tuple[str, ...] = ()
    by: str = ""


class HandoverSettled(EventBase, frozen=True, kw_only=True, tag="handover.settled"):
    """`link` is the session's current link; `reason` explains why it is not the requested one."""

    link: Link
    outcome: Literal["moved", "withdrawn", "failed"]
    reason: str = ""
    by: str = ""


# --- turns -----------------------------------------------------------------------------------------


class ModelUsage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens and cost of one model in one turn."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost_usd: float = 0.0
    window: int = 0
    """The model's context window in tokens, if the agent reported it."""


TurnStatus = Literal["completed", "failed", "cancelled"]


class TurnStarted(EventBase, frozen=True, kw_only=True, tag="turn.started"):
    """`trigger`: a prompt, or the agent itself (background work that reports back)."""

    trigger: Literal["prompt", "agent"] = "prompt"


class TurnEnded(EventBase, frozen=True, kw_only=True, tag="turn.ended"):
    """`closed` names the calls that were still open and end with the turn; `model_turns` is the agent's count of the
    model's answers."""

    status: TurnStatus
    reason: str = ""
    text: str = ""
    cost_usd: float = 0.0
    duration_ms: int = 0
    api_ms: int = 0
    model_turns: int = 0
    usage: dict[str, ModelUsage] = {}
    errors: tuple[str, ...] = ()
    closed: tuple[CallId, ...] = ()
    output: Any = None


# --- messages ----------------------------------------------------------------------------------------


class UserMessage(EventBase, frozen=True, kw_only=True, tag="user.message"):
    """A message that was sent to the agent. `via` steer: it went into a running turn. `synthetic`: the agent made it
    itself. `record` is the agent's id of it, if the agent chose one (a prompt that was typed into its terminal)."""

    message: MessageId
    content: tuple[Content, ...]
    by: str = ""
    via: Literal["prompt", "steer", "agent"] = "prompt"
    synthetic: bool = False
    record: str = ""


class TextDelta(EventBase, frozen=True, kw_only=True, tag="text.delta"):
    """`offset` is the number of characters of this block before this piece."""

    message: MessageId
    block: int
    offset: int
    text: str


class ThinkingDelta(EventBase, frozen=True, kw_only=True, tag="thinking.delta"):
    message: MessageId
    block: int
    offset: int
    text: str = ""
    signature: str = ""


class InputDelta(EventBase, frozen=True, kw_only=True, tag="input.delta"):
    """A piece of a tool call's input while the model writes it: JSON text, cut anywhere."""

    message: MessageId
    block: int
    offset: int
    call: CallId
    name: str
    json: str


class TokenCount(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens of one model answer, as far as the agent knew when it reported it. The turn's end has the sum."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    tier: str = ""


Mark = tuple[int, int]
"""`(seq, offset)`: up to that delta, `offset` characters of the block were sent."""


class Text(EventBase, frozen=True, kw_only=True, tag="text"):
    """A complete block of the answer. With marks it was streamed before; its deltas are gone from the log.

    `tokens` are on the last block of a record, whether text, thinking or a call."""

    message: MessageId
    block: int
    text: str
    model: str = ""
    marks: tuple[Mark, ...] = ()
    error: str = ""
    tokens: TokenCount | None = None


class Thinking(EventBase, frozen=True, kw_only=True, tag="thinking"):
    message: MessageId
    block: int
    text: str
    signature: str = ""
    model: str = ""
    marks: tuple[Mark, ...] = ()
    tokens: TokenCount | None = None


# --- tools and subagents -------------------------------------------------------------------------------


class ToolCalled(EventBase, frozen=True, kw_only=True, tag="tool.called"):
    call: CallId
    name: str
    input: dict[str, Any]
    message: MessageId
    block: int = 0
    model: str = ""
    marks: tuple[Mark, ...] = ()
    tokens: TokenCount | None = None


class ToolProgress(EventBase, frozen=True, kw_only=True, tag="tool.progress"):
    call: CallId
    name: str = ""
    elapsed_s: float = 0.0
    note: str = ""


class ToolEnded(EventBase, frozen=True, kw_only=True, tag="tool.ended"):
    """`content` is the result for the model, `data` the agent's own structured result: both complete. `background`: the
    subagent that the call started continues; without it, `subagent.ended` follows the end of such a call. A call that
    the model began to write and never made (it has only `input.delta` events) also ends with this event, as
    interrupted."""

    call: CallId
    name: str = ""
    content: Any = None
    data: Any = None
    is_error: bool = False
    status: Literal["done", "failed", "interrupted"] = "done"
    background: bool = False


class SubagentStarted(EventBase, frozen=True, kw_only=True, tag="subagent.started"):
    """`child` is the new subagent; `subagent` is the one that started it, if any."""

    child: SubagentId
    call: CallId
    title: str = ""
    kind: str = ""
    prompt: str = ""
    background: bool = False


class SubagentEnded(EventBase, frozen=True, kw_only=True, tag="subagent.ended"):
    child: SubagentId
    call: CallId
    status: Literal["completed", "failed", "stopped"] = "completed"
    summary: str = ""


class SubagentResolved(EventBase, frozen=True, kw_only=True, tag="subagent.resolved"):
    """These messages and calls, sent earlier as unresolved in the main thread, belong to `child`: its call arrived."""

    child: SubagentId
    call: CallId
    messages: tuple[MessageId, ...] = ()
    calls: tuple[CallId, ...] = ()


# --- requests to a person ------------------------------------------------------------------------------


class PermissionRequested(EventBase, frozen=True, kw_only=True, tag="permission.asked"):
    """`suggestions` are rules that an "always allow" would remember, in Fairlead's notation."""

    request: RequestId
    call: CallId
    tool: str
    input: dict[str, Any]
    title: str = ""
    reason: str = ""
    blocked_path: str = ""
    suggestions: tuple[str, ...] = ()
    data: dict[str, Any] = {}


class QuestionAsked(EventBase, frozen=True, kw_only=True, tag="question.asked"):
    """AskUserQuestion: answered like a permission, with `answers`."""

    tool: ClassVar[str] = "AskUserQuestion"
    request: RequestId
    call: CallId
    questions: tuple[dict[str, Any], ...]
    input: dict[str, Any] = {}


class PlanProposed(EventBase, frozen=True, kw_only=True, tag="plan.proposed"):
    """ExitPlanMode: approval lets the agent start."""

    tool: ClassVar[str] = "ExitPlanMode"
    request: RequestId
    call: CallId
    plan: str
    input: dict[str, Any] = {}


Decider = Literal["person", "rule", "mode", "fence", "default"]


class PermissionResolved(EventBase, frozen=True, kw_only=True, tag="permission.resolved"):
    """A request was decided; this happens once. `by` is the person, `how` the kind of decision, `rule` the rule.
    `asked`: clients had been asked."""

    request: RequestId
    call: CallId
    tool: str
    behavior: Literal["allow", "deny"]
    how: Decider
    by: str = ""
    rule: str = ""
    message: str = ""
    input: dict[str, Any] = {}
    updated_input: dict[str, Any] | None = None
    remembered: tuple[str, ...] = ()
    interrupt: bool = False
    asked: bool = True


class PermissionCancelled(EventBase, frozen=True, kw_only=True, tag="permission.cancelled"):
    request: RequestId
    reason: str


# --- settings that took effect ---------------------------------------------------------------------------


class ModeChanged(EventBase, frozen=True, kw_only=True, tag="mode.changed"):
    """`request` is the requesting client's own id of its request, if its protocol has one."""

    mode: str
    by: str = ""
    request: str = ""


class ModelChanged(EventBase, frozen=True, kw_only=True, tag="model.changed"):
    model: str
    by: str = ""


class ThinkingChanged(EventBase, frozen=True, kw_only=True, tag="thinking.changed"):
    budget: int | None
    by: str = ""


# --- the agent's housekeeping ------------------------------------------------------------------------------


class Compaction(EventBase, frozen=True, kw_only=True, tag="compaction"):
    phase: Literal["started", "ended", "boundary"]
    trigger: str = ""
    pre_tokens: int = 0


class RateLimit(EventBase, frozen=True, kw_only=True, tag="rate.limit"):
    info: dict[str, Any]


class HookProgress(EventBase, frozen=True, kw_only=True, tag="hook.progress"):
    hook: str
    name: str
    event: str
    phase: Literal["started", "progress", "ended"]
    output: str = ""
    outcome: str = ""
    exit_code: int | None = None


class Notice(EventBase, frozen=True, kw_only=True, tag="notice"):
    """A message outside the conversation: a retry, a local command's output, a sign-in, stored files."""

    kind: str
    text: str = ""
    data: dict[str, Any] = {}


# --- the queue -------------------------------------------------------------------------------------------


class MessageQueued(EventBase, frozen=True, kw_only=True, tag="message.queued"):
    message: MessageId
    content: tuple[Content, ...]
    by: str = ""


class MessageDequeued(EventBase, frozen=True, kw_only=True, tag="message.dequeued"):
    """The message leaves the queue; `user.message` follows."""

    message: MessageId


class MessageCancelled(EventBase, frozen=True, kw_only=True, tag="message.cancelled"):
    message: MessageId
    by: str = ""
    reason: str = ""


class MessageMoved(EventBase, frozen=True, kw_only=True, tag="message.moved"):
    message: MessageId
    position: int
    by: str = ""


# --- steering, faults, and the rest ----------------------------------------------------------------------


class InterruptRequested(EventBase, frozen=True, kw_only=True, tag="interrupt.asked"):
    by: str = ""


class Rewound(EventBase, frozen=True, kw_only=True, tag="rewound"):
    """The agent restored files to their content before `message`."""

    message: MessageId
    by: str = ""
    result: dict[str, Any] = {}


class ErrorRaised(EventBase, frozen=True, kw_only=True, tag="error"):
    """An error of the gateway or the agent; `code` is one of the error tree."""

    code: str
    message: str
    data: dict[str, Any] = {}


class RecordStored(EventBase, frozen=True, kw_only=True, tag="record"):
    """A record that is unknown (`known` false) or adds nothing new: it is stored only for its bytes.

    `of`: the bytes are the transcript's copy of the record with this uuid; the history uses this copy from now on. A
    row that never came over the wire is its own copy."""

    record: str
    subtype: str = ""
    known: bool = True
    of: str = ""


Delta = TextDelta | ThinkingDelta | InputDelta
Block = Text | Thinking | ToolCalled

Event = (
    SessionOpened
    | SessionResumed
    | SessionForked
    | SessionChanged
    | SessionClosed
    | AgentStarted
    | AgentReady
    | AgentExited
    | HandoverRequested
    | HandoverSettled
    | TurnStarted
    | TurnEnded
    | UserMessage
    | TextDelta
    | ThinkingDelta
    | InputDelta
    | Text
    | Thinking
    | ToolCalled
    | ToolProgress
    | ToolEnded
    | SubagentStarted
    | SubagentEnded
    | SubagentResolved
    | PermissionRequested
    | QuestionAsked
    | PlanProposed
    | PermissionResolved
    | PermissionCancelled
    | ModeChanged
    | ModelChanged
    | ThinkingChanged
    | Compaction
    | RateLimit
    | HookProgress
    | Notice
    | MessageQueued
    | MessageDequeued
    | MessageCancelled
    | MessageMoved
    | InterruptRequested
    | Rewound
    | ErrorRaised
    | RecordStored
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def kind_of(event: Event) -> str:
    """The event's `type` on the wire."""
    return str(type(event).__struct_config__.tag)


def encode(event: Event) -> bytes:
    """As stored: a JSON object whose first key is `type`."""
    return _encoder.encode(event)


def decode(data: bytes) -> Event:
    return _decoder.decode(data)
