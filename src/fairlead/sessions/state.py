"""The state of a session, reduced from its events. Pure: `evolve(state, event)` returns the next state.

Rule: everything here can be rebuilt from the log. Data that only this process has (the running agent, the tasks, the
subscriptions) lives in `session.Session`.
"""

from typing import Any, Literal, assert_never

import msgspec

from fairlead.model import events as ev
from fairlead.model.auth import EVERYBODY, OWNER
from fairlead.model.commands import Link, Settings
from fairlead.model.content import Content, MessageSource, plain_text
from fairlead.model.ids import CallId, MessageId, RequestId, SessionId, SubagentId, TurnId
from fairlead.model.store import Summary

TITLE_LENGTH = 80
MOST_TITLE = 200
"""`TITLE_LENGTH`: characters of the first prompt that serve as a title until one is set. `MOST_TITLE`: of a given
title."""


def clean_title(text: str) -> str:
    """A title as it is stored: one line of printable characters, cut to `MOST_TITLE`."""
    return "".join(character for character in " ".join(text.split()) if character.isprintable())[:MOST_TITLE].strip()


class Queued(msgspec.Struct, frozen=True):
    message: MessageId
    content: tuple[Content, ...]
    by: str = ""
    source: MessageSource | None = None


class PendingRequest(msgspec.Struct, frozen=True):
    """A request that waits for a person."""

    request: RequestId
    call: CallId
    tool: str
    input: dict[str, Any]
    seq: int
    event: bytes
    subagent: SubagentId | None = None
    certain: bool = True
    question: bool = False
    """It takes answers."""


class PendingHandover(msgspec.Struct, frozen=True):
    link: Link
    when: Literal["turn_end", "now"] = "turn_end"
    by: str = ""


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
    """All fields are small or bounded: the state is written whole into a checkpoint."""

    session: SessionId
    cwd: str = ""
    agent: str = ""
    title: str = ""
    named: bool = False
    """A person set the title: the agent's own summaries no longer change it."""
    branch: str = ""
    first_prompt: str = ""
    archived: bool = False
    closed: bool = False
    created: int = 0
    updated: int = 0
    agent_session: str = ""
    resumable: bool = False
    turn: TurnId | None = None
    last_prompt: MessageId | None = None
    turns: int = 0
    cost_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    settings: Settings = Settings()
    rules: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    """Rules that clients sent, in addition to `rules`, which answers to requests left."""
    model: str = ""
    queue: tuple[Queued, ...] = ()
    handed: tuple[tuple[MessageId, str], ...] = ()
    """Messages that left the queue and whose `user.message` is still to come, each with its sender."""
    pending: tuple[PendingRequest, ...] = ()
    decided: tuple[tuple[RequestId, str], ...] = ()
    parent: SessionId | None = None
    fork_from: str = ""
    fork_at: str = ""
    handover: PendingHandover | None = None
    owner: str = OWNER
    shared: tuple[str, ...] = (EVERYBODY,)
    """These defaults are for logs from before sessions had owners; in other logs the first event sets the owner."""
    started_depth: int = 0
    depth: int = 0
    """How many agents lie between the session and the last person: when it was started, and in its current turn."""

    @property
    def phase(self) -> str:
        """The state shown in lists: `waiting` for a person, `working`, `closed` or `idle`."""
        if self.pending:
            return "waiting"
        if self.turn is not None or self.queue or self.handover is not None:
            return "working"
        return "closed" if self.closed else "idle"

    @property
    def finished_turns(self) -> int:
        return self.turns - (self.turn is not None)

    def find_pending(self, request: str) -> PendingRequest | None:
        return next((item for item in self.pending if item.request == request), None)

    def find_queued(self, message: str) -> Queued | None:
        return next((item for item in self.queue if item.message == message), None)

    def sender(self, message: str) -> str:
        """The sender of a message that is on its way to the agent."""
        return next((by for name, by in self.handed if name == message), "")

    def summary(self) -> Summary:
        return Summary(
            session=self.session,
            title=self.title or self.first_prompt[:TITLE_LENGTH],
            cwd=self.cwd,
            agent=self.agent,
            agent_session=self.agent_session,
            state=self.phase,
            model=self.model or self.settings.model,
            mode=self.settings.mode,
            archived=self.archived,
            created=self.created,
            updated=self.updated,
            turns=self.turns,
            pending=len(self.pending),
            queued=len(self.queue),
            cost_usd=self.cost_usd,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            parent=self.parent,
            first_prompt=self.first_prompt,
            branch=self.branch,
            owner=self.owner,
            shared=self.shared,
        )


DECIDED_KEPT = 64
"""Recently decided requests: a late answer to one is rejected with its decider; older requests are unknown."""

_change = msgspec.structs.replace
_Changes = dict[str, Any]


def evolve(state: SessionState, event: ev.Event, seq: int, encoded: bytes = b"") -> SessionState:
    """The state after `event`. `encoded` is the event as stored; only pending requests keep it."""
    changes: _Changes = {}
    match event:
        case ev.TextDelta() | ev.ThinkingDelta() | ev.InputDelta() | ev.RecordStored() | ev.ToolProgress():
            return state
        case ev.Notice(kind="title", text=title) if title and not state.named:
            changes = {"title": title[:TITLE_LENGTH]}
        case ev.Text() | ev.Thinking() | ev.ToolCalled() | ev.HookProgress() | ev.Notice() | ev.RateLimit():
            pass
        case ev.SubagentStarted() | ev.SubagentEnded() | ev.Compaction() | ev.ErrorRaised() | ev.InterruptRequested():
            pass
        case ev.Rewound() | ev.ToolEnded() | ev.SubagentResolved() | ev.AgentExited():
            pass
        case ev.SessionOpened():
            changes = {"cwd": event.cwd, "agent": event.agent, "title": event.title, "branch": event.branch}
            changes |= {"created": event.at, "owner": OWNER if event.owner is None else event.owner}
            changes |= {"shared": (EVERYBODY,) if event.owner is None else event.shared}
            depth = _depth(event.source)
            changes |= {"started_depth": depth, "depth": depth}
        case ev.SessionForked():
            changes = _forked(state, event)
        case ev.SessionResumed():
            changes = _resumed(state, event)
        case ev.SessionChanged():
            changes = _changed(state, event)
        case ev.SessionClosed():
            changes = {"closed": True}
        case ev.AgentStarted():
            changes = {"closed": False}
        case ev.AgentReady():
            changes = {"agent_session": event.agent_session, "model": event.model or state.model}
            changes |= {"resumable": True, "fork_from": "", "fork_at": ""}
        case ev.HandoverRequested():
            changes = {"handover": PendingHandover(event.link, event.when, event.by)}
        case ev.HandoverSettled():
            changes = {"handover": None}
        case ev.TurnStarted():
            changes = {"turn": event.turn, "turns": state.turns + 1}
        case ev.TurnEnded():
            changes = _turn_ended(state, event)
        case ev.UserMessage():
            changes = _user_message(state, event)
        case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed():
            certain = event.certain if isinstance(event, ev.PermissionRequested) else True
            about = event.request, event.call, event.tool, event.input
            question = isinstance(event, ev.QuestionAsked)
            item = PendingRequest(*about, seq, encoded, event.subagent, certain, question)
            changes = {"pending": (*state.pending, item)}
        case ev.PermissionResolved():
            changes = _settled(state, event.request, event.by or event.how)
            changes["rules"] = tuple(dict.fromkeys((*state.rules, *event.remembered)))
        case ev.PermissionCancelled():
            changes = _settled(state, event.request, event.reason)
        case ev.ModeChanged():
            changes = {"settings": _change(state.settings, mode=event.mode)}
        case ev.ModelChanged():
            changes = {"settings": _change(state.settings, model=event.model), "model": event.model}
        case ev.ThinkingChanged():
            changes = {"settings": _change(state.settings, thinking=event.budget)}
        case ev.MessageQueued():
            changes = {"queue": (*state.queue, Queued(event.message, event.content, event.by, event.source))}
        case ev.MessageDequeued():
            changes = _dequeued(state, event)
        case ev.MessageCancelled():
            changes = {"queue": _without(state, event.message)}
        case ev.MessageMoved():
            changes = _moved(state, event)
        case _:
            assert_never(event)
    return _change(state, updated=event.at, **changes)


_NO_WORK: _Changes = {"turn": None, "queue": (), "handed": (), "pending": (), "handover": None, "agent_session": ""}
_NO_WORK |= {"closed": False, "archived": False, "resumable": False}


def _forked(state: SessionState, event: ev.SessionForked) -> _Changes:
    """Take over the parent's history, but not its work in progress."""
    fork = {"parent": event.parent, "fork_from": state.agent_session, "fork_at": event.message or ""}
    owned = {} if event.owner is None else {"owner": event.owner, "shared": ()}
    return {**_NO_WORK, **fork, **owned, "created": event.at}


def _resumed(state: SessionState, event: ev.SessionResumed) -> _Changes:
    if state.fork_from == event.agent_session:
        # A fork resumes its parent's conversation under a new agent id, which comes later.
        return {"closed": False}
    known = state.agent_session or event.agent_session
    return {"agent_session": known, "resumable": True, "fork_from": "", "fork_at": "", "closed": False}


def _changed(state: SessionState, event: ev.SessionChanged) -> _Changes:
    given = {name: getattr(event, name) for name in ("title", "archived", "allow", "deny", "owner", "shared")}
    changes = {name: value for name, value in given.items() if value is not None}
    if event.title is not None:
        changes["named"] = True
    if event.settings is not None:
        changes["settings"] = msgspec.convert(event.settings, Settings)
    return changes


def _turn_ended(state: SessionState, event: ev.TurnEnded) -> _Changes:
    used = event.usage.values()
    return {
        "turn": None,
        "cost_usd": state.cost_usd + event.cost_usd,
        "input_tokens": state.input_tokens + sum(u.input + u.cache_read + u.cache_write for u in used),
        "output_tokens": state.output_tokens + sum(u.output for u in used),
    }


HANDED_KEPT = 16
"""A message without its `user.message` is dropped after this many others; only one is on its way at a time."""


def _dequeued(state: SessionState, event: ev.MessageDequeued) -> _Changes:
    item = state.find_queued(event.message)
    handed = state.handed if item is None else (*state.handed[1 - HANDED_KEPT :], (item.message, item.by))
    depth = state.depth if item is None else max(state.started_depth, _depth(item.source))
    return {"queue": _without(state, event.message), "handed": handed, "depth": depth}


def _depth(source: MessageSource | None) -> int:
    return 0 if source is None else source.depth


def _without(state: SessionState, message: MessageId) -> tuple[Queued, ...]:
    return tuple(item for item in state.queue if item.message != message)


def _user_message(state: SessionState, event: ev.UserMessage) -> _Changes:
    changes: _Changes = {"handed": tuple(item for item in state.handed if item[0] != event.message)}
    if event.via == "prompt" and event.subagent is None:
        changes["last_prompt"] = MessageId(event.record or event.message)
        changes["first_prompt"] = state.first_prompt or plain_text(event.content)[:400]
    return changes


def _settled(state: SessionState, request: RequestId, by: str) -> _Changes:
    pending = tuple(item for item in state.pending if item.request != request)
    return {"pending": pending, "decided": (*state.decided[-DECIDED_KEPT + 1 :], (request, by))}


def _moved(state: SessionState, event: ev.MessageMoved) -> _Changes:
    item = state.find_queued(event.message)
    if item is None:
        return {}
    rest = [*_without(state, event.message)]
    rest.insert(event.position, item)
    return {"queue": tuple(rest)}
