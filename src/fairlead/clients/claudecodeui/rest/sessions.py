"""REST for sessions: create, find by either id, list, rename, archive and restore. Pure.

All data comes from the index of sessions: no list reads a transcript.
"""

from typing import Any, Final

import msgspec

from fairlead.clients.claudecodeui.chat.frames import token_budget
from fairlead.clients.claudecodeui.chat.history import NAME, read_memory
from fairlead.clients.claudecodeui.rest.history_pages import PREVIEW_ROWS, last_context_tokens
from fairlead.clients.claudecodeui.rest.project_fields import PROVIDER, UNTITLED, Fields, project_fields, session_fields
from fairlead.clients.claudecodeui.rest.responses import SMALL, body_text, bounds, ok, refused
from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model import queries as q
from fairlead.model.errors import NotFound
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.ids import session_id
from fairlead.model.store import Summary
from fairlead.model.web.requests import do
from fairlead.model.web.routes import Request, Routes, Steps, json_response

PATH: Final = "/api/providers/sessions"
ONE: Final = f"{PATH}/{{session}}"
WORDS: Final = 4
"""Number of words of the first message that form a new session's title."""
TITLE: Final = 200
"""Maximum characters of a title; the core rejects longer ones."""
RECENT: Final = 40
MOST: Final = 200

ROUTES: Final = Routes("claudecodeui.")


class NewSession(msgspec.Struct, frozen=True):
    provider: str = ""
    projectPath: str = ""
    initialMessage: str = ""


def title_of(message: str) -> str:
    return " ".join(message.split()[:WORDS])[:TITLE]


@ROUTES.post(PATH, "chat", "sessions.create")
def create(request: Request) -> Steps:
    body = request.json(NewSession)
    if body.provider != PROVIDER:
        return refused(400, "UNSUPPORTED_PROVIDER", f'Provider "{body.provider[:40]}" is not supported.')
    if not body.projectPath.strip():
        return refused(400, "PROJECT_PATH_REQUIRED", "projectPath is required.")
    title = title_of(body.initialMessage)
    reply = yield from do(cmd.Create(session=session_id(request.fresh), cwd=body.projectPath.strip(), title=title))
    view = yield from do(q.GetSession(reply.session))
    fields = {"sessionId": reply.session, "provider": PROVIDER, "projectPath": view.summary.cwd}
    return ok({**fields, "sessionName": title or UNTITLED}, 201)


@ROUTES.get(ONE, "view", "sessions.get")
def details(request: Request) -> Steps:
    view = yield from do(q.GetSession(request.session))
    summary = view.summary
    project = {**project_fields(summary.cwd), "isArchived": False} if summary.cwd else None
    return ok({**session_json(summary), "createdAt": iso_timestamp(summary.created), "project": project})


@ROUTES.get(f"{PATH}/running", "view", "sessions.running")
def running(request: Request) -> Steps:
    found: list[Summary] = []
    for state in ("working", "waiting"):
        found += yield from q.every_session(state=state, archived=None)
    sessions = []
    for summary in found:
        try:
            if not (yield q.WaitLoaded(summary.session, wait=False)):
                continue  # its transcript is still loading: the run there is an old one
            run = yield from _run(summary)
        except NotFound:
            continue  # deleted in the meantime
        sessions.append({"sessionId": summary.session, "provider": PROVIDER, **run})
    return ok({"sessions": sessions})


def _run(summary: Summary) -> Any:
    """Steps: the start of the current run, and the number of its last frame."""
    memory = read_memory((yield q.ReadProjection(summary.session, NAME)))
    first = yield from do(q.ReadEvents(summary.session, after=memory.run, limit=1))
    began = ev.decode(bytes(first.events[0])).at if first.events else summary.updated
    return {"startedAt": began, "lastSeq": memory.last}


@ROUTES.get(f"{PATH}/recent", "view", "sessions.recent")
def recent(request: Request) -> Steps:
    limit, offset = bounds(request, RECENT, MOST)
    found: list[Summary] = yield from q.every_session()
    page = found[offset : offset + limit]
    more = offset + limit < len(found)
    return ok({"conversations": [session_json(one) for one in page], "total": len(found), "hasMore": more})


@ROUTES.get(f"{PATH}/archived", "view", "sessions.archived")
def archived(request: Request) -> Steps:
    found: list[Summary] = yield from q.every_session(archived=True)
    return ok({"sessions": [session_json(one) for one in found]})


def session_json(summary: Summary) -> Fields:
    own = session_fields(summary)
    project = project_fields(summary.cwd) if summary.cwd else {}
    return {
        "sessionId": summary.session,
        "provider": PROVIDER,
        "summary": own["summary"],
        "sessionTitle": own["summary"],
        "lastActivity": own["lastActivity"],
        "isArchived": summary.archived,
        "projectId": project.get("projectId"),
        "projectPath": summary.cwd or None,
        "projectDisplayName": project.get("displayName", ""),
        "isProjectArchived": False,
    }


@ROUTES.get(f"{ONE}/provider-id", "view", "sessions.provider_id")
def provider_id(request: Request) -> Steps:
    """The agent's own session id: the only call whose purpose is that id."""
    view = yield from do(q.GetSession(request.session))
    native = view.summary.agent_session
    if not native:
        return refused(409, "PROVIDER_SESSION_NOT_READY", "The agent has not begun this session yet: send a message.")
    return ok({"sessionId": native, "provider": PROVIDER})


@ROUTES.get(f"{ONE}/token-usage", "view", "sessions.token_usage")
def token_usage(request: Request) -> Steps:
    return ok((yield from _tokens(request)))


@ROUTES.get("/api/projects/{project}/sessions/{session}/token-usage", "view", "sessions.token_usage.1_36")
def token_usage_1_36(request: Request) -> Steps:
    return json_response((yield from _tokens(request)))


def _tokens(request: Request) -> Any:
    """Steps: the content of the chat's last `token_budget`."""
    session = request.session
    if (yield q.WaitLoaded(session, wait=False)):
        tokens = read_memory((yield q.ReadProjection(session, NAME))).tokens
    else:
        # Its long transcript is still loading: the end of the file has the same numbers.
        tokens = last_context_tokens((yield q.PreviewTranscript(session, PREVIEW_ROWS)))
    return token_budget(tokens or ev.TokenCount())


@ROUTES.put(ONE, "chat", "sessions.rename", body_limit=SMALL)
def rename(request: Request) -> Steps:
    title = body_text(request, "summary").strip()
    if not title or len(title) > TITLE:
        return refused(400, "INVALID_SUMMARY", f"summary has 1 to {TITLE} characters.")
    reply = yield from do(cmd.Rename(session=request.session, title=title))
    view = yield from do(q.GetSession(reply.session))
    return ok({"sessionId": reply.session, "summary": view.summary.title})


@ROUTES.delete(ONE, "chat", "sessions.delete")
def delete(request: Request) -> Steps:
    """Archive a session, or delete it permanently with `force`. The agent's own file stays in either case."""
    force = request.query.get("force", "").lower() in ("1", "true", "yes")
    command = cmd.Delete if force else cmd.ArchiveSession
    reply: cmd.Reply = yield command(session=request.session)
    return ok({"sessionId": reply.session, "action": "deleted" if force else "archived"})


@ROUTES.post(f"{ONE}/restore", "chat", "sessions.restore", body_limit=SMALL)
def restore(request: Request) -> Steps:
    reply = yield from do(cmd.ArchiveSession(session=request.session, archived=False))
    return ok({"sessionId": reply.session, "isArchived": False})
