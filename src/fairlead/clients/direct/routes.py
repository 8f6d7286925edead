"""Sending by HTTP, for a client that receives over its socket: `{"events": [...]}`, each as on the socket. Pure."""

from collections.abc import Generator
from typing import Any, Final, assert_never

import msgspec

from fairlead.clients.direct.conversation import (
    answered_with,
    error_record,
    initialize_response,
    is_already_settled,
    refusal,
    success,
)
from fairlead.clients.direct.messages import ControlQuestion, SentCommand, read_message
from fairlead.clients.direct.view import NAME, decode_catch_up
from fairlead.model.errors import BadRequest, Busy, FairleadError
from fairlead.model.ids import SessionId
from fairlead.model.queries import ReadProjection
from fairlead.model.web.requests import Step
from fairlead.model.web.routes import Request, Routes, Steps, json_response

routes = Routes()
MOST: Final = 100
"""The maximum number of events in one request."""


class Events(msgspec.Struct, frozen=True):
    events: list[Any]


class PostAnswers(msgspec.Struct, frozen=True):
    """`responses`: the responses to control requests among the events, and error records for rejected events."""

    responses: list[dict[str, Any]]


@routes.post("/v1/sessions/{session}/events", access="chat", name="direct-send", body=Events, answer=PostAnswers)
def send(request: Request) -> Steps:
    """Send messages in the CLI's own input format. The response has the answers to control requests."""
    session = request.session
    given = request.json(Events)
    if len(given.events) > MOST:
        raise BadRequest(f"At most {MOST} events are taken at once.", limit=MOST)
    responses: list[dict[str, Any]] = []
    for message in given.events:
        for parsed in read_message(session, message):
            match parsed:
                case SentCommand():
                    responses.extend((yield from _perform(parsed)))
                case ControlQuestion():
                    responses.append((yield from _ask(session, parsed)))
                case _:
                    assert_never(parsed)
    return json_response(PostAnswers(responses))


def _perform(sent: SentCommand) -> Generator[Step, Any, list[dict[str, Any]]]:
    try:
        try:
            yield sent.command
        except Busy:
            if sent.other is None:
                raise
            yield sent.other
    except FairleadError as error:
        return [] if is_already_settled(sent, error) else [error_record(sent, error)]
    return []


def _ask(session: SessionId, asked: ControlQuestion) -> Generator[Step, Any, dict[str, Any]]:
    if asked.error:
        return refusal(asked.request, asked.error)
    if asked.command is None:
        memory = yield ReadProjection(session, NAME)
        return success(asked.request, initialize_response(decode_catch_up(memory).init))
    try:
        reply = yield asked.command
    except FairleadError as error:
        return refusal(asked.request, error.message)
    return success(asked.request, answered_with(asked, reply))
