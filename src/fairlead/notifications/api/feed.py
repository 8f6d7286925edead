"""The change feed: its entries, its service calls, and its encoding on a socket.

Changes of resources go to every subscriber, notices of sessions to the subscribers of their topic. Each has a position
`seq`, which grows. A cursor is `<feed id>:<seq>`; a different feed id makes every old position invalid.
"""

from typing import Any, Final, Literal, Protocol, get_args

import msgspec

from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError
from fairlead.model.ids import SessionId
from fairlead.model.web.requests import ServiceCall
from fairlead.model.web.sockets import SocketOwner

ResourceKind = Literal["task", "reminder", "agent", "hook", "memory", "document", "project", "conversation", "secret"]
ChangeAction = Literal["create", "edit", "delete", "restore", "run", "cancel", "complete", "fail"]
Color = Literal["success", "info", "warning", "error"]
Topic = Literal["session", "permission", "turn"]

RESOURCES: Final[tuple[ResourceKind, ...]] = get_args(ResourceKind)
CHANGE_ACTIONS: Final[tuple[ChangeAction, ...]] = get_args(ChangeAction)
TOPICS: Final[tuple[Topic, ...]] = get_args(Topic)

KINDS: Final = (
    *("session.created", "session.changed", "session.working", "session.agent_exited", "session.deleted"),
    *("permission.asked", "permission.settled"),
    *("turn.completed", "turn.failed", "turn.cancelled"),
)
"""Kinds of notices: `<topic>.<what happened>`."""
SUBSCRIBABLE: Final = frozenset(
    (*TOPICS, *KINDS, *RESOURCES, *(f"{resource}.{action}" for resource in RESOURCES for action in CHANGE_ACTIONS))
)
"""The names under which a target can subscribe to entries."""

ACTIONS: Final[dict[ChangeAction, tuple[str, Color]]] = {
    "create": ("created", "success"),
    "edit": ("updated", "info"),
    "delete": ("deleted", "warning"),
    "restore": ("restored", "success"),
    "run": ("started", "info"),
    "cancel": ("cancelled", "warning"),
    "complete": ("completed", "success"),
    "fail": ("failed", "error"),
}
"""The verb and the colour of each action."""


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
        return f"{self.resource.capitalize()} {ACTIONS[self.action][0]}"

    @property
    def message(self) -> str:
        named = f' "{self.name}"' if self.name else ""
        return self.sentence or f"{self.resource.capitalize()}{named} was {ACTIONS[self.action][0]}"

    @property
    def color(self) -> Color:
        return ACTIONS[self.action][1]


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
    """`prev` is the position of the entry before it: a subscriber at another position has missed something."""

    seq: int
    at: int
    item: FeedItem
    prev: int = 0


class FeedPage(msgspec.Struct, frozen=True):
    """`head` is the last position; entries before `first` are gone: a reader at `first - 1` has missed nothing."""

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


# --- service calls


class ReadFeed(ServiceCall["FeedPage"], frozen=True):
    """-> `FeedPage`: the last entries before a position (None: the newest), ascending"""

    before: int | None = None
    limit: int = 100


class ReadFeedPreferences(ServiceCall[Any], frozen=True):
    """-> this user's preferences, or None"""


class WriteFeedPreferences(ServiceCall[None], frozen=True):
    value: dict[str, Any]


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

    def opened(self, now: int) -> bytes: ...
    def pong(self, now: int) -> bytes: ...
    def subscribed(self, ask: FeedRequest, verdict: Literal["ok", "gap"], cursor: str, now: int) -> bytes: ...
    def failed(self, error: FairleadError, now: int) -> bytes: ...
    def entry(self, entry: FeedEntry, cursor: str | None) -> bytes:
        """Encode an entry. `cursor`: for a client that has subscribed; None: exactly the protocol's original form."""


class JoinFeed(ServiceCall[SocketOwner], frozen=True):
    """-> a `model.web.sockets.SocketOwner` to attach to the socket"""

    codec: FeedCodec
