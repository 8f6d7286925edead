"""REST routes and responses: `{"data": ...}`, errors `{statusCode, statusMessage, message}`. Pure."""

from typing import Any, Final

from msgspec import structs

from fairlead.model.errors import BadId, FairleadError, NotFound
from fairlead.model.web.requests import Response
from fairlead.model.web.routes import Request, Route, Routes, Steps, json_response
from fairlead.model.web.sockets import SocketRoute

TOKEN_HEADER: Final = "x-api-token"
BODY_LIMIT: Final = 1 << 20
NOT_FOUND: Final = {
    "session": "Conversation not found",
    "task": "Task not found",
    "project": "Project not found",
    "reminder": "Reminder not found",
    "document": "Document not found",
    "memory": "Memory not found",
    "secret": 'Secret with key "{id}" not found',
    "hook": "Hook event not found",
    "agent": "Agent not found",
    "running execution of agent": "No running executions found for this agent",
    "target": "Target not found",
}
"""This protocol's message for each kind of item that does not exist; `{id}` stands for the requested id."""


def new_routes() -> Routes:
    return Routes("cognova.", token_header=TOKEN_HEADER, body_limit=BODY_LIMIT)


def with_token(socket: SocketRoute) -> SocketRoute:
    return structs.replace(socket, token_query="token", token_header=TOKEN_HEADER)


def data(value: Any) -> Response:
    return json_response({"data": value})


def problem(status: int, message: str) -> Response:
    return json_response({"statusCode": status, "statusMessage": message, "message": message}, status)


def with_errors(route: Route) -> Route:
    """Put the gateway's errors into this protocol's form."""

    def handle(request: Request) -> Steps:
        try:
            return (yield from route.handle(request))
        except FairleadError as error:
            return _error_response(error)

    return structs.replace(route, handle=handle)


def _error_response(error: FairleadError) -> Response:
    message = NOT_FOUND.get(error.data.get("what", "")) if isinstance(error, NotFound | BadId) else None
    if message is None:
        return problem(error.status, error.message)
    return problem(404, message.replace("{id}", str(error.data["given"])))
