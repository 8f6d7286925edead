"""REST: pages of messages by `seq`, posting, a message's images, and the session's key. Pure: steps and encoders."""

import base64
import binascii
from typing import Any, Final

import msgspec

from fairlead.auth.api.session_keys import KEY_BYTES, DropKey, ReadKey, Scheme, SessionKey, SetKey
from fairlead.clients.happy.encryption import seal_file
from fairlead.clients.happy.mapper import VIEW
from fairlead.clients.happy.messages import Posted, message_id, page_message, row_key, text_of
from fairlead.model import events as ev
from fairlead.model.commands import Send
from fairlead.model.content import ImageBlock
from fairlead.model.errors import BadRequest, NotFound
from fairlead.model.ids import SessionId
from fairlead.model.queries import FindRow, GetSession, ReadEvents, ReadRows
from fairlead.model.web.requests import Response, do
from fairlead.model.web.routes import Request, Routes, Steps, json_response

routes = Routes()
_MESSAGES: Final = "/v3/sessions/{session}/messages"
_KEY: Final = "/v3/sessions/{session}/key"
PAGE: Final = 100
PAGE_LIMIT: Final = 500
POST_LIMIT: Final = 100
_LAST: Final = 2**53 - 1
"""JavaScript's largest safe integer: Happy's clients request the messages before it."""
_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class PostMessages(msgspec.Struct, frozen=True):
    messages: tuple[Posted, ...]


class NewKey(msgspec.Struct, frozen=True):
    """`key` is 32 bytes in base64."""

    scheme: Scheme
    key: str


@routes.get(_MESSAGES, "view", "happy.messages")
def read(request: Request) -> Steps:
    """Envelopes by seq: those after one, ascending, or those before one, descending."""
    session = request.session
    if "after_seq" in request.query and "before_seq" in request.query:
        raise BadRequest("Give after_seq or before_seq, not both.", field="before_seq")
    limit = request.query_int("limit", PAGE, 1, PAGE_LIMIT)
    key = yield ReadKey(session)
    if "before_seq" in request.query:
        before = request.query_int("before_seq", 1, 1, _LAST)
        page = yield from do(ReadRows(session, VIEW, before=before, limit=limit))
        rows = page.rows[::-1]
        more = bool(rows) and rows[-1].ordinal > 1
    else:
        page = yield ReadRows(session, VIEW, after=request.query_int("after_seq", 0, 0, _LAST), limit=limit)
        rows = page.rows
        more = bool(rows) and rows[-1].ordinal < page.head
    response = json_response({"messages": [page_message(row, key) for row in rows], "hasMore": more})
    # The original response has no field for the log id. Without it a client could not detect a restored log.
    return msgspec.structs.replace(
        response, headers=(("fairlead-log-id", page.log_id), ("fairlead-head", str(page.head)))
    )


@routes.post(_MESSAGES, "chat", "happy.post", body=PostMessages)
def post(request: Request) -> Steps:
    """Send a user's messages. A localId that was posted before gets the same answer and sends nothing. A message with
    the seq 0 is queued; it gets its seq when it is sent to the agent."""
    session = request.session
    given = request.json(PostMessages).messages
    if not 1 <= len(given) <= POST_LIMIT:
        raise BadRequest(f"Send 1 to {POST_LIMIT} messages at once.", limit=POST_LIMIT)
    key = yield ReadKey(session)
    texts = [(posted.localId, text_of(posted, key)) for posted in given]
    accepted = []
    for local, text in texts:
        message = message_id(session, local)
        reply = yield from do(Send(session=session, key=f"happy/{local}", content=(text,), message=message))
        seq = yield FindRow(session, VIEW, row_key(message))
        at = yield from _time(session, reply.seq)
        place = {"id": row_key(message), "seq": seq or 0, "localId": local}
        accepted.append({**place, "createdAt": at, "updatedAt": at})
    return json_response({"messages": accepted})


def _time(session: SessionId, seq: int) -> Any:
    """Return the time at which the entry of `seq` was written."""
    page = yield from do(ReadEvents(session, max(seq - 1, 0), 1))
    return ev.decode(page.events[0]).at if page.events else 0


@routes.get("/v3/sessions/{session}/files/{ref}", "view", "happy.file", signed=True)
def image(request: Request) -> Steps:
    """The image that a file envelope's ref names; encrypted if the session has a key."""
    session = request.session
    message, dot, number = request.params["ref"].partition(".")
    if not dot or not number.isascii() or not number.isdigit() or len(number) > 4:
        raise NotFound("file", request.params["ref"][:80])
    place = yield FindRow(session, VIEW, row_key(message, "file", int(number)))
    if place is None:
        raise NotFound("file", request.params["ref"][:80])
    rows = yield from do(ReadRows(session, VIEW, after=place - 1, limit=1))
    page = yield from do(ReadEvents(session, rows.rows[0].seq - 1, 1))
    event = ev.decode(page.events[0])
    assert isinstance(event, ev.UserMessage)
    source = [block for block in event.content if isinstance(block, ImageBlock)][int(number)].source
    try:
        data = base64.b64decode(str(source.get("data") or ""), validate=True)
    except binascii.Error:
        data = b""
    if not data:
        raise NotFound("file", request.params["ref"][:80])
    key = yield ReadKey(session)
    kind = str(source.get("media_type"))
    if key is not None:
        data, kind = seal_file(key, data), ""
    return Response(body=data, content_type=kind if kind in _IMAGES else "application/octet-stream")


@routes.put(_KEY, "admin", "happy.set_key", body=NewKey)
def set_key(request: Request) -> Steps:
    """Encrypt this session's envelopes with this key from now on."""
    session = request.session
    given = request.json(NewKey)
    try:
        key = base64.b64decode(given.key, validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        raise BadRequest(f"A key is {KEY_BYTES} bytes in base64.", field="key")
    yield GetSession(session)
    yield SetKey(session, SessionKey(given.scheme, key))
    return json_response({"scheme": given.scheme})


@routes.delete(_KEY, "admin", "happy.drop_key")
def drop_key(request: Request) -> Steps:
    session = request.session
    yield GetSession(session)
    yield DropKey(session)
    return json_response({"scheme": None})
