"""REST for conversations, which are Fairlead's sessions: list, get with messages, create, rename, delete. Pure."""

import contextlib
from typing import Any, Final

import msgspec

from fairlead.clients.cognova.history import NAME, MessageCount, MessageRenderer, decode_count
from fairlead.clients.cognova.rest import TOKEN_HEADER, data
from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.errors import BadId, BadRequest, NotFound
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.ids import SessionId, session_id
from fairlead.model.store import TRANSCRIPT, Summary
from fairlead.model.web.requests import do
from fairlead.model.web.routes import LogStream, Request, Routes, Steps

NO_TITLE: Final = "Title is required"
TITLE_LENGTH: Final = 200
"""Maximum characters of a given title; the core rejects longer ones when a session is renamed."""
LISTED: Final = 50
PATH: Final = "/api/conversations"
ONE: Final = f"{PATH}/{{session}}"

ROUTES: Final = Routes("cognova.conversations.", token_header=TOKEN_HEADER)


class TitleBody(msgspec.Struct, frozen=True):
    title: str = ""


def conversation_json(summary: Summary, counted: MessageCount) -> dict[str, Any]:
    """A conversation as shown in lists. `sdkSessionId` is the agent's own session id, once it has one."""
    streaming = summary.state in ("working", "waiting")
    return {
        "id": summary.session,
        "sessionId": summary.session,
        "sdkSessionId": summary.agent_session or None,
        "title": summary.title,
        "summary": None,
        "status": "streaming" if streaming else counted.status,
        "totalCostUsd": round(summary.cost_usd, 9),
        "isMain": False,
        "startedAt": iso_timestamp(summary.created),
        "endedAt": None if streaming or not counted.messages else iso_timestamp(summary.updated),
        "messageCount": counted.messages,
    }


@ROUTES.get(PATH, "view", "list")
def list_conversations(request: Request) -> Steps:
    """The most recently started conversations; the store lists them in another order."""
    every: list[Summary] = yield from q.every_session()
    found = sorted(every, key=lambda one: (one.created, one.session), reverse=True)[:LISTED]
    conversations = []
    for summary in found:
        counted = yield from _counted(summary)
        if counted is not None:
            conversations.append(conversation_json(summary, counted))
    return data(conversations)


def _counted(summary: Summary) -> Any:
    """Steps: the conversation's message count; None if it was deleted in the meantime."""
    if summary.state == TRANSCRIPT:
        # It was never opened here, and a list does not justify reading its whole file: count two messages per turn.
        return MessageCount(messages=2 * summary.turns)
    try:
        return decode_count((yield q.ReadProjection(summary.session, NAME)))
    except NotFound:
        return None


def _one(session: SessionId) -> Any:
    counted = decode_count((yield q.ReadProjection(session, NAME)))
    view = yield from do(q.GetSession(session))
    return conversation_json(view.summary, counted)


@ROUTES.get(ONE, "view", "get")
def get(request: Request) -> Steps:
    """A conversation with all its messages."""
    session = request.session
    renderer = MessageRenderer(session, (yield from _one(session)))
    return LogStream(session=session, renderer=renderer, content_type="application/json")


@ROUTES.post(PATH, "chat", "create", body=TitleBody)
def create(request: Request) -> Steps:
    """A conversation without a message."""
    title = request.json(TitleBody).title.strip()
    if len(title) > TITLE_LENGTH:
        raise BadRequest(f"A title has at most {TITLE_LENGTH} characters.")
    reply = yield from do(cmd.Create(session=session_id(request.fresh), title=title))
    return data((yield from _one(reply.session)))


@ROUTES.put(ONE, "chat", "rename", body=TitleBody)
def rename(request: Request) -> Steps:
    title = request.json(TitleBody).title.strip()
    if not title:
        raise BadRequest(NO_TITLE)
    yield cmd.Rename(session=request.session, title=title)
    return data((yield from _one(request.session)))


@ROUTES.delete(ONE, "chat", "delete")
def delete(request: Request) -> Steps:
    """Delete a conversation; one that does not exist counts as deleted."""
    with contextlib.suppress(NotFound, BadId):
        yield cmd.Delete(session=request.session)
    return data({"success": True})
