"""The change feed and its resources: types, service calls and ports. `notifications.service` handles the calls.

Vocabulary
    resource   an item of one of nine kinds that a person stores here (a task, a reminder, a scheduled agent ...)
    change     one of eight actions on a resource; sent to every subscriber
    notice     an event of a session (it changed, a permission waits, a turn ended); sent to subscribers of its topic
    feed       changes and notices in one order; each has a position `seq`, which grows by one
    cursor     `<feed id>:<seq>`: a subscriber's position; a different feed id makes every old position invalid
    target     an external receiver of a person's notices: a webhook, an ntfy topic, a browser's push service
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, get_args

import msgspec

from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError, NotAllowed
from fairlead.model.ids import RequestId, SessionId
from fairlead.model.web.requests import ServiceCall

ResourceKind = Literal["task", "reminder", "agent", "hook", "memory", "document", "project", "conversation", "secret"]
ChangeAction = Literal["create", "edit", "delete", "restore", "run", "cancel", "complete", "fail"]
Color = Literal["success", "info", "warning", "error"]
Topic = Literal["session", "permission", "turn"]

RESOURCES: Final[tuple[ResourceKind, ...]] = get_args(ResourceKind)
CHANGE_ACTIONS: Final[tuple[ChangeAction, ...]] = get_args(ChangeAction)
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
"""Kinds of notices: `<topic>.<what happened>`."""

VERBS: Final[dict[ChangeAction, str]] = {
    "create": "created",
    "edit": "updated",
    "delete": "deleted",
    "restore": "restored",
    "run": "started",
    "cancel": "cancelled",
    "complete": "completed",
    "fail": "failed",
}
COLORS: Final[dict[ChangeAction, Color]] = {
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
    """An action on a resource. `id` and `name` are empty if there is nothing to show. `sentence` replaces the generated
    text; it is stored as `said`."""

    resource: ResourceKind
    action: ChangeAction
    id: str = ""
    name: str = ""
    sentence: str = msgspec.field(default="", name="said")
    meta: dict[str, Any] | None = None
    seen: tuple[str, ...] | None = None

    @property
    def title(self) -> str:
        return f"{self.resource.capitalize()} {VERBS[self.action]}"

    @property
    def message(self) -> str:
        named = f' "{self.name}"' if self.name else ""
        return self.sentence or f"{self.resource.capitalize()}{named} was {VERBS[self.action]}"

    @property
    def color(self) -> Color:
        return COLORS[self.action]


class FeedNotice(msgspec.Struct, frozen=True, kw_only=True, tag="notice", omit_defaults=True):
    """An event of a session. `kind` is one of `KINDS`; `name` is the session's title, and `message` may contain it:
    both are only for users who see the session. `outside` is the message without the title, because a title may quote
    a prompt."""

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


FeedItem = Change | FeedNotice
"""`seen`: the users who receive it, apart from the admins, or `auth.EVERYBODY`, at the time of the event; None: it is
on the board that all users share."""


def is_visible_to(who: Identity, item: FeedItem) -> bool:
    return item.seen is None or who.sees("", item.seen)


class FeedEntry(msgspec.Struct, frozen=True):
    seq: int
    at: int
    item: FeedItem


class FeedPage(msgspec.Struct, frozen=True):
    """`first` is the oldest position that is still stored, `head` the last; requested entries before `first` are
    gone."""

    feed: str
    entries: tuple[FeedEntry, ...]
    first: int
    head: int


def cursor_text(feed: str, seq: int) -> str:
    return f"{feed}:{seq}"


def read_cursor(text: str) -> tuple[str, int] | None:
    """Parse a cursor; None if it is malformed."""
    feed, colon, seq = text.rpartition(":")
    # A seq has at most 19 digits; int() is slow for longer texts, and Python itself rejects very long ones.
    if not colon or not seq.isascii() or not seq.isdigit() or len(seq) > 19:
        return None
    return feed, int(seq)


# --- storage


class StoredResource(msgspec.Struct, frozen=True):
    """A row of a `ResourceStore`, as JSON."""

    kind: str
    id: str
    data: bytes


class ResourceStore(Protocol):
    """The storage of resources and of the feed. Raises Unavailable, Damaged."""

    async def write(
        self,
        at: int,
        puts: Sequence[StoredResource] = (),
        removes: Sequence[tuple[str, str]] = (),
        items: Sequence[FeedItem] = (),
        keep: int = 10_000,
        most: Mapping[str, int] | None = None,
    ) -> tuple[FeedEntry, ...]:
        """Write the changed rows and their feed entries in one transaction. A row that is put again keeps its position
        in lists. The feed keeps its last `keep` entries, and a kind in `most` at most that many rows. Durable when it
        returns."""
        ...

    async def get(self, kind: str, id: str) -> bytes | None: ...

    async def scan(self, kind: str, before: int | None, limit: int) -> tuple[tuple[int, bytes], ...]:
        """The rows with a position below `before`, with their positions, newest first."""
        ...

    async def count(self, kind: str) -> int: ...

    async def feed(self, after: int, limit: int) -> FeedPage: ...

    async def forget(self, user: str) -> None:
        """Remove this user from the `seen` of every feed entry: a later user of the same name is another person."""
        ...


# --- the resources; times are milliseconds since 1970, names on the wire are in camel case


class Resource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The fields of all resources. `deleted_at`: it was deleted, and can be restored if its kind allows that."""

    id: str
    created_at: int = 0
    modified_at: int = 0
    deleted_at: int | None = None
    user: str = ""
    """The creator, for kinds in `PRIVATE`; empty: stored before creators were recorded, or on the shared board."""
    credential: str = ""
    """The creator's credential; the resource stops working when it is revoked."""


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
    """Kept in the store, not as a file: the gateway never writes into a folder in which agents work."""

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
    """`sealed` never leaves this package."""

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
    """A prompt that runs as a separate session, at the times of `schedule` (cron, UTC) or on request."""

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
    """A target. `topics`: its subscriptions, by topic or kind of notices, by resource or `<resource>.<action>`.
    `secret` signs the payloads (webhook) or authenticates at the topic (ntfy); `p256dh` and `auth` are a browser's
    keys. Secrets never leave this package. `seq`: the last entry that was handled. `device`: the credential of the
    browser that it belongs to; it is removed with that credential. `approves`: it may answer permission requests."""

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
"""Kinds whose items belong to the user who made them, and to the admins: they run sessions, or send or repeat their
content. All other kinds are on a board that the users share."""


def owned_by(who: Identity, item: Resource) -> bool:
    """Whether this user may see the item."""
    return not isinstance(item, PRIVATE) or not item.user or who.owns(item.user)


# --- service calls


class ListItems(ServiceCall, frozen=True):
    """-> tuple of the items that `accept` accepts, newest first"""

    kind: type[Resource]
    accept: Callable[[Any], bool] = lambda item: True
    limit: int = 10_000
    deleted: bool = False


class GetItem(ServiceCall, frozen=True):
    """-> the item; NotFound, also for a deleted item"""

    kind: type[Resource]
    id: str


class AddItem(ServiceCall, frozen=True):
    """-> the item as stored; TooMany, Stale if its name is taken, BadRequest for an invalid schedule"""

    item: Resource
    value: str = ""
    """The plain text of a secret, which is encrypted."""


class EditItem(ServiceCall, frozen=True):
    """-> the item; NotFound"""

    kind: type[Resource]
    id: str
    changes: dict[str, Any]


class RemoveItem(ServiceCall, frozen=True):
    """-> the removed item; NotFound"""

    kind: type[Resource]
    id: str


class RestoreItem(ServiceCall, frozen=True):
    """-> the item; NotFound, Stale if it is not deleted"""

    kind: type[Resource]
    id: str


class RevealSecret(ServiceCall, frozen=True):
    """-> str; NotFound"""

    key: str


class RunAgent(ServiceCall, frozen=True):
    """-> `AgentRun`; NotFound, Busy while a run is in progress"""

    id: str


class CancelAgent(ServiceCall, frozen=True):
    """-> the number of runs that are being cancelled; NotFound"""

    id: str


class ReadFeedPreferences(ServiceCall, frozen=True):
    """-> this user's preferences, or None"""


class WriteFeedPreferences(ServiceCall, frozen=True):
    value: dict[str, Any]


class AddTarget(ServiceCall, frozen=True):
    """-> (`Destination`, its secret, which is shown only once); TargetRefused"""

    target: Destination


class TryTarget(ServiceCall, frozen=True):
    """-> None when the target accepted the test notice; TargetFailed"""

    id: str


class PushKey(ServiceCall, frozen=True):
    """-> str: the public key that a browser needs to subscribe"""


class ReadFeed(ServiceCall, frozen=True):
    """-> `FeedPage`: the last entries before a position (None: the newest), ascending"""

    before: int | None = None
    limit: int = 100


class RedeemAnswerCode(ServiceCall, frozen=True):
    """-> `AnswerOf`: the answer that a push message's code stands for; the code is used up. BadAnswerCode"""

    code: str


class AnswerOf(msgspec.Struct, frozen=True, kw_only=True):
    session: SessionId
    request: RequestId
    behavior: Literal["allow", "deny"]


class BadAnswerCode(NotAllowed):
    """The same message whatever is wrong with the code: a guesser learns nothing."""

    code = "bad_answer_code"

    def __init__(self) -> None:
        super().__init__("This notification cannot answer any more: open the card of what waits.")


class TargetRefused(FairleadError):
    """A target to which Fairlead does not send: no public address, or no address that can be called."""

    code = "target_refused"
    status = 400


class TargetFailed(FairleadError):
    code = "target_failed"
    status = 502


# --- the feed on a socket


class FeedPing(msgspec.Struct, frozen=True):
    pass


class FeedRequest(msgspec.Struct, frozen=True):
    """The topics that a subscriber wants in addition to the changes, and its position; without a cursor: from now
    on."""

    topics: frozenset[Topic]
    cursor: str | None = None


class FeedCodec(Protocol):
    """A client protocol's encoding of the feed. Codecs with the same `key` produce the same bytes: an entry is encoded
    once for all their subscribers."""

    @property
    def key(self) -> str: ...
    def read(self, data: bytes) -> FeedPing | FeedRequest | None:
        """Decode a message; None: ignore it. A FairleadError is answered with `failed`, and the socket stays open."""
        ...

    def opened(self, now: int) -> bytes: ...
    def pong(self, now: int) -> bytes: ...
    def subscribed(self, ask: FeedRequest, verdict: Literal["ok", "gap"], cursor: str, now: int) -> bytes: ...
    def failed(self, error: FairleadError, now: int) -> bytes: ...
    def entry(self, entry: FeedEntry, cursor: str | None) -> bytes:
        """Encode an entry. `cursor`: for a client that has subscribed; None: exactly the protocol's original form."""
        ...


class JoinFeed(ServiceCall, frozen=True):
    """-> a `model.web.sockets.SocketOwner` to attach to the socket"""

    codec: FeedCodec
