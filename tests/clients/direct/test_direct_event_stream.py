"""The durable transport of the browser SDK: the frames of a log, and a stream on a running gateway."""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import msgspec
import pytest

from clients.direct.test_direct_live import UNKNOWN, DirectHarness, harness
from fairlead.clients.direct.event_stream import EventStreamEncoder
from fairlead.model import events as ev
from fairlead.model.content import TextBlock
from fairlead.model.ids import CallId, EventId, MessageId, RequestId, SessionId, TurnId
from fairlead.model.store import Entry, Origin
from patience import PATIENCE

__all__ = ["harness"]

SESSION = SessionId("11111111-1111-4111-8111-111111111111")
PROMPT = MessageId("22222222-2222-4222-8222-222222222222")
ASKED = ev.PermissionRequested(
    id=EventId("asked"), request=RequestId("ask-1"), call=CallId("call"), tool="Bash", input={}
)
SETTLED = ev.PermissionResolved(
    id=EventId("settled"),
    request=RequestId("ask-1"),
    call=CallId("call"),
    tool="Bash",
    input={},
    behavior="allow",
    how="person",
)


def entry(seq: int, event: ev.Event, raw: bytes | None = None, origin: Origin = "agent") -> Entry:
    kind = str(type(event).__struct_config__.tag)
    return Entry(seq, seq - 1, 1_000, kind, msgspec.json.encode(event), origin, raw)


def record(seq: int, raw: bytes) -> Entry:
    return entry(seq, ev.RecordStored(id=EventId(f"record-{seq}"), record="any"), raw)


def frames_of(data: bytes) -> list[tuple[str, str | None, Any]]:
    """The kind, id and data of each event, read as a browser reads them: each kind of line break ends a line."""
    found = []
    for block in data.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if fields:
            found.append((fields["event"], fields.get("id"), json.loads(fields["data"])))
    return found


def test_a_record_is_durable_and_a_piece_of_text_is_for_open_streams() -> None:
    whole, piece = b'{"type":"assistant","uuid":"one"}', b'{"type":"stream_event","event":{}}'
    opened_before, opened_later = EventStreamEncoder(opened_at=3), EventStreamEncoder(opened_at=4)
    about = {"event_id": "record-4", "created_at": "1970-01-01T00:00:01.000Z", "source": "worker"}
    durable = ("client_event", "4", {"sequence_num": 4, **about, "payload": json.loads(whole)})
    assert frames_of(opened_before.encode(SESSION, record(4, whole))) == [durable]
    assert frames_of(opened_later.encode(SESSION, record(4, whole))) == [durable]
    assert frames_of(opened_before.encode(SESSION, record(4, piece))) == [
        ("ephemeral_event", None, {"payload": json.loads(piece)})
    ]
    assert opened_later.encode(SESSION, record(4, piece)) == b""


def test_a_request_that_was_settled_before_the_stream_was_opened_is_only_withdrawn() -> None:
    raw = b'{"type":"control_request","request_id":"ask-1","request":{"subtype":"can_use_tool"}}'
    asked, settled = entry(2, ASKED, raw), entry(3, SETTLED, origin="gateway")
    later, waiting, live = (
        EventStreamEncoder(opened_at=3),
        EventStreamEncoder(opened_at=2, waiting=frozenset({"ask-1"})),
        EventStreamEncoder(opened_at=1),
    )
    assert later.encode(SESSION, asked) == b""
    assert [
        data["payload"]["type"]
        for one in (waiting, live)
        for _, _, data in frames_of(one.encode(SESSION, asked) + one.encode(SESSION, settled))
    ] == ["control_request", "control_cancel_request"] * 2
    # A client that had the request before it was away needs this.
    assert [data["payload"]["type"] for _, _, data in frames_of(later.encode(SESSION, settled))] == [
        "control_cancel_request"
    ]


def test_a_prompt_is_sent_to_everyone_and_its_delivery_is_reported() -> None:
    content = (TextBlock("Hello"),)
    turn = TurnId("turn")
    entries = [
        entry(1, ev.MessageQueued(id=EventId("queued"), message=PROMPT, content=content), origin="gateway"),
        entry(2, ev.UserMessage(id=EventId("sent"), message=PROMPT, content=content, turn=turn), origin="gateway"),
        entry(3, ev.TurnEnded(id=EventId("ended"), status="completed", turn=turn), b'{"type":"result"}'),
        entry(4, ev.TurnEnded(id=EventId("again"), status="completed", turn=turn), b'{"type":"result"}'),
    ]
    encoder, context, data = EventStreamEncoder(), None, b""
    for one in entries:
        context, frames = encoder.step(context, SESSION, one)
        data += frames
    found = frames_of(data)
    deliveries = [(about["event_id"], about["status"]) for kind, _, about in found if kind == "delivery_update"]
    assert deliveries == [(PROMPT, f"DELIVERY_STATUS_{status}") for status in ("RECEIVED", "PROCESSING", "PROCESSED")]
    durable = [about for kind, _, about in found if kind == "client_event"]
    assert [(about["source"], about["payload"]["type"]) for about in durable] == [
        ("client", "user"),
        ("worker", "result"),
        ("worker", "result"),
    ]
    assert durable[0]["event_id"] == durable[0]["payload"]["uuid"] == PROMPT


@pytest.mark.parametrize(
    ("raw", "payloads"),
    [
        (b"not JSON\revent: client_event\rdata: {}\r\r", []),
        (b'["a list"]', []),
        (b'{"type":"new"\r,"text":"a\\nb"}', [{"type": "new", "text": "a\nb"}]),
    ],
)
def test_what_an_agent_writes_cannot_end_a_frame(raw: bytes, payloads: list[Any]) -> None:
    data = EventStreamEncoder().encode(SESSION, record(1, raw))
    assert [data["payload"] for _, _, data in frames_of(data)] == payloads


# --- on a running gateway


class Stream:
    """An open event stream, read frame by frame."""

    def __init__(self, answer: httpx2.Response) -> None:
        self._chunks = answer.aiter_bytes()
        self._rest = b""
        self.frames: list[tuple[str, str | None, Any]] = []
        self.seen: list[tuple[str, str | None, Any]] = []

    async def until_payload(self, kind: str) -> Any:
        async with asyncio.timeout(PATIENCE):
            while True:
                for name, number, data in self.frames:
                    if name == "client_event" and data["payload"]["type"] == kind:
                        self.frames = self.frames[self.frames.index((name, number, data)) + 1 :]
                        return data
                self._rest += await anext(self._chunks)
                whole, mark, self._rest = self._rest.rpartition(b"\n\n")
                new = frames_of(whole + mark)
                self.frames, self.seen = [*self.frames, *new], [*self.seen, *new]


@contextlib.asynccontextmanager
async def opened(harness: DirectHarness, after: int = 0) -> AsyncIterator[Stream]:
    url = f"/v1/code/sessions/{harness.session}/events/stream"
    headers = {"Accept": "text/event-stream", **({"Last-Event-ID": str(after)} if after else {})}
    async with harness.http.stream("GET", url, headers=headers) as answer:
        assert answer.status_code == 200 and answer.headers["content-type"] == "text/event-stream"
        yield Stream(answer)


async def post(harness: DirectHarness, *payloads: Any) -> None:
    body = {"session_id": harness.session, "events": [{"payload": payload} for payload in payloads]}
    answer = await harness.http.post(f"/v1/code/sessions/{harness.session}/events", json=body)
    assert answer.status_code == 200, answer.text


def prompt(text: str) -> dict[str, Any]:
    return {"type": "user", "uuid": str(uuid.uuid4()), "message": {"role": "user", "content": text}}


def control(name: str, **request: Any) -> dict[str, Any]:
    return {"type": "control_request", "request_id": name, "request": request}


@pytest.mark.process
async def test_a_turn_over_the_stream_and_the_rest_after_a_reconnect(harness: DirectHarness) -> None:
    async with opened(harness) as stream:
        await post(harness, control("one", subtype="initialize"), prompt("SCRIPT:text first"))
        answered = await stream.until_payload("control_response")
        assert answered["source"] == "worker" and "sequence_num" not in answered
        assert answered["payload"]["response"]["request_id"] == "one"
        first = await stream.until_payload("result")
    await post(harness, prompt("SCRIPT:text second"))
    async with opened(harness, first["sequence_num"]) as stream:
        # Its answer could have been lost with the connection.
        assert (await stream.until_payload("control_response"))["payload"]["response"]["request_id"] == "one"
        assert (await stream.until_payload("user"))["payload"]["message"]["content"] == "SCRIPT:text second"
        assert (await stream.until_payload("result"))["sequence_num"] > first["sequence_num"]


@pytest.mark.process
async def test_a_permission_is_answered_over_the_stream(harness: DirectHarness) -> None:
    async with opened(harness) as stream:
        await post(harness, prompt("SCRIPT:write streamed.txt"))
        asked = (await stream.until_payload("control_request"))["payload"]
        inner = {"behavior": "allow", "updatedInput": asked["request"]["input"]}
        answer = {"subtype": "success", "request_id": asked["request_id"], "response": inner}
        await post(harness, {"type": "control_response", "response": answer})
        assert (await stream.until_payload("result"))["payload"]["subtype"] == "success"


@pytest.mark.process
async def test_an_error_is_on_the_stream_of_its_sender(harness: DirectHarness) -> None:
    async with opened(harness) as stream:
        await post(harness, control("two", subtype="set_permission_mode", mode="no such mode"))
        refused = (await stream.until_payload("control_response"))["payload"]["response"]
        assert refused["subtype"] == "error" and refused["request_id"] == "two"


@pytest.mark.process
async def test_a_position_beyond_the_log_is_reported_and_the_whole_log_is_sent(harness: DirectHarness) -> None:
    await post(harness, prompt("SCRIPT:text first"))
    async with opened(harness, 1_000_000) as stream:
        await stream.until_payload("user")
        assert stream.seen[0] == ("catch_up_truncated", None, {})


@pytest.mark.process
async def test_a_bad_position_and_an_unknown_session_are_refused(harness: DirectHarness) -> None:
    url = "/v1/code/sessions/{}/events/stream"
    assert (await harness.http.get(url.format(UNKNOWN))).status_code == 404
    for given in ("-1", "1.5", "x", "9" * 19):
        answer = await harness.http.get(url.format(harness.session), headers={"Last-Event-ID": given})
        assert answer.status_code == 400, given
    body: Any = {"events": [{"payload": {}}] * 101}
    assert (await harness.http.post(f"/v1/code/sessions/{harness.session}/events", json=body)).status_code == 400
