"""REST and a socket for notices: the feed, this browser's push subscription, and the answer on a notification. Pure."""

from collections.abc import Generator, Sequence
from typing import Any, Final, Literal

import msgspec

from fairlead.clients.native import schemas as b
from fairlead.clients.native.codec import read_json
from fairlead.clients.native.decode import UnknownType, convert
from fairlead.model import commands as cmd
from fairlead.model.errors import BadRequest, FairleadError, NotFound
from fairlead.model.formats.frames import json_frame
from fairlead.model.web.requests import Step, do
from fairlead.model.web.routes import Param, Request, Routes, Steps, json_response
from fairlead.model.web.sockets import CloseSocket, Effect, Handing, Handshake, SocketRoute, Write
from fairlead.notifications.api.feed import (
    SUBSCRIBABLE,
    TOPICS,
    Change,
    Color,
    FeedEntry,
    FeedPing,
    FeedRequest,
    JoinFeed,
    ReadFeed,
    Topic,
    cursor_text,
    read_cursor,
)
from fairlead.notifications.api.resources import EditItem, ListItems, RemoveItem
from fairlead.notifications.api.targets import AddTarget, Destination, PushKey, RedeemAnswerCode, TryTarget

_SMALL: Final = 64 << 10
routes = Routes(body_limit=_SMALL)
_PUSH: Final = "/v1/push/subscriptions"
_PLACES: Final = 10**15
DEFAULT_TOPICS: Final = ("permission.asked", "turn.completed", "turn.failed", "session.agent_exited")
"""The default topics of a browser's push subscription."""


# --- shapes


class NoticeView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of the feed. `kind` is a notice's kind (`turn.failed`), or a resource and action (`task.create`)."""

    seq: int
    at: int
    kind: str
    title: str
    message: str
    color: Color = "info"
    session: str = ""
    name: str = ""
    meta: dict[str, Any] = {}


class NoticePage(msgspec.Struct, frozen=True, kw_only=True):
    """Notices in ascending order; `first` is the seq of the oldest stored one, `cursor` is where the socket continues
    after these."""

    notices: tuple[NoticeView, ...]
    first: int
    cursor: str


class PushKeyView(msgspec.Struct, frozen=True):
    key: str


class SubscriptionKeys(b.Body, frozen=True, kw_only=True):
    p256dh: str
    auth: str


class PushBody(b.Body, frozen=True, kw_only=True, rename={"expiration_time": "expirationTime"}):
    """The browser's `PushSubscription` as JSON, and the `topics` to notify it about."""

    endpoint: str
    keys: SubscriptionKeys
    expiration_time: int | None = None
    topics: tuple[str, ...] = DEFAULT_TOPICS


class TopicsBody(b.Body, frozen=True, kw_only=True):
    topics: tuple[str, ...]


class PushView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A browser's push subscription; `here`: this browser. `failed`: why the last message was not accepted."""

    id: str
    device: str
    topics: tuple[str, ...]
    here: bool = False
    failed: str = ""


class PushList(msgspec.Struct, frozen=True):
    subscriptions: tuple[PushView, ...]


class CodeBody(b.Body, frozen=True, kw_only=True):
    code: str


class Removed(msgspec.Struct, frozen=True):
    removed: bool


def notice_view(entry: FeedEntry) -> NoticeView:
    notice = entry.item
    if isinstance(notice, Change):
        kind, session = f"{notice.resource}.{notice.action}", notice.id if notice.resource == "conversation" else ""
    else:
        kind, session = notice.kind, notice.session
    return NoticeView(
        seq=entry.seq,
        at=entry.at,
        kind=kind,
        title=notice.title,
        message=notice.message,
        color=notice.color,
        session=session,
        name=notice.name,
        meta=notice.meta or {},
    )


# --- REST


@routes.get(
    "/v1/notices",
    "view",
    "notices.list",
    answer=NoticePage,
    query=(
        Param("before", int, "The seq of the first known notice."),
        Param("limit", int, "At most this many, up to 500."),
    ),
)
def feed(request: Request) -> Steps:
    """Recent notices of all sessions."""
    before = request.query_int("before", _PLACES, 1, _PLACES)
    limit = request.query_int("limit", 100, 1, 500)
    page = yield from do(ReadFeed(None if before == _PLACES else before, limit))
    notices = tuple(notice_view(entry) for entry in page.entries)
    return json_response(NoticePage(notices=notices, first=page.first, cursor=cursor_text(page.feed, page.head)))


@routes.get("/v1/push/key", "view", "push.key", answer=PushKeyView)
def push_key(request: Request) -> Steps:
    """The key with which a browser subscribes to push messages."""
    return json_response(PushKeyView((yield PushKey())))


def _topics(given: tuple[str, ...]) -> tuple[str, ...]:
    if not SUBSCRIBABLE.issuperset(given):
        known = sorted(SUBSCRIBABLE)
        raise BadRequest("topics must be kinds of notices, such as turn.failed.", field="topics", known=known)
    return tuple(dict.fromkeys(given))


def _push(target: Destination) -> PushView:
    """The view of this device's own subscription: no other one is shown or changed."""
    return PushView(id=target.id, device=target.device, topics=target.topics, here=True, failed=target.failed or "")


def _own(credential: str, id: str = "") -> ListItems:
    def accept(target: Destination) -> bool:
        return target.kind == "push" and target.device == credential and (not id or target.id == id)

    return ListItems(Destination, accept)


@routes.get(_PUSH, "view", "push.list", answer=PushList)
def subscriptions(request: Request) -> Steps:
    """This device's push subscription, if it has one."""
    targets = yield _own(request.who.credential)
    return json_response(PushList(tuple(map(_push, targets))))


@routes.post(_PUSH, "view", "push.subscribe", body=PushBody, answer=PushView, status=201)
def subscribe(request: Request) -> Steps:
    """Subscribe this browser to push messages. An older subscription of this device ends."""
    body, who = request.json(PushBody), request.who
    topics = _topics(body.topics)
    # One per device: a browser that subscribes again has lost its old subscription, or has a new one.
    for old in (yield _own(who.credential)):
        yield RemoveItem(Destination, old.id)
    target, _ = yield AddTarget(
        Destination(
            id=request.fresh,
            kind="push",
            url=body.endpoint,
            topics=topics,
            p256dh=body.keys.p256dh,
            auth=body.keys.auth,
            device=who.credential,
            approves=who.may("approve"),
        )
    )
    return json_response(_push(target), 201)


def _mine(request: Request) -> Generator[Step, Any, Destination]:
    """Return the caller's own subscription with this id. Raises NotFound for one of another device."""
    found = yield _own(request.who.credential, request.params["id"])
    if not found:
        raise NotFound("subscription", request.params["id"])
    mine: Destination = found[0]
    return mine


@routes.patch(f"{_PUSH}/{{id}}", "view", "push.topics", body=TopicsBody, answer=PushView)
def change_topics(request: Request) -> Steps:
    """Change the topics of this browser's subscription."""
    topics = _topics(request.json(TopicsBody).topics)
    target = yield from _mine(request)
    changed = yield EditItem(Destination, target.id, {"topics": topics})
    return json_response(_push(changed))


@routes.delete(f"{_PUSH}/{{id}}", "view", "push.unsubscribe", answer=Removed)
def unsubscribe(request: Request) -> Steps:
    """End this browser's subscription."""
    target = yield from _mine(request)
    yield RemoveItem(Destination, target.id)
    return json_response(Removed(True))


@routes.post(f"{_PUSH}/{{id}}/test", "view", "push.test", answer=PushView)
def try_push(request: Request) -> Steps:
    """Send this browser a test message now."""
    target = yield from _mine(request)
    yield TryTarget(target.id)
    return json_response(_push(target))


@routes.post("/v1/answers", "approve", "answers.post", body=CodeBody, answer=cmd.Reply)
def answer(request: Request) -> Steps:
    """Answer with the single-use code of a notification, from the device that received it."""
    found = yield from do(RedeemAnswerCode(request.json(CodeBody).code))
    reply = yield cmd.AnswerPermission(session=found.session, request=found.request, behavior=found.behavior)
    return json_response(reply)


# --- the socket


class _AskFrame(msgspec.Struct, frozen=True):
    topics: tuple[Topic, ...] = TOPICS
    cursor: str | None = None


class NoticeCodec:
    """Implements `notifications.api.FeedCodec`; all sockets share one instance."""

    key = "native"

    def read(self, data: bytes) -> FeedPing | FeedRequest | None:
        fields = read_json(data)
        kind = fields.pop("type", None) if isinstance(fields, dict) else None
        if kind == "ping":
            return FeedPing()
        if kind != "subscribe":
            raise UnknownType("This socket accepts subscribe and ping.")
        asked = convert(fields, _AskFrame)
        if asked.cursor is not None and read_cursor(asked.cursor) is None:
            raise BadRequest("cursor must come from an earlier frame.", field="cursor")
        return FeedRequest(frozenset(asked.topics), asked.cursor)

    def opened(self, now: int) -> bytes:
        return json_frame({"type": "hello", "at": now})

    def pong(self, now: int) -> bytes:
        return json_frame({"type": "pong", "at": now})

    def subscribed(self, ask: FeedRequest, verdict: Literal["ok", "gap"], cursor: str, now: int) -> bytes:
        return json_frame({"type": "subscribed", "topics": sorted(ask.topics), "verdict": verdict, "cursor": cursor})

    def failed(self, error: FairleadError, now: int) -> bytes:
        return json_frame({"type": "error", "code": error.code, "message": error.message})

    def entry(self, entry: FeedEntry, cursor: str | None) -> bytes:
        place = {} if cursor is None else {"cursor": cursor}
        return json_frame({"type": "notice", **msgspec.to_builtins(notice_view(entry)), **place})


CODEC: Final = NoticeCodec()


class Notices(Handing):
    def __init__(self, opening: Handshake) -> None:
        super().__init__(JoinFeed(CODEC), _SMALL)

    def failed(self, error: FairleadError) -> Sequence[Effect]:
        return (CloseSocket(1011, "the feed cannot be read: connect again"),)

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Effect]:
        return (Write(CODEC.failed(error, 0)),)


SOCKET: Final = SocketRoute(
    path="/v1/notices/ws", access="view", name="native.notices", open=Notices, message_limit=_SMALL
)
