"""Sending by HTTP, for a client that receives over its socket: `{"events": [...]}`, each as on the socket. Pure."""

from typing import Any, Final

import msgspec

from fairlead.clients.direct.conversation import own_answer, perform
from fairlead.clients.direct.messages import ControlQuestion, read_message
from fairlead.clients.direct.view import NAME, decode_catch_up
from fairlead.model.errors import BadRequest
from fairlead.model.queries import ReadProjection
from fairlead.model.web.routes import Request, Routes, Steps, json_response

routes = Routes()
MOST: Final = 100
"""The maximum number of events in one request."""


class Events(msgspec.Struct, frozen=True):
    events: list[Any]


@routes.post("/v1/sessions/{session}/events", "chat", "direct-send", body=Events)
def send(request: Request) -> Steps:
    """Send messages in the CLI's own input format. The response has the answers to control requests, and error records
    for rejected events."""
    session = request.session
    given = request.json(Events)
    if len(given.events) > MOST:
        raise BadRequest(f"Send at most {MOST} events at once.", limit=MOST)
    responses: list[dict[str, Any]] = []
    for message in given.events:
        for parsed in read_message(session, message):
            if isinstance(parsed, ControlQuestion) and parsed.command is None:
                init = b"" if parsed.error else decode_catch_up((yield ReadProjection(session, NAME))).init
                responses.append(own_answer(parsed, init))
            else:
                responses.extend((yield from perform(parsed)))
    return json_response({"responses": responses})
