"""REST for the message queue, permissions, usage and search."""

from typing import Final

from fairlead.clients.native import schemas as b
from fairlead.clients.native.sessions import PATH, idempotency_key, session_of
from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.errors import BadRequest
from fairlead.model.ids import MessageId, RequestId, session_id
from fairlead.model.web.routes import Param, Request, Route, Steps, json_response


def queue(request: Request) -> Steps:
    return json_response(b.Queue((yield q.ReadQueue(session_of(request)))))


def move(request: Request) -> Steps:
    body = request.json(b.MoveQueued)
    if body.position < 0:
        raise BadRequest("position counts from 0.", field="position")
    message = MessageId(request.params["message"])
    return json_response((yield cmd.MoveMessage(session=session_of(request), message=message, position=body.position)))


def cancel(request: Request) -> Steps:
    message = MessageId(request.params["message"])
    return json_response((yield cmd.CancelMessage(session=session_of(request), message=message)))


def permissions(request: Request) -> Steps:
    session = session_of(request) if "session" in request.params else None
    return json_response(b.Permissions((yield q.ListPermissions(session))))


def explain(request: Request) -> Steps:
    admin = request.who.may("admin")
    return json_response((yield q.ExplainPermission(request.params["request"], request.query.get("rule", ""), admin)))


def answer(request: Request) -> Steps:
    body = request.json(b.AnswerBody)
    found: q.PendingView = yield q.FindPermission(request.params["request"])
    reply = yield cmd.AnswerPermission(
        session=found.session,
        key=idempotency_key(request),
        request=RequestId(request.params["request"]),
        behavior=body.behavior,
        message=body.message,
        updated_input=body.updated_input,
        remember=body.remember,
        answers=body.answers,
        interrupt=body.interrupt,
    )
    return json_response(reply)


def usage(request: Request) -> Steps:
    session = session_of(request) if "session" in request.params else None
    return json_response((yield q.ReadUsage(session)))


def search(request: Request) -> Steps:
    words = request.query.get("q", "").strip()
    if not words:
        raise BadRequest("q must have the words to look for.", field="q")
    session = request.query.get("session")
    hits = yield q.SearchText(words, request.query_int("limit", 20, 1, 200), session_id(session) if session else None)
    return json_response(b.Hits(hits))


ROUTES: Final = (
    Route(
        method="GET",
        path=f"{PATH}/queue",
        access="view",
        name="queue.list",
        handle=queue,
        about="Messages that wait for their turn.",
        answer=b.Queue,
    ),
    Route(
        method="PATCH",
        path=f"{PATH}/queue/{{message}}",
        access="chat",
        name="queue.move",
        handle=move,
        about="Move a waiting message.",
        body=b.MoveQueued,
        answer=cmd.Reply,
    ),
    Route(
        method="DELETE",
        path=f"{PATH}/queue/{{message}}",
        access="chat",
        name="queue.cancel",
        handle=cancel,
        about="Take a waiting message back.",
        answer=cmd.Reply,
    ),
    Route(
        method="GET",
        path=f"{PATH}/permissions",
        access="view",
        name="permissions.of_session",
        handle=permissions,
        about="What this session asks a person.",
        answer=b.Permissions,
    ),
    Route(
        method="GET",
        path="/v1/permissions",
        access="view",
        name="permissions.list",
        handle=permissions,
        about="What all sessions ask a person.",
        answer=b.Permissions,
    ),
    Route(
        method="GET",
        path="/v1/permissions/{request}",
        access="view",
        name="permissions.explain",
        handle=explain,
        about="What a request would do: commands, files before and after; and what a rule would allow from then on.",
        answer=q.PermissionReport,
        query=(Param("rule", str, "A rule to be looked at before it is remembered."),),
    ),
    Route(
        method="POST",
        path="/v1/permissions/{request}",
        access="approve",
        name="permissions.answer",
        handle=answer,
        about="Answer a permission, a question or a plan. The first answer wins.",
        body=b.AnswerBody,
        answer=cmd.Reply,
    ),
    Route(
        method="GET",
        path=f"{PATH}/usage",
        access="view",
        name="usage.of_session",
        handle=usage,
        about="Turns, tokens and cost of one session.",
        answer=q.UsageView,
    ),
    Route(
        method="GET",
        path="/v1/usage",
        access="view",
        name="usage.all",
        handle=usage,
        about="Turns, tokens and cost of all sessions.",
        answer=q.UsageView,
    ),
    Route(
        method="GET",
        path="/v1/search",
        access="view",
        name="search",
        handle=search,
        about="Full text over what was said.",
        answer=b.Hits,
        query=(
            Param("q", str, "The words.", required=True),
            Param("limit", int, "At most so many, up to 200."),
            Param("session", str, "Only in this session."),
        ),
    ),
)
