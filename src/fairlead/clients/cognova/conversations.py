"""REST for conversations, which are Fairlead's sessions: list, get with messages, create, rename, delete. Pure."""

import contextlib
from typing import Any, Final

import msgspec

from fairlead.clients.cognova.history import NAME, MessageCount, MessageRenderer, decode_count
from fairlead.clients.cognova.rest import TOKEN_HEADER, data, problem, with_errors
from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.errors import BadId, BadRequest, NotFound
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.ids import SessionId, session_id
from fairlead.model.store import TRANSCRIPT, SessionFilter, SessionPage, Summary
from fairlead.model.web.routes import LogStream, Request, Route, Steps

NOT_FOUND: Final = "Conversation not found"
NO_TITLE: Final = "Title is required"
TITLE_LENGTH: Final = 200
"""Maximum characters of a given title; the core rejects longer ones when a session is renamed."""
LISTED: Final = 50
PAGE: Final = 1000
PATH: Final = "/api/conversations"
ONE: Final = f"{PATH}/{{conversation}}"


class TitleBody(msgspec.Struct, frozen=True):
    title: str = ""


class ConversationView(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation as shown in lists. `sdkSessionId` is the agent's own session id, once it has one."""

    id: str
    sessionId: str
    sdkSessionId: str | None
    title: str
    summary: str | None
    status: str
    totalCostUsd: float
    isMain: bool
    startedAt: str
    endedAt: str | None
    messageCount: int


class ConversationList(msgspec.Struct, frozen=True):
    data: tuple[ConversationView, ...]


class ConversationDetail(msgspec.Struct, frozen=True):
    data: ConversationView


def conversation_view(summary: Summary, counted: MessageCount) -> ConversationView:
    streaming = summary.state in ("working", "waiting")
    return ConversationView(
        id=summary.session,
        sessionId=summary.session,
        sdkSessionId=summary.agent_session or None,
        title=summary.title,
        summary=None,
        status="streaming" if streaming else counted.status,
        totalCostUsd=round(summary.cost_usd, 9),
        isMain=False,
        startedAt=iso_timestamp(summary.created),
        endedAt=None if streaming or not counted.messages else iso_timestamp(summary.updated),
        messageCount=counted.messages,
    )


def _session(request: Request) -> SessionId:
    """The conversation in the path. Raises BadId for a malformed id."""
    return session_id(request.params["conversation"])


def _gone(error: NotFound | BadId) -> bool:
    return error.data.get("what") == "session"


@with_errors
def list_conversations(request: Request) -> Steps:
    """The most recently started conversations; the store lists them in another order."""
    found: list[Summary] = []
    before = ""
    while True:
        page: SessionPage = yield q.ListSessions(SessionFilter(before=before, limit=PAGE))
        found = sorted((*found, *page.sessions), key=lambda one: (one.created, one.session), reverse=True)[:LISTED]
        before = page.next
        if not before:
            break
    conversations = []
    for summary in found:
        counted = yield from _counted(summary)
        if counted is not None:
            conversations.append(conversation_view(summary, counted))
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
    view: q.SessionView = yield q.GetSession(session)
    return conversation_view(view.summary, counted)


@with_errors
def get(request: Request) -> Steps:
    try:
        session = _session(request)
        one: ConversationView = yield from _one(session)
    except (NotFound, BadId) as error:
        return problem(404, NOT_FOUND if _gone(error) else error.message)
    renderer = MessageRenderer(session, msgspec.structs.asdict(one))
    return LogStream(session=session, renderer=renderer, content_type="application/json")


@with_errors
def create(request: Request) -> Steps:
    title = request.json(TitleBody).title.strip()
    if len(title) > TITLE_LENGTH:
        raise BadRequest(f"A title has at most {TITLE_LENGTH} characters.")
    reply: cmd.Reply = yield cmd.Create(session=session_id(request.fresh), title=title)
    return data((yield from _one(reply.session)))


@with_errors
def rename(request: Request) -> Steps:
    title = request.json(TitleBody).title.strip()
    if not title:
        raise BadRequest(NO_TITLE)
    try:
        session = _session(request)
        yield cmd.Rename(session=session, title=title)
        return data((yield from _one(session)))
    except (NotFound, BadId) as error:
        return problem(404, NOT_FOUND if _gone(error) else error.message)


@with_errors
def delete(request: Request) -> Steps:
    """Delete a conversation; one that does not exist counts as deleted."""
    with contextlib.suppress(NotFound, BadId):
        yield cmd.Delete(session=_session(request))
    return data({"success": True})


def _route(method: str, path: str, access: Any, name: str, handle: Any, about: str, **more: Any) -> Route:
    return Route(
        method=method,
        path=path,
        access=access,
        name=f"cognova.conversations.{name}",
        handle=handle,
        about=about,
        token_header=TOKEN_HEADER,
        **more,
    )


ROUTES: Final = (
    _route(
        "GET", PATH, "view", "list", list_conversations, f"The newest {LISTED} conversations.", answer=ConversationList
    ),
    _route(
        "POST",
        PATH,
        "chat",
        "create",
        create,
        "A conversation without a message.",
        body=TitleBody,
        answer=ConversationDetail,
    ),
    _route("GET", ONE, "view", "get", get, "A conversation with all its messages."),
    _route("PUT", ONE, "chat", "rename", rename, "Another title.", body=TitleBody, answer=ConversationDetail),
    _route("DELETE", ONE, "chat", "delete", delete, "Delete a conversation; one that is not there is no error."),
)
