"""REST for sessions: every handler turns a request into commands and queries, and their answers into a response."""

from typing import Any, Final

import msgspec

from fairlead.clients.native import schemas as b
from fairlead.clients.native.decode import check_key, content, message_id
from fairlead.clients.native.html import HtmlRenderer
from fairlead.clients.native.html_parts import POLICY
from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.agents import AgentInvitation, ShimInvitation
from fairlead.model.errors import BadRequest
from fairlead.model.ids import MessageId, SessionId, session_id
from fairlead.model.store import Entry, SessionFilter, SessionPage, event_line
from fairlead.model.web.requests import Response, do
from fairlead.model.web.routes import LogStream, Param, Request, Routes, Steps, json_response

routes = Routes()
PATH: Final = "/v1/sessions/{session}"
PAGE_LIMIT: Final = 1000
_LAST_SEQ: Final = 10**15
_BOOL: Final = ("true", "false")
_LIMIT = Param("limit", int, f"At most this many, up to {PAGE_LIMIT}.")


def idempotency_key(request: Request) -> str:
    return check_key(request.head.first("idempotency-key"))


def _choice(request: Request, name: str, options: tuple[str, ...], default: str) -> str:
    given = request.query.get(name, default)
    if given not in options:
        raise BadRequest(f"{name} must be {', '.join(options[:-1])} or {options[-1]}.", field=name)
    return given


@routes.post("/v1/sessions", "chat", "sessions.create", body=b.CreateSession, answer=cmd.Reply, status=201)
def create(request: Request) -> Steps:
    """Create a session, with an optional first message."""
    body = request.json(b.CreateSession)
    first_message = None if body.text is None and body.content is None else content(body.text, body.content)
    key = idempotency_key(request)
    made: cmd.Reply = yield cmd.Create(
        session=session_id(body.session or request.fresh),
        key=key,
        cwd=body.cwd,
        worktree=body.worktree,
        title=body.title,
        agent=body.agent,
        settings=body.settings,
        resume=body.resume,
        node=body.node,
    )
    if first_message is None:
        return json_response(made, 201)
    # The first message has a key of its own, so that a repeated call repeats neither command.
    first_key = f"{key}/first" if key else ""
    sent = yield from do(cmd.Send(session=made.session, key=first_key, content=first_message))
    return json_response(msgspec.structs.replace(sent, repeated=made.repeated and sent.repeated), 201)


@routes.get(
    "/v1/sessions",
    "view",
    "sessions.list",
    answer=SessionPage,
    query=(
        Param("q", str, "Words in the title or the first prompt."),
        Param("archived", str, "true, false (the default) or any."),
        Param("cwd", str, "Only sessions of this folder."),
        Param("state", str, "Only sessions in this state."),
        Param("transcripts", str, "false leaves out transcripts that were never opened here."),
        Param("before", str, "`next` of the previous page."),
        _LIMIT,
    ),
)
def list_sessions(request: Request) -> Steps:
    """Sessions, newest first, page by page."""
    archived = _choice(request, "archived", ("true", "false", "any"), "false")
    transcripts = _choice(request, "transcripts", _BOOL, "true")
    page = yield q.ListSessions(
        SessionFilter(
            words=request.query.get("q", ""),
            archived=None if archived == "any" else archived == "true",
            cwd=request.query.get("cwd", ""),
            state=request.query.get("state", ""),
            before=request.query.get("before", ""),
            limit=request.query_int("limit", 50, 1, PAGE_LIMIT),
            transcripts=transcripts == "true",
        )
    )
    return json_response(page)


@routes.get(PATH, "view", "sessions.get", answer=q.SessionView)
def get(request: Request) -> Steps:
    """One session in its current state, with the cursor to subscribe from."""
    return json_response((yield q.GetSession(request.session)))


@routes.patch(PATH, "chat", "sessions.patch", body=b.PatchSession, answer=cmd.Reply)
def patch(request: Request) -> Steps:
    """Rename or archive a session."""
    body = request.json(b.PatchSession)
    session = request.session
    if body.title is None and body.archived is None:
        raise BadRequest("The body must have title or archived.")
    reply: Any = None
    if body.title is not None:
        reply = yield cmd.Rename(session=session, title=body.title)
    if body.archived is not None:
        reply = yield cmd.ArchiveSession(session=session, archived=body.archived)
    return json_response(reply)


@routes.delete(
    PATH, "chat", "sessions.delete", answer=cmd.Reply, query=(Param("files", bool, "Delete the agent's own file too."),)
)
def delete(request: Request) -> Steps:
    """Delete the log. The agent's own file stays unless files=true, which needs the scope admin."""
    files = _choice(request, "files", _BOOL, "false") == "true"
    return json_response((yield cmd.Delete(session=request.session, files=files)))


@routes.post(f"{PATH}/fork", "chat", "sessions.fork", body=b.ForkSession, answer=cmd.Reply, status=201)
def fork(request: Request) -> Steps:
    """Create a session that continues from here, or from the turn of a message."""
    body = request.json(b.ForkSession)
    at = None if body.at is None else MessageId(body.at)
    child = session_id(body.child or request.fresh)
    reply = yield cmd.Fork(session=request.session, key=idempotency_key(request), child=child, at=at, title=body.title)
    return json_response(reply, 201)


@routes.post(f"{PATH}/interrupt", "chat", "sessions.interrupt", answer=cmd.Reply)
def interrupt(request: Request) -> Steps:
    """Stop the running turn."""
    return json_response((yield cmd.Interrupt(session=request.session, key=idempotency_key(request))))


@routes.post(f"{PATH}/share", "chat", "sessions.share", body=b.ShareBody, answer=cmd.Reply)
def share(request: Request) -> Steps:
    """Share the session with a user or with everybody, or stop sharing it. Only its owner or an admin may do this."""
    body = request.json(b.ShareBody)
    command = cmd.ShareSession(session=request.session, user=body.user, everybody=body.everybody, remove=body.remove)
    return json_response((yield command))


@routes.post(f"{PATH}/close", "chat", "sessions.close", answer=cmd.Reply)
def close(request: Request) -> Steps:
    """Stop the agent's process. The next message resumes the session."""
    return json_response((yield cmd.Close(session=request.session)))


@routes.post(f"{PATH}/rewind", "chat", "sessions.rewind", body=b.RewindSession, answer=cmd.Reply)
def rewind(request: Request) -> Steps:
    """Restore files to their state before a message."""
    body = request.json(b.RewindSession)
    reply = yield cmd.Rewind(session=request.session, message=MessageId(body.message), dry_run=body.dry_run)
    return json_response(reply)


@routes.post(f"{PATH}/control", "admin", "sessions.control", body=b.ControlAgent, answer=cmd.Reply)
def control(request: Request) -> Steps:
    """Send a request of the agent's own control protocol."""
    body = request.json(b.ControlAgent)
    return json_response((yield cmd.Control(session=request.session, subtype=body.subtype, fields=body.fields)))


@routes.post(f"{PATH}/dial-in", "admin", "sessions.dial-in", answer=AgentInvitation)
def dial_in(request: Request) -> Steps:
    """Expect an agent that a person starts. The answer has the command, with a token that is shown only once."""
    reply = yield from do(cmd.DialIn(session=request.session))
    return json_response(reply.data)


@routes.post(f"{PATH}/shim", "admin", "sessions.shim", body=b.LendProcess, answer=ShimInvitation)
def attach_shim(request: Request) -> Steps:
    """Expect a shim that lends its process to the session. The answer has a token that is shown only once."""
    body = request.json(b.LendProcess)
    command = cmd.AttachShim(
        session=request.session,
        version=body.version,
        agent_session=body.agent_session,
        pid=body.pid,
        started=body.started,
    )
    reply = yield from do(command)
    return json_response(reply.data)


@routes.post(f"{PATH}/hand-over", "chat", "sessions.hand-over", body=b.HandOverSession, answer=cmd.Reply)
def hand_over(request: Request) -> Steps:
    """Continue over another link, with the history, now or when the turn is over."""
    body = request.json(b.HandOverSession)
    key = idempotency_key(request)
    reply = yield cmd.StartHandover(session=request.session, key=key, link=body.link, when=body.when, wait=body.wait)
    return json_response(reply)


@routes.delete(f"{PATH}/hand-over", "chat", "sessions.hand-over.withdraw", answer=cmd.Reply)
def withdraw_hand_over(request: Request) -> Steps:
    """Withdraw a pending hand-over."""
    return json_response((yield cmd.WithdrawHandover(session=request.session, key=idempotency_key(request))))


@routes.post(f"{PATH}/environment", "admin", "sessions.environment", body=b.SetEnvironment, answer=cmd.Reply)
def environment(request: Request) -> Steps:
    """Set environment variables of the running agent. The setting session_env lists the allowed names."""
    body = request.json(b.SetEnvironment)
    return json_response((yield cmd.SetVariables(session=request.session, variables=body.variables)))


@routes.patch(f"{PATH}/settings", "chat", "sessions.settings", body=b.PatchSettings, answer=cmd.Reply)
def settings(request: Request) -> Steps:
    """Change settings; mode needs the scope approve, mcp_servers needs admin.

    The three settings that a running agent accepts have their own commands; the others need a restart."""
    body = request.json(b.PatchSettings)
    session = request.session
    changes = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not msgspec.UNSET}
    if not changes:
        raise BadRequest("The body must have at least one setting, such as mode or model.")
    reply: Any = None
    if "mode" in changes:
        reply = yield cmd.SetMode(session=session, mode=changes.pop("mode"))
    if "model" in changes:
        reply = yield cmd.SetModel(session=session, model=changes.pop("model"))
    if "thinking" in changes:
        reply = yield cmd.SetThinking(session=session, budget=changes.pop("thinking"))
    if changes:
        view = yield from do(q.GetSession(session))
        now = msgspec.convert(view.settings, cmd.Settings)
        reply = yield cmd.Configure(session=session, settings=msgspec.structs.replace(now, **changes))
    return json_response(reply)


@routes.get(
    f"{PATH}/messages",
    "view",
    "messages.list",
    answer=q.EventPage,
    query=(Param("before", int, "`next` of the previous page."), _LIMIT),
)
def messages(request: Request) -> Steps:
    """Messages, page by page from the end."""
    before = request.query_int("before", 0, 1, _LAST_SEQ) or None
    limit = request.query_int("limit", 100, 1, PAGE_LIMIT)
    return json_response((yield q.ReadMessages(request.session, before, limit)))


@routes.post(f"{PATH}/messages", "chat", "messages.post", body=b.PostMessage, answer=cmd.Reply)
def post_message(request: Request) -> Steps:
    """Send a prompt, or steer the running turn."""
    body = request.json(b.PostMessage)
    blocks = content(body.text, body.content)
    kind: type[cmd.Send | cmd.Steer] = cmd.Steer if body.steer else cmd.Send
    reply = yield kind(
        session=request.session, key=idempotency_key(request), content=blocks, message=message_id(body.id)
    )
    return json_response(reply)


@routes.get(
    f"{PATH}/events",
    "view",
    "events.list",
    answer=q.EventPage,
    query=(
        Param("after", int, "The last known seq; 0 for the beginning."),
        _LIMIT,
        Param("format", str, "json (the default) or jsonl: one event per line, the position in headers."),
    ),
)
def events(request: Request) -> Steps:
    """The log forward from a seq, deltas included."""
    form = _choice(request, "format", ("json", "jsonl"), "json")
    after = request.query_int("after", 0, 0, _LAST_SEQ)
    limit = request.query_int("limit", 500, 1, PAGE_LIMIT)
    page = yield from do(q.ReadEvents(request.session, after, limit))
    if form == "json":
        return json_response(page)
    place = (("fairlead-log-id", page.log_id), ("fairlead-head", str(page.head)))
    following = () if page.next is None else (("fairlead-next", str(page.next)),)
    lines = b"".join(bytes(line) + b"\n" for line in page.events)
    return Response(body=lines, content_type="application/x-ndjson", headers=(*place, *following))


class JsonlRenderer:
    """The log as lines: the stored events, one per line, each with its seq and session in front."""

    def __init__(self, session: SessionId) -> None:
        self._session = session

    def begin(self) -> bytes:
        return b""

    def entry(self, entry: Entry) -> bytes:
        return event_line(self._session, entry) + b"\n"

    def end(self) -> bytes:
        return b""


@routes.get(
    f"{PATH}/export",
    "view",
    "sessions.export",
    query=(Param("format", str, "jsonl (the default) or html."),),
    signed=True,
)
def export(request: Request) -> Steps:
    """The whole log: one event per line, or one HTML file to read."""
    session = request.session
    view = yield from do(q.GetSession(session))
    form = _choice(request, "format", ("jsonl", "html"), "jsonl")
    file = ("content-disposition", f'attachment; filename="{session}.{form}"')
    if form == "jsonl":
        renderer = JsonlRenderer(session)
        return LogStream(session=session, renderer=renderer, content_type="application/x-ndjson", headers=(file,))
    # The page contains the same policy, for when it is saved to a file; the sandbox applies while we serve it.
    fence = ("content-security-policy", f"{POLICY}; frame-ancestors 'none'; sandbox")
    page, kind = HtmlRenderer(view.summary), "text/html; charset=utf-8"
    return LogStream(session=session, renderer=page, content_type=kind, headers=(file, fence))
