"""Sending by HTTP, for a client that receives over its socket; and the durable transport of the browser SDK. Pure."""

from collections.abc import Generator, Sequence
from typing import Any, Final

import msgspec

from fairlead.clients.direct.conversation import own_answer, perform
from fairlead.clients.direct.event_stream import BEAT, CONTENT_TYPE, TRUNCATED, EventStreamEncoder, answer_frame
from fairlead.clients.direct.messages import ControlQuestion, read_message
from fairlead.clients.direct.view import NAME, decode_catch_up
from fairlead.model.errors import BadRequest
from fairlead.model.formats.numbered_frames import LARGEST_NUMBER
from fairlead.model.gateway import Cursor
from fairlead.model.ids import SessionId
from fairlead.model.queries import ReadProjection
from fairlead.model.web.requests import Step, do
from fairlead.model.web.routes import Request, Routes, SendToStreams, SessionStream, Steps, json_response

routes = Routes()
MOST: Final = 100
"""The maximum number of events in one request."""
STREAM: Final = "direct.stream"


class Events(msgspec.Struct, frozen=True):
    events: list[Any]


class WrappedEvent(msgspec.Struct, frozen=True):
    payload: Any


class WrappedEvents(msgspec.Struct, frozen=True):
    """`session_id` is not used: the path names the session."""

    events: list[WrappedEvent]
    session_id: str = ""


@routes.post("/v1/sessions/{session}/events", "chat", "direct-send", body=Events)
def send(request: Request) -> Steps:
    """Send messages in the CLI's own input format. The response has the answers to control requests, and error records
    for rejected events."""
    responses = yield from _perform_all(request.session, request.json(Events).events)
    return json_response({"responses": responses})


@routes.get("/v1/code/sessions/{session}/events/stream", "view", STREAM)
def stream(request: Request) -> Steps:
    """The session's records as server-sent events, for the official browser SDK. `Last-Event-ID`: the last one that the
    client has."""
    given = request.head.first("last-event-id")
    if given and not (given.isascii() and given.isdigit() and len(given) <= 18 and int(given) <= LARGEST_NUMBER):
        raise BadRequest("Last-Event-ID must be the id of an event of this stream.", field="last-event-id")
    start = int(given or 0)
    joined = decode_catch_up((yield from do(ReadProjection(request.session, NAME))))
    return SessionStream(
        session=request.session,
        cursor=Cursor(start),
        encoder=EventStreamEncoder(joined.foreign, start, joined.seq, frozenset(joined.pending)),
        first=BEAT,
        beat=BEAT,
        gap=TRUNCATED,
        content_type=CONTENT_TYPE,
        name=STREAM,
    )


@routes.post("/v1/code/sessions/{session}/events", "chat", "direct.stream-send", body=WrappedEvents)
def send_to_stream(request: Request) -> Steps:
    """Send messages of the official browser SDK. The answers to control requests, and error records for rejected
    messages, are sent on the event streams that the same credential has open, or opens within a minute."""
    given = [event.payload for event in request.json(WrappedEvents).events]
    for record in (yield from _perform_all(request.session, given)):
        yield from do(SendToStreams(request.session, STREAM, answer_frame(record)))
    return json_response({})


def _perform_all(session: SessionId, events: Sequence[Any]) -> Generator[Step, Any, list[dict[str, Any]]]:
    """Perform messages in their order; return the records that answer them."""
    if len(events) > MOST:
        raise BadRequest(f"Send at most {MOST} events at once.", limit=MOST)
    responses: list[dict[str, Any]] = []
    for message in events:
        for parsed in read_message(session, message):
            if isinstance(parsed, ControlQuestion) and parsed.command is None:
                init = b"" if parsed.error else decode_catch_up((yield ReadProjection(session, NAME))).init
                responses.append(own_answer(parsed, init))
            else:
                responses.extend((yield from perform(parsed)))
    return responses
