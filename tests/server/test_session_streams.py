"""Responses that are made from a subscription: when they wait, and how they end."""

import asyncio
from typing import Any

import msgspec

from fairlead.model.errors import FairleadError, Unavailable
from fairlead.model.gateway import Cursor, EncoderWithoutSignals
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry
from fairlead.model.web.routes import SessionStream
from fairlead.server.session_streams import StreamSink, session_chunks
from fairlead_testing.clock import ManualClock
from patience import settled

SESSION = SessionId("11111111-1111-4111-8111-111111111111")


class Words(EncoderWithoutSignals, frozen=True):
    """Its context is the last word: `asks` settles, `end` finishes."""

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        return entry.event

    def step(self, context: Any, session: SessionId, entry: Entry) -> tuple[Any, bytes]:
        return entry.event, entry.event

    def finished(self, context: Any) -> bool:
        return bool(context == "end")

    def settling(self, context: Any) -> bool:
        return bool(context == "asks")

    def settled(self, context: Any) -> bytes:
        return b"settled"

    def failed(self, context: Any, error: FairleadError) -> bytes:
        return error.code.encode()


class Handle(msgspec.Struct):
    """A subscription that the test moves."""

    sink: Any
    head: int = 0
    position: int = 0
    context: Any = None
    drains: int = 0
    verdict: Any = "ok"
    log_id: str = "log"

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.position, context=self.context)

    def start(self) -> None:
        pass

    def drained(self) -> None:
        self.drains += 1

    def close(self) -> None:
        pass

    def say(self, word: str) -> None:
        self.context = word
        self.sink.send(word.encode())


class Response:
    """A response that is being sent, on a clock that the test advances."""

    def __init__(self, head: int = 0) -> None:
        self.sink, self.clock = StreamSink(), ManualClock()
        self.handle = Handle(self.sink, head)
        answer = SessionStream(
            session=SESSION,
            cursor=Cursor(0),
            encoder=Words(),
            first=b"first",
            beat=b"beat",
            content_type="text/event-stream",
        )
        self.sent: list[bytes] = []
        self.task = asyncio.create_task(self._send(answer))

    async def _send(self, answer: SessionStream) -> None:
        async for chunk in session_chunks(answer, self.handle, self.sink, self.clock):
            self.sent.append(chunk)


async def test_frames_are_sent_until_the_encoder_has_finished() -> None:
    response = Response()
    await settled()
    assert response.sent == [b"first"]
    response.handle.say("one")
    response.handle.say("two")
    await settled()
    response.handle.say("end")
    await response.task
    assert response.sent == [b"first", b"onetwo", b"end"]
    assert response.handle.drains == 2 and response.sink.backlog() == 0


async def test_a_quiet_response_sends_beats() -> None:
    response = Response()
    await settled()
    await response.clock.advance(31)
    assert response.sent == [b"first", b"beat", b"beat"]
    response.handle.say("end")
    await response.task


async def test_a_response_settles_only_when_history_is_read() -> None:
    response = Response(head=7)
    await settled()
    response.handle.say("asks")
    await settled()
    await response.clock.advance(1)
    assert response.sent == [b"first", b"asks"]
    response.handle.position = 7
    await response.clock.advance(1)
    await response.task
    assert response.sent == [b"first", b"asks", b"settled"]


async def test_what_settles_a_request_in_time_lets_the_response_go_on() -> None:
    response = Response()
    await settled()
    response.handle.say("asks")
    await response.clock.advance(0.04)
    response.handle.say("more")
    await settled()
    await response.clock.advance(1)
    assert response.sent == [b"first", b"asks", b"more"]
    response.handle.say("end")
    await response.task


async def test_a_response_that_breaks_off_sends_the_frames_before_and_the_reason() -> None:
    response = Response()
    await settled()
    response.handle.say("one")
    response.sink.fail(Unavailable("the disk is full"))
    await response.task
    assert response.sent == [b"first", b"one", b"unavailable"]


async def test_a_revoked_credential_ends_a_response() -> None:
    response = Response()
    await settled()
    response.sink.revoke()
    await response.task
    assert response.sent == [b"first", b"not_allowed"]
