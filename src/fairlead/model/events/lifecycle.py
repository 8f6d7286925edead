"""Events about the session, the agent's process, settings, the queue, and the rest outside the conversation."""

from typing import Any, Literal

from fairlead.model.commands import Link
from fairlead.model.content import Content, MessageSource
from fairlead.model.events.base import EventBase, HousekeepingEvent, LifecycleEvent, QueueEvent, SettingEvent
from fairlead.model.ids import MessageId, SessionId


class SessionOpened(LifecycleEvent, frozen=True, kw_only=True, tag="session.opened"):
    cwd: str
    agent: str
    title: str = ""
    by: str = ""
    branch: str = ""
    owner: str | None = None
    """The user who owns the session; None: it is from before sessions had owners, and everybody sees it."""
    shared: tuple[str, ...] = ()
    foreign: bool = False
    """The agent's records do not have the form of the CLI: clients that show such records make them from the events."""
    source: MessageSource | None = None
    """The agent that started the session; None: a person did."""


class SessionForked(LifecycleEvent, frozen=True, kw_only=True, tag="session.forked"):
    """This session continues from `parent` at `seq`; the parent's entries up to there are its own history."""

    parent: SessionId
    seq: int
    message: MessageId | None = None
    by: str = ""
    owner: str | None = None
    """The user who owns the fork; None: the parent's owner."""


class SessionResumed(LifecycleEvent, frozen=True, kw_only=True, tag="session.resumed"):
    """A new process continues this session's history; `agent_session` is the agent's session id."""

    agent_session: str
    message: MessageId | None = None


class SessionChanged(LifecycleEvent, frozen=True, kw_only=True, tag="session.changed"):
    """Title, archive flag, settings, rules sent by clients, owner or shared users; only changed fields are set."""

    title: str | None = None
    archived: bool | None = None
    settings: dict[str, Any] | None = None
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] | None = None
    owner: str | None = None
    shared: tuple[str, ...] | None = None
    by: str = ""


class SessionClosed(LifecycleEvent, frozen=True, kw_only=True, tag="session.closed"):
    reason: str
    by: str = ""


class AgentStarted(LifecycleEvent, frozen=True, kw_only=True, tag="agent.started"):
    """A process was started; with `resumed` it continues the history of the previous process."""

    agent: str
    pid: int
    version: str = ""
    resumed: bool = False
    reason: str = ""


class AgentReady(LifecycleEvent, frozen=True, kw_only=True, tag="agent.ready"):
    """Facts that the agent reported about itself at the start of a turn; sent once, and again when they change."""

    agent_session: str
    version: str = ""
    model: str = ""
    mode: str = ""
    cwd: str = ""
    tools: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    mcp_servers: tuple[dict[str, Any], ...] = ()


class AgentExited(LifecycleEvent, frozen=True, kw_only=True, tag="agent.exited"):
    """`expected`: the gateway ended it (idle, closed, restarted for settings). Else it crashed; `stderr` has the end of
    its error output."""

    reason: str
    expected: bool
    code: int | None = None
    signal: int | None = None
    stderr: str = ""


class HandoverRequested(LifecycleEvent, frozen=True, kw_only=True, tag="handover.asked"):
    """A hand-over to another link was requested. `waits_for` describes the work that it waits for, if any."""

    link: Link
    when: Literal["turn_end", "now"] = "turn_end"
    waits_for: tuple[str, ...] = ()
    by: str = ""


class HandoverSettled(LifecycleEvent, frozen=True, kw_only=True, tag="handover.settled"):
    """`link` is the session's current link; `reason` explains why it is not the requested one."""

    link: Link
    outcome: Literal["moved", "withdrawn", "failed"]
    reason: str = ""
    by: str = ""


class ModeChanged(SettingEvent, frozen=True, kw_only=True, tag="mode.changed"):
    """`request` is the requesting client's own id of its request, if its protocol has one."""

    mode: str
    by: str = ""
    request: str = ""


class ModelChanged(SettingEvent, frozen=True, kw_only=True, tag="model.changed"):
    model: str
    by: str = ""


class ThinkingChanged(SettingEvent, frozen=True, kw_only=True, tag="thinking.changed"):
    budget: int | None
    by: str = ""


class Compaction(HousekeepingEvent, frozen=True, kw_only=True, tag="compaction"):
    phase: Literal["started", "ended", "boundary"]
    trigger: str = ""
    pre_tokens: int = 0


class RateLimit(HousekeepingEvent, frozen=True, kw_only=True, tag="rate.limit"):
    info: dict[str, Any]


class HookProgress(HousekeepingEvent, frozen=True, kw_only=True, tag="hook.progress"):
    hook: str
    name: str
    event: str
    phase: Literal["started", "progress", "ended"]
    output: str = ""
    outcome: str = ""
    exit_code: int | None = None


class Notice(HousekeepingEvent, frozen=True, kw_only=True, tag="notice"):
    """A message outside the conversation: a retry, a local command's output, a sign-in, stored files."""

    kind: str
    text: str = ""
    data: dict[str, Any] = {}


class MessageQueued(QueueEvent, frozen=True, kw_only=True, tag="message.queued"):
    """`reference` is the sender's own name of its request, if its protocol has one. `source`: the agent that sent it;
    None: a person did. The first line of such a message names the agent too."""

    content: tuple[Content, ...]
    by: str = ""
    reference: str = ""
    source: MessageSource | None = None


class MessageDequeued(QueueEvent, frozen=True, kw_only=True, tag="message.dequeued"):
    """The message leaves the queue; `user.message` follows."""


class MessageCancelled(QueueEvent, frozen=True, kw_only=True, tag="message.cancelled"):
    by: str = ""
    reason: str = ""


class MessageMoved(QueueEvent, frozen=True, kw_only=True, tag="message.moved"):
    position: int
    by: str = ""


class InterruptRequested(EventBase, frozen=True, kw_only=True, tag="interrupt.asked"):
    by: str = ""
    reference: str = ""


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
