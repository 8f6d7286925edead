"""REST for the message queue, permissions, agents, usage and search."""

from fairlead.clients.native import schemas as b
from fairlead.clients.native.sessions import PATH, idempotency_key
from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.errors import BadRequest
from fairlead.model.ids import MessageId, RequestId, session_id
from fairlead.model.web.routes import Param, Request, Routes, Steps, json_response

routes = Routes()


@routes.get(f"{PATH}/queue", "view", "queue.list", answer=b.Queue)
def queue(request: Request) -> Steps:
    """Messages that wait for their turn."""
    return json_response(b.Queue((yield q.ReadQueue(request.session))))


@routes.patch(f"{PATH}/queue/{{message}}", "chat", "queue.move", body=b.MoveQueued, answer=cmd.Reply)
def move(request: Request) -> Steps:
    """Move a waiting message."""
    body = request.json(b.MoveQueued)
    if body.position < 0:
        raise BadRequest("position counts from 0.", field="position")
    message = MessageId(request.params["message"])
    return json_response((yield cmd.MoveMessage(session=request.session, message=message, position=body.position)))


@routes.delete(f"{PATH}/queue/{{message}}", "chat", "queue.cancel", answer=cmd.Reply)
def cancel(request: Request) -> Steps:
    """Cancel a waiting message."""
    message = MessageId(request.params["message"])
    return json_response((yield cmd.CancelMessage(session=request.session, message=message)))


@routes.get(
    "/v1/permissions",
    "view",
    "permissions.list",
    about="Open permission requests of all sessions.",
    answer=b.Permissions,
)
@routes.get(
    f"{PATH}/permissions",
    "view",
    "permissions.of_session",
    about="Open permission requests of this session.",
    answer=b.Permissions,
)
def permissions(request: Request) -> Steps:
    session = request.session if "session" in request.params else None
    return json_response(b.Permissions((yield q.ListPermissions(session))))


@routes.get(
    "/v1/permissions/{request}",
    "view",
    "permissions.explain",
    answer=q.PermissionReport,
    query=(Param("rule", str, "A rule to check before it is remembered."),),
)
def explain(request: Request) -> Steps:
    """What a request would do (commands, files before and after), and what a rule would allow from then on."""
    admin = request.who.may("admin")
    return json_response((yield q.ExplainPermission(request.params["request"], request.query.get("rule", ""), admin)))


@routes.post("/v1/permissions/{request}", "approve", "permissions.answer", body=b.AnswerBody, answer=cmd.Reply)
def answer(request: Request) -> Steps:
    """Answer a permission, a question or a plan. The first answer wins."""
    body = request.json(b.AnswerBody)
    reply = yield cmd.AnswerPermission(
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


@routes.get("/v1/agents", "view", "agents.list", answer=b.AgentList)
def agents(request: Request) -> Steps:
    """The agents that sessions can run."""
    return json_response(b.AgentList((yield q.ListAgents())))


@routes.get("/v1/usage", "view", "usage.all", about="Turns, tokens and cost of all sessions.", answer=q.UsageView)
@routes.get(
    f"{PATH}/usage", "view", "usage.of_session", about="Turns, tokens and cost of one session.", answer=q.UsageView
)
def usage(request: Request) -> Steps:
    session = request.session if "session" in request.params else None
    return json_response((yield q.ReadUsage(session)))


@routes.get(
    "/v1/search",
    "view",
    "search",
    answer=b.Hits,
    query=(
        Param("q", str, "The words to find.", required=True),
        Param("limit", int, "At most this many, up to 200."),
        Param("session", str, "Only in this session."),
    ),
)
def search(request: Request) -> Steps:
    """Search the messages of all sessions, also of those that only the agent's own files have."""
    words = request.query.get("q", "").strip()
    if not words:
        raise BadRequest("q must contain the words to find.", field="q")
    session = request.query.get("session")
    limit, within = request.query_int("limit", 20, 1, 200), session_id(session) if session else None
    found = yield q.SearchText(words, limit, within)
    return json_response(b.Hits(found.hits, found.not_searched))
