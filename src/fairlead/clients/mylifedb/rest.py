"""MyLifeDB's REST API under /api/claude: every handler turns a request into commands and queries.

Errors are `{"error": text}`. When this gateway rejects a request that the original would accept (a folder outside the
roots, a mode that is not allowed), the client gets the rejection's status and reason.
"""

import re
from collections.abc import Callable, Generator, Mapping
from functools import wraps
from typing import Any, Final, Literal, TypeVar

import msgspec

from fairlead.clients.mylifedb import counting
from fairlead.clients.mylifedb.counting import read_counted
from fairlead.clients.mylifedb.fold import NAME, read_memory
from fairlead.clients.mylifedb.kinds import has_kind, read_version
from fairlead.clients.mylifedb.strip_payloads import stripped
from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.content import TextBlock
from fairlead.model.errors import BadId, BadRequest, FairleadError, NotFound, TooLarge
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.ids import SessionId, is_uuid, session_id
from fairlead.model.store import TRANSCRIPT, SessionPage, Summary
from fairlead.model.web.requests import Step, do
from fairlead.model.web.routes import Handler, Request, Routes, Steps, json_response
from fairlead.sessions.api.read_state import GetReadState, TurnsRead

T = TypeVar("T")

routes = Routes("mylifedb.")
SESSION_GONE: Final = "Session not found"
BAD_BODY: Final = "Invalid request body"
PREFIX: Final = "/api/claude/sessions"
ONE: Final = f"{PREFIX}/{{session}}"
LIMIT: Final = 20
MOST: Final = 100
TITLE_LENGTH: Final = 120
HISTORY_ROWS: Final = 500
HISTORY_BYTES: Final = 32 << 20
"""The maximum size of a history in one response."""
_ASIDE: Final = re.compile(r"<(ide_[a-z_]+|system-reminder)>.*?(</\1>|\Z)", re.DOTALL)
"""Editor context (selected text, open files) and reminders: sent to the model with a prompt, but not part of it."""


class NewSession(msgspec.Struct, frozen=True):
    workingDir: str = ""
    title: str = ""
    resumeSessionId: str = ""
    permissionMode: str = ""
    mode: Literal["ui", "cli"] = "ui"


class TitleBody(msgspec.Struct, frozen=True):
    title: str


class MessageBody(msgspec.Struct, frozen=True):
    content: str


class _InvalidBody(BadRequest):
    """Like the original, the response gives no details."""


def with_error_text(failed: str) -> Callable[[Handler], Handler]:
    """Convert errors to the original's responses; `failed` is its text for errors without a specific one."""

    def decorate(handler: Handler) -> Handler:
        @wraps(handler)
        def run(request: Request) -> Steps:
            try:
                return (yield from handler(request))
            except (NotFound, BadId) as error:
                if error.data.get("what") == "session":
                    return json_response({"error": SESSION_GONE}, 404)
                return json_response({"error": f"{failed}: {error.message}"}, error.status)
            except BadRequest as error:
                text = BAD_BODY if isinstance(error, _InvalidBody) else f"{BAD_BODY}: {error.message}"
                return json_response({"error": text}, 400)
            except FairleadError as error:
                return json_response({"error": f"{failed}: {error.message}"}, error.status)

        return run

    return decorate


def _body(request: Request, kind: type[T]) -> T:
    try:
        return request.json(kind)
    except BadRequest as error:
        raise _InvalidBody(error.message) from None


# --- sessions as JSON


def title_of(summary: Summary, number: int = 0) -> str:
    """Return the title that a person or the agent gave, else the first prompt, without the context that an editor put
    before it. A session without messages gets a title with its `number`."""
    text = summary.first_prompt if summary.first_prompt.startswith(summary.title) else summary.title
    first = next((line for line in _ASIDE.sub("", text).splitlines() if line.strip()), "").strip()
    if not first:
        return f"Session {number}" if number else "Untitled"
    return first if len(first) <= TITLE_LENGTH else first[:TITLE_LENGTH] + "…"


def session_state(summary: Summary, read: TurnsRead) -> str:
    """Return the session's state for this user. If the user has it open on a socket, nothing in it is unread."""
    seen = summary.session in read.watched
    if summary.archived:
        return "archived"
    if summary.pending and not seen:
        return "unread"
    if summary.state in ("working", "waiting"):
        return "working"
    return "unread" if not seen and summary.turns > read.turns.get(summary.session, 0) else "idle"


def session_numbers() -> Generator[q.ListSessions, SessionPage, dict[str, int]]:
    """Steps: number the sessions that were opened on this gateway from 1, in order of creation."""
    found: list[Summary] = yield from q.every_session(transcripts=False, archived=None)
    found.sort(key=lambda summary: (summary.created, summary.session))
    return {summary.session: number for number, summary in enumerate(found, 1)}


def session_json(summary: Summary, number: int = 0) -> dict[str, Any]:
    return {
        "id": summary.session,
        "workingDir": summary.cwd,
        "createdAt": iso_timestamp(summary.created),
        "lastActivity": iso_timestamp(summary.updated),
        "lastUserActivity": iso_timestamp(summary.updated),
        "status": "archived" if summary.archived else "active",
        "title": title_of(summary, number),
        "permissionMode": summary.mode or "default",
    }


def list_item(summary: Summary, state: str, messages: int) -> dict[str, Any]:
    """Build a list item. `isActive` and `status` are for the older page, which shows every session that is not running
    as archived."""
    active = not summary.archived and summary.state in ("working", "waiting")
    return {
        "id": summary.session,
        "title": title_of(summary),
        "workingDir": summary.cwd,
        "createdAt": summary.created,
        "lastActivity": summary.updated,
        "lastUserActivity": summary.updated,
        "messageCount": messages,
        "isSidechain": False,
        "sessionState": state,
        "isActive": active,
        "status": "active" if active else "archived",
        "permissionMode": summary.mode or "default",
    }


# --- lists


@routes.get(PREFIX, "view", "list")
@with_error_text("Failed to list sessions")
def sessions(request: Request) -> Steps:
    found: list[Summary] = yield from q.every_session(transcripts=False)
    numbers = (yield from session_numbers()) if any(not summary.title for summary in found) else {}
    return json_response({"sessions": [session_json(one, numbers.get(one.session, 0)) for one in found]})


@routes.get(f"{PREFIX}/all", "view", "all")
@with_error_text("Failed to list sessions")
def all_sessions(request: Request) -> Steps:
    """List all sessions with their state, page by page."""
    archived = {"active": False, "archived": True}.get(request.query.get("status", "all"))
    found: list[Summary] = yield from q.every_session(archived=archived)
    worth = [summary for summary in found if summary.turns or summary.first_prompt or summary.state == "working"]
    limit = _limit(request.query.get("limit", ""))
    after = _after(worth, request.query.get("cursor", ""))
    page, rest = worth[after : after + limit], worth[after + limit :]
    read = yield from do(GetReadState(tuple(summary.session for summary in page)))
    items = []
    for summary in page:
        items.append(list_item(summary, session_state(summary, read), (yield from _messages(summary))))
    following = f"{page[-1].updated}_{page[-1].session}" if rest else ""
    pagination = {"hasMore": bool(rest), "nextCursor": following, "totalCount": len(worth)}
    return json_response({"sessions": items, "pagination": pagination})


def _messages(summary: Summary) -> Generator[q.ReadProjection, bytes, int]:
    """Count a session's messages. For a transcript that was never opened only the number of prompts is known, and only
    if it is short enough to be scanned completely."""
    if summary.state == TRANSCRIPT:
        return summary.turns
    return read_counted((yield q.ReadProjection(summary.session, counting.NAME))).messages


def _limit(text: str) -> int:
    given = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    return min(given, MOST) or LIMIT


def _after(found: list[Summary], cursor: str) -> int:
    """Return how many sessions come before the cursor's position; an invalid cursor means the start."""
    at, _, session = cursor.partition("_")
    if not at.isascii() or not at.isdigit() or len(at) > 18 or not session:
        return 0
    return sum((summary.updated, summary.session) >= (int(at), session) for summary in found)


# --- one session


@routes.post(PREFIX, "chat", "create")
@with_error_text("Failed to create session")
def create(request: Request) -> Steps:
    body = _body(request, NewSession)
    known = session_id(body.resumeSessionId) if is_uuid(body.resumeSessionId.lower()) else None
    if known is not None:
        try:
            return json_response((yield from _find_session(known)))
        except NotFound:
            pass  # the agent may know the session: it is tried with the first message
    settings = cmd.Settings(mode=body.permissionMode or "default", link="terminal" if body.mode == "cli" else "stdio")
    reply: cmd.Reply = yield cmd.Create(
        session=session_id(request.fresh),
        cwd=body.workingDir,
        title=body.title or ("Resumed Session" if body.resumeSessionId else ""),
        settings=settings,
        resume=body.resumeSessionId,
    )
    return json_response((yield from _find_session(reply.session)))


def _find_session(session: SessionId) -> Generator[Step, Any, dict[str, Any]]:
    view = yield from do(q.GetSession(session))
    return (yield from _numbered(view.summary))


def _numbered(summary: Summary) -> Generator[Step, Any, dict[str, Any]]:
    number = 0 if summary.title else (yield from session_numbers()).get(summary.session, 0)
    return session_json(summary, number)


@routes.get(ONE, "view", "get")
@with_error_text("Failed to get session")
def get(request: Request) -> Steps:
    view = yield from do(q.GetSession(request.session))
    read = yield from do(GetReadState((view.summary.session,)))
    return json_response({**(yield from _numbered(view.summary)), "sessionState": session_state(view.summary, read)})


def perform(verb: str, step: Callable[[Request], Step]) -> Handler:
    """A handler that performs one step and answers with its success."""

    @with_error_text(f"Failed to {verb} session")
    def handle(request: Request) -> Steps:
        yield step(request)
        return json_response({"success": True})

    return handle


routes.patch(ONE, "chat", "patch")(
    perform("update", lambda request: cmd.Rename(session=request.session, title=_body(request, TitleBody).title))
)
routes.delete(ONE, "chat", "delete")(perform("delete", lambda request: cmd.Delete(session=request.session)))
_CHANGES: Final[Mapping[str, Callable[[Request], Step]]] = {
    "deactivate": lambda request: cmd.Close(session=request.session),
    "archive": lambda request: cmd.ArchiveSession(session=request.session),
    "unarchive": lambda request: cmd.ArchiveSession(session=request.session, archived=False),
}
for _verb, _command in _CHANGES.items():
    routes.post(f"{ONE}/{_verb}", "chat", _verb)(perform(_verb, _command))


# --- messages


@routes.get(f"{ONE}/messages", "view", "messages")
@with_error_text("Failed to read messages")
def messages(request: Request) -> Steps:
    """One page of the records, counted from 0."""
    session, version = request.session, read_version(request.query.get("records", ""))
    text = request.query.get("page")
    if text is None:
        return json_response({"error": "page parameter is required"}, 400)
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        return json_response({"error": "invalid page parameter"}, 400)
    yield q.WaitLoaded(session)
    memory = read_memory((yield q.ReadProjection(session, NAME)))
    page, pages = int(text), memory.pages
    stretch = pages.ordinal_range(page)
    if stretch is None:
        return json_response({"error": "page out of range"}, 404)
    after, last = stretch
    found: list[msgspec.Raw] = []
    while after < last:
        rows = yield from do(q.ReadRows(session, NAME, after=after, limit=last - after))
        found.extend(msgspec.Raw(stripped(row.data)) for row in rows.rows if has_kind(version, row.data))
        if not rows.rows:
            break
        after = rows.rows[-1].ordinal
    sealed = page < len(pages.sealed)
    if not sealed:
        found.extend(msgspec.Raw(frame) for frame in memory.stream.frames())
    answer = {"sessionId": session, "page": page, "totalPages": pages.total, "messages": found, "sealed": sealed}
    return json_response(answer)


@routes.get(f"{ONE}/history", "view", "history")
@with_error_text("Failed to read session history")
def history(request: Request) -> Steps:
    """All records at once, as in MyLifeDB's first version. Longer histories need the pages or the socket."""
    session, version = request.session, read_version(request.query.get("records", ""))
    yield q.WaitLoaded(session)
    found: list[msgspec.Raw] = []
    size = after = 0
    while True:
        rows = yield from do(q.ReadRows(session, NAME, after=after, limit=HISTORY_ROWS))
        if not rows.rows:
            return json_response({"sessionId": session, "messages": found})
        found.extend(msgspec.Raw(row.data) for row in rows.rows if has_kind(version, row.data))
        size += sum(len(row.data) for row in rows.rows)
        if size > HISTORY_BYTES:
            raise TooLarge("history", size, HISTORY_BYTES)
        after = rows.rows[-1].ordinal


@routes.post(f"{ONE}/messages", "chat", "send")
@with_error_text("Failed to send message")
def post_message(request: Request) -> Steps:
    session = request.session
    body = _body(request, MessageBody)
    if not body.content:
        raise _InvalidBody("content is empty")
    yield cmd.Send(session=session, content=(TextBlock(body.content),))
    return json_response({"sessionId": session, "status": "sent"})
