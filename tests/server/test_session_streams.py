"""Responses that are made from a subscription: when they wait, and how they end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec

from auth.fakes import MemoryDocuments
from fairlead.auth.credentials import Credentials
from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError, Unavailable
from fairlead.model.gateway import Cursor, EncoderWithoutSignals
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry
from fairlead.model.web.routes import SendToStreams, SessionStream
from fairlead.server.session_streams import KEPT_FRAMES, KEPT_INBOXES, SessionStreams, StreamSink, session_chunks
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


# --- frames outside the log

ANN = Identity("credential of ann", "ann", "Ann", frozenset({"view", "chat"}))
BOB = Identity("credential of bob", "bob", "Bob", frozenset({"view", "chat"}))


class OpenStreams:
    """Streams that stay open until the test ends, on a gateway without entries."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self.clock = ManualClock()
        self.streams = SessionStreams(cast("Any", self), Credentials(MemoryDocuments(), self.clock), self.clock)
        self._tasks = tasks

    async def watch(self, who: Any, session: Any, cursor: Any, encoder: Any, sink: Any) -> Handle:
        return Handle(sink)

    async def open(self, who: Identity, name: str = "answers") -> list[bytes]:
        """Open a stream; return the list of its chunks, which grows."""
        sent: list[bytes] = []

        async def send(message: Any) -> None:
            if message.get("body"):
                sent.append(message["body"])

        answer = SessionStream(
            session=SESSION, cursor=Cursor(0), encoder=Words(), first=b"first", beat=b"", content_type="", name=name
        )
        self._tasks.create_task(self.streams.send(asyncio.Future, send, who, answer))
        await settled()
        return sent

    async def answer(self, who: Identity, frame: bytes) -> None:
        await self.streams.send_to_streams(who, SendToStreams(SESSION, "answers", frame))
        await settled()


@contextlib.asynccontextmanager
async def open_streams() -> AsyncIterator[OpenStreams]:
    async with asyncio.TaskGroup() as tasks:
        opened = OpenStreams(tasks)
        yield opened
        opened.streams.stop(Unavailable("stopping"))


async def test_an_answer_is_sent_to_the_streams_of_its_own_credential() -> None:
    async with open_streams() as given:
        first, second, other_name, bob = [
            await given.open(who, name)
            for who, name in ((ANN, "answers"), (ANN, "answers"), (ANN, "runs"), (BOB, "answers"))
        ]
        await given.answer(ANN, b"one")
        assert first == second == [b"first", b"one"]
        assert other_name == bob == [b"first"]


async def test_an_answer_is_repeated_to_a_stream_that_is_opened_within_a_minute() -> None:
    async with open_streams() as given:
        await given.answer(ANN, b"one")
        await given.clock.advance(59)
        await given.answer(ANN, b"two")
        assert await given.open(ANN) == [b"first", b"onetwo"]
        await given.clock.advance(2)
        assert await given.open(ANN) == [b"first", b"two"]
        await given.clock.advance(60)
        assert await given.open(ANN) == [b"first"]
        assert not given.streams._kept


async def test_kept_answers_are_bounded() -> None:
    async with open_streams() as given:
        for number in range(KEPT_FRAMES + 10):
            await given.answer(ANN, b"%d " % number)
        sent = await given.open(ANN)
        assert len(sent[1].split()) == KEPT_FRAMES and sent[1].startswith(b"10 ")
        for number in range(KEPT_INBOXES + 10):
            await given.answer(Identity(f"credential {number}", "one", "One", frozenset()), b"x")
        assert len(given.streams._kept) == KEPT_INBOXES
