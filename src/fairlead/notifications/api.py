"""The change feed and the resources behind it: words, shapes and ports. The room `notices` does what is asked here.

Vocabulary
    resource   one of nine kinds of things that a person keeps here (a task, a reminder, an agent with a schedule ...)
    change     what happened to a resource, by one of eight actions; every peer is told
    notice     what happened to a session (it changed, a permission waits, a turn ended); told to those who ask for it
    feed       changes and notices in one order; each has a place `seq`, which grows by one
    cursor     `<feed id>:<seq>`: where a peer was; another feed id makes every old place meaningless
    target     where a person wants to be told outside: a webhook, an ntfy topic, a browser's push service
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, get_args

import msgspec

from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError, NotAllowed
from fairlead.model.ids import RequestId, SessionId
from fairlead.model.requests import ServiceCall

ResourceKind = Literal["task", "reminder", "agent", "hook", "memory", "document", "project", "conversation", "secret"]
Doing = Literal["create", "edit", "delete", "restore", "run", "cancel", "complete", "fail"]
Color = Literal["success", "info", "warning", "error"]
Topic = Literal["session", "permission", "turn"]

RESOURCES: Final[tuple[ResourceKind, ...]] = get_args(ResourceKind)
DOINGS: Final[tuple[Doing, ...]] = get_args(Doing)
TOPICS: Final[tuple[Topic, ...]] = get_args(Topic)

KINDS: Final = (
    "session.created",
    "session.changed",
    "session.working",
    "session.agent_exited",
    "session.deleted",
    "permission.asked",
    "permission.settled",
    "turn.completed",
    "turn.failed",
    "turn.cancelled",
)
"""Of notices: the topic, and what happened."""

VERBS: Final[dict[Doing, str]] = {
    "create": "created",
    "edit": "updated",
    "delete": "deleted",
    "restore": "restored",
    "run": "started",
    "cancel": "cancelled",
    "complete": "completed",
    "fail": "failed",
}
COLORS: Final[dict[Doing, Color]] = {
    "create": "success",
    "restore": "success",
    "complete": "success",
    "edit": "info",
    "run": "info",
    "delete": "warning",
    "cancel": "warning",
    "fail": "error",
}


# --- the feed


class Change(msgspec.Struct, frozen=True, kw_only=True, tag="change", omit_defaults=True):
    """`id` and `name` empty: there is none to tell. `said` replaces the message that we would make."""

    resource: ResourceKind
    action: Doing
    id: str = ""
    name: str = ""
    said: str = ""
    meta: dict[str, Any] | None = None
    seen: tuple[str, ...] | None = None

    @property
    def title(self) -> str:
        return f"{self.resource.capitalize()} {VERBS[self.action]}"

    @property
    def message(self) -> str:
        named = f' "{self.name}"' if self.name else ""
        return self.said or f"{self.resource.capitalize()}{named} was {VERBS[self.action]}"

    @property
    def color(self) -> Color:
        return COLORS[self.action]


class FeedNotice(msgspec.Struct, frozen=True, kw_only=True, tag="notice", omit_defaults=True):
    """`kind` is one of `KINDS`; `name` is the session's title, and `message` may have it: both are for those who see
    the session. `outside` is the message without it: a title may be what somebody said."""

    topic: Topic
    kind: str
    session: SessionId
    title: str
    message: str
    color: Color = "info"
    name: str = ""
    outside: str = ""
    meta: dict[str, Any] | None = None
    seen: tuple[str, ...] | None = None


Told = Change | FeedNotice
"""`seen`: the users who are told of it beside the admins, or `auth.EVERYBODY`, as it was when it happened; None: it is
on the board that all users share."""


def is_for(who: Identity, told: Told) -> bool:
    return told.seen is None or who.sees("", told.seen)


class FeedEntry(msgspec.Struct, frozen=True):
    seq: int
    at: int
    told: Told


class FeedPage(msgspec.Struct, frozen=True):
    """`first` is the oldest place that is still kept, `head` the last; entries that were asked for and lie before
    `first` are gone."""

    feed: str
    entries: tuple[FeedEntry, ...]
    first: int
    head: int


def cursor_text(feed: str, seq: int) -> str:
    return f"{feed}:{seq}"


def read_cursor(text: str) -> tuple[str, int] | None:
    """None for what is no cursor."""
    feed, colon, seq = text.rpartition(":")
    # A seq has at most 19 digits; int() of a longer text is slow, and refused by Python itself.
    if not colon or not seq.isascii() or not seq.isdigit() or len(seq) > 19:
        return None
    return feed, int(seq)


# --- what is kept of it


class StoredResource(msgspec.Struct, frozen=True):
    """A row of a shelf, as JSON."""

    kind: str
    id: str
    data: bytes


class ResourceStore(Protocol):
    """Where resources and the feed are kept. Errors: Unavailable, Damaged."""

    async def write(
        self,
        at: int,
        puts: Sequence[StoredResource] = (),
        removes: Sequence[tuple[str, str]] = (),
        told: Sequence[Told] = (),
        keep: int = 10_000,
        most: Mapping[str, int] | None = None,
    ) -> tuple[FeedEntry, ...]:
        """All of it or nothing: what changed, and that it is told. A row that is put again keeps its place in lists.
        Of the feed the last `keep` are kept, of the kinds in `most` so many rows. Durable when it returns."""
        ...

    async def get(self, kind: str, id: str) -> bytes | None: ...

    async def scan(self, kind: str, before: int | None, limit: int) -> tuple[tuple[int, bytes], ...]:
        """Rows with their places, newest first, those with a place below `before`."""
        ...

    async def count(self, kind: str) -> int: ...

    async def feed(self, after: int, limit: int) -> FeedPage: ...

    async def forget(self, user: str) -> None:
        """Nothing of the feed is for this user any more: the next one of that name is somebody else."""
        ...


# --- the resources; times are milliseconds since 1970, names on the wire are in camel case


class Resource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What all have. `deleted_at`: it was deleted, and can be restored where its kind allows it."""

    id: str
    created_at: int = 0
    modified_at: int = 0
    deleted_at: int | None = None
    user: str = ""
    """Who made it, where it is of a kind in `PRIVATE`; empty: from before that was kept, or on the common board."""
    credential: str = ""
    """With what: it does not outlive that."""


class Task(Resource, frozen=True, kw_only=True, rename="camel"):
    title: str
    description: str = ""
    status: Literal["todo", "in_progress", "done", "blocked"] = "todo"
    priority: int = 2
    project_id: str | None = None
    due_date: int | None = None
    tags: tuple[str, ...] = ()
    completed_at: int | None = None


class Project(Resource, frozen=True, kw_only=True, rename="camel"):
    name: str
    color: str
    description: str = ""


class Document(Resource, frozen=True, kw_only=True, rename="camel"):
    """Kept in the store, not as a file: the gateway writes into no folder that agents work in."""

    path: str
    title: str
    tags: tuple[str, ...] = ()
    project_id: str | None = None
    shared: bool = False
    share_type: str | None = None
    mime_type: str = "text/markdown"
    binary: bool = False
    body: str = ""


class MemoryResource(Resource, frozen=True, kw_only=True, rename="camel"):
    content: str
    chunk_type: str
    session_id: str | None = None
    project_path: str | None = None
    source_excerpt: str | None = None
    relevance_score: float = 1.0


class Secret(Resource, frozen=True, kw_only=True, rename="camel"):
    """`sealed` never leaves the room."""

    key: str
    description: str = ""
    sealed: str = ""


class HookEvent(Resource, frozen=True, kw_only=True, rename="camel"):
    event_type: str
    session_id: str | None = None
    project_dir: str | None = None
    tool_name: str | None = None
    tool_matcher: str | None = None
    event_data: Any = None
    exit_code: int | None = None
    blocked: bool = False
    block_reason: str | None = None
    duration_ms: int | None = None
    hook_script: str | None = None


class Reminder(Resource, frozen=True, kw_only=True, rename="camel"):
    message: str
    remind_at: int
    task_id: str | None = None
    notified: bool = False


class ScheduledAgent(Resource, frozen=True, kw_only=True, rename="camel"):
    """A prompt that runs as a session of its own, when `schedule` (cron, UTC) says so or somebody does."""

    name: str
    schedule: str
    prompt: str
    description: str = ""
    enabled: bool = True
    max_turns: int = 50
    max_budget_usd: float | None = None
    folder: str = ""


RunStatus = Literal["running", "success", "error", "cancelled", "budget_exceeded"]


class AgentRun(Resource, frozen=True, kw_only=True, rename="camel"):
    agent_id: str
    session_id: SessionId
    status: RunStatus = "running"
    error: str | None = None
    cost_usd: float = 0.0
    duration_ms: int = 0
    completed_at: int | None = None


class Destination(Resource, frozen=True, kw_only=True, rename="camel"):
    """`topics`: what it is told, by topic or kind of notices, by resource or `<resource>.<action>`. `secret` signs what
    is sent (webhook) or opens the topic (ntfy); `p256dh` and `auth` are a browser's keys. Secrets never leave the room.
    `seq`: how far it has been told. `device`: the credential of the browser that it belongs to, and is gone with;
    `approves`: it may answer what it is asked."""

    kind: Literal["webhook", "ntfy", "push"]
    url: str
    secret: str = ""
    topics: tuple[str, ...] = ()
    p256dh: str = ""
    auth: str = ""
    device: str = ""
    approves: bool = False
    seq: int = 0
    failed: str | None = None


PRIVATE: Final = (ScheduledAgent, AgentRun, Destination, HookEvent, MemoryResource)
"""Kinds whose items belong to the user who made them, and to the admins: they run, tell or repeat what is said in
sessions. All others are on a board that the users share."""


def owned_by(who: Identity, item: Resource) -> bool:
    """Whether the item is there for this one."""
    return not isinstance(item, PRIVATE) or not item.user or who.owns(item.user)


# --- what is asked of the room


class ListItems(ServiceCall, frozen=True):
    """-> tuple of items, newest first, those that `accept` takes"""

    kind: type[Resource]
    accept: Callable[[Any], bool] = lambda item: True
    limit: int = 10_000
    deleted: bool = False


class GetItem(ServiceCall, frozen=True):
    """-> the item; NotFound, also for one that was deleted"""

    kind: type[Resource]
    id: str


class AddItem(ServiceCall, frozen=True):
    """-> the item as it is kept; TooMany, Stale where its name is taken, BadRequest for a schedule that is none"""

    item: Resource
    value: str = ""
    """Of a secret: what is sealed."""


class EditItem(ServiceCall, frozen=True):
    """-> the item; NotFound"""

    kind: type[Resource]
    id: str
    changes: dict[str, Any]


class RemoveItem(ServiceCall, frozen=True):
    """-> the item as it was; NotFound"""

    kind: type[Resource]
    id: str


class RestoreItem(ServiceCall, frozen=True):
    """-> the item; NotFound, Stale where it is not deleted"""

    kind: type[Resource]
    id: str


class RevealSecret(ServiceCall, frozen=True):
    """-> str; NotFound"""

    key: str


class RunAgent(ServiceCall, frozen=True):
    """-> `AgentRun`; NotFound, Busy while one runs"""

    id: str


class CancelAgent(ServiceCall, frozen=True):
    """-> how many runs were asked to end; NotFound"""

    id: str


class ReadFeedPreferences(ServiceCall, frozen=True):
    """-> what this user has set, or None"""


class WriteFeedPreferences(ServiceCall, frozen=True):
    value: dict[str, Any]


class AddTarget(ServiceCall, frozen=True):
    """-> (`Target`, its secret: shown once); TargetRefused"""

    target: Destination


class TryTarget(ServiceCall, frozen=True):
    """-> None when the target took it; TargetFailed"""

    id: str


class PushKey(ServiceCall, frozen=True):
    """-> str: the public key that a browser needs to subscribe"""


class ReadFeed(ServiceCall, frozen=True):
    """-> `FeedPage`: the last entries before a place (None: the newest), ascending"""

    before: int | None = None
    limit: int = 100


class RedeemAnswerCode(ServiceCall, frozen=True):
    """-> `AnswerOf`: what the code of a push message answers; it is spent. BadAnswerCode"""

    code: str


class AnswerOf(msgspec.Struct, frozen=True, kw_only=True):
    session: SessionId
    request: RequestId
    behavior: Literal["allow", "deny"]


class BadAnswerCode(NotAllowed):
    """The same words whatever is wrong with it: nothing is told to who guesses."""

    code = "bad_answer_code"

    def __init__(self) -> None:
        super().__init__("This notification cannot answer any more: open the card of what waits.")


class TargetRefused(FairleadError):
    """A target that we do not send to: no public address, or no address that can be called."""

    code = "target_refused"
    status = 400


class TargetFailed(FairleadError):
    code = "target_failed"
    status = 502


# --- the feed on a socket


class FeedPing(msgspec.Struct, frozen=True):
    pass


class FeedRequest(msgspec.Struct, frozen=True):
    """What a peer wants beside the changes, and where it was; no cursor: from now on."""

    topics: frozenset[Topic]
    cursor: str | None = None


class FeedCodec(Protocol):
    """How a client protocol spells the feed. Equal `key`, equal bytes: an entry is encoded once for all peers."""

    @property
    def key(self) -> str: ...
    def read(self, data: bytes) -> FeedPing | FeedRequest | None:
        """None for what is to be ignored; a FairleadError is told by `failed`, and the socket goes on."""
        ...

    def opened(self, now: int) -> bytes: ...
    def pong(self, now: int) -> bytes: ...
    def subscribed(self, ask: FeedRequest, verdict: Literal["ok", "gap"], cursor: str, now: int) -> bytes: ...
    def failed(self, error: FairleadError, now: int) -> bytes: ...
    def entry(self, entry: FeedEntry, cursor: str | None) -> bytes:
        """`cursor` for a peer that has asked; without, exactly what the protocol's first form has."""
        ...


class JoinFeed(ServiceCall, frozen=True):
    """-> a `model.sockets.Holder` that a conversation attaches"""

    codec: FeedCodec
