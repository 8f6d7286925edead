"""A session's events over a connection that breaks: against a gateway that misbehaves on purpose."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from fairlead.client.endpoint import GatewayEndpoint
from fairlead.client.errors import ClientError, CommandFailed, Denied, Missing, Unreachable
from fairlead.client.gateway_client import GatewayClient
from fairlead.client.watch import EventLine, Note, ReconnectDelays, SessionWatch

SESSION = "0a000000-0000-4000-8000-000000000001"
Handler = Callable[[ServerConnection], Awaitable[None]]
QUICK = ReconnectDelays(tries=3, first=0.0, longest=0.0)


def event(seq: int, kind: str = "notice", **fields: Any) -> str:
    line = {"seq": seq, "prev": seq - 1, "session": SESSION, "type": kind, "id": f"e{seq}", "kind": "x", **fields}
    return msgspec.json.encode(line).decode()


def subscribed(verdict: str = "ok", log_id: str = "log-1") -> str:
    answer = {"type": "subscribed", "id": 1, "session": SESSION, "verdict": verdict, "log_id": log_id, "head": 9}
    return msgspec.json.encode(answer).decode()


def says(*frames: str, stay: bool = False) -> Handler:
    """Send the frames, then close the connection cleanly, or (`stay`) wait until the client closes it."""

    async def handle(socket: ServerConnection) -> None:
        for frame in frames:
            await socket.send(frame)
        if stay:
            await socket.wait_closed()

    return handle


async def breaks(socket: ServerConnection) -> None:
    """Drop the connection without a close frame, in the middle of the log."""
    await socket.send(subscribed())
    await socket.send(event(1))
    await socket.send(event(2))
    socket.transport.abort()


class Fake(NamedTuple):
    place: GatewayEndpoint
    wanted: list[dict[str, Any]]


@asynccontextmanager
async def gateway(*handlers: Handler, refuse: tuple[HTTPStatus, str] | None = None) -> AsyncIterator[Fake]:
    """Each connection gets the next handler, all further ones the last. `wanted` collects their subscriptions."""
    wanted: list[dict[str, Any]] = []

    async def handle(socket: ServerConnection) -> None:
        wanted.append(msgspec.json.decode(await socket.recv(), type=dict[str, Any]))
        await handlers[min(len(wanted), len(handlers)) - 1](socket)

    def answer(socket: ServerConnection, request: Request) -> Response | None:
        return socket.respond(*refuse) if refuse else None

    spoken = [Subprotocol("fairlead.v1.json")]
    async with serve(handle, "127.0.0.1", 0, process_request=answer, subprotocols=spoken) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield Fake(GatewayEndpoint(f"http://127.0.0.1:{port}", "token"), wanted)


async def watched(fake: Fake, until: int, after: int = 0, log_id: str = "") -> list[EventLine | Note]:
    """The items that a watch yields up to and including the event `until`."""
    found: list[EventLine | Note] = []
    watch = SessionWatch(lambda: fake.place, SESSION, after, log_id, patience=QUICK)
    async with aclosing(watch.items()) as items:
        async for item in items:
            found.append(item)
            if isinstance(item, EventLine) and item.seq == until:
                break
    return found


def seqs(items: list[EventLine | Note]) -> list[int]:
    return [item.seq for item in items if isinstance(item, EventLine)]


async def test_broken_connection_is_resumed_from_the_cursor() -> None:
    async with gateway(breaks, says(subscribed(), event(3), stay=True)) as fake:
        items = await watched(fake, until=3)
    assert seqs(items) == [1, 2, 3]
    assert [item.kind for item in items if isinstance(item, Note)] == ["lost", "back"]
    assert [(frame["after"], frame["log_id"]) for frame in fake.wanted] == [(0, ""), (2, "log-1")]


async def test_cleanly_closed_connection_is_opened_again() -> None:
    async with gateway(says(subscribed(), event(1)), says(subscribed(), event(2), stay=True)) as fake:
        assert seqs(await watched(fake, until=2)) == [1, 2]


async def test_watch_that_is_finished_closes_cleanly() -> None:
    codes: list[int | None] = []

    async def stays(socket: ServerConnection) -> None:
        await says(subscribed(), event(1), stay=True)(socket)
        codes.append(socket.close_code)

    async with gateway(stays) as fake:
        await watched(fake, until=1)
    assert codes == [1000]


async def test_duplicate_event_is_yielded_once() -> None:
    async with gateway(breaks, says(subscribed(), event(1), event(2), event(3), stay=True)) as fake:
        assert seqs(await watched(fake, until=3)) == [1, 2, 3]


async def test_gap_is_reported_and_the_log_starts_over() -> None:
    again = says(subscribed("gap", "log-2"), event(1), event(2), event(3), stay=True)
    async with gateway(breaks, again) as fake:
        items = await watched(fake, until=3)
    assert seqs(items) == [1, 2, 1, 2, 3]
    assert [item.kind for item in items if isinstance(item, Note)] == ["lost", "back", "gap"]


async def test_event_fields_are_not_mistaken_for_frame_fields() -> None:
    """`code` is a number in an event and a string in a frame; `message` differs as well."""
    exited = event(1, "agent.exited", code=3, reason="it died", expected=False)
    async with gateway(says(subscribed(), exited, event(2, "error", code="x", message="y"), stay=True)) as fake:
        assert seqs(await watched(fake, until=2)) == [1, 2]


async def test_events_and_frames_of_a_newer_gateway_are_accepted() -> None:
    frames = (subscribed(), '{"type":"weather","sunny":true}', event(1, "brand.new", depth=1), event(2))
    async with gateway(says(*frames, stay=True)) as fake:
        first, second = (item for item in await watched(fake, until=2) if isinstance(item, EventLine))
    assert first.event is None
    assert msgspec.json.decode(first.raw)["depth"] == 1
    assert second.event is not None


async def test_refused_subscription_ends_the_watch_with_its_code() -> None:
    async with gateway(says('{"type":"error","id":1,"code":"not_found","message":"There is no session."}')) as fake:
        with pytest.raises(Missing, match="no session"):
            await watched(fake, until=1)


@pytest.mark.parametrize(
    ("status", "error"),
    [(HTTPStatus.UNAUTHORIZED, Denied), (HTTPStatus.FORBIDDEN, Denied), (HTTPStatus.NOT_FOUND, Missing)],
)
async def test_refused_connection_is_not_retried(status: HTTPStatus, error: type[ClientError]) -> None:
    body = '{"error":{"code":"nope","message":"Go away."}}'
    async with gateway(breaks, refuse=(status, body)) as fake:
        with pytest.raises(error, match="Go away"):
            await watched(fake, until=1)


async def test_watch_gives_up_and_explains_how_to_continue() -> None:
    async with gateway(breaks) as fake:
        pass
    with pytest.raises(Unreachable, match="fairlead attach"):
        await watched(fake, until=1)


async def test_address_is_looked_up_again_at_every_retry() -> None:
    async with gateway(says(subscribed(), event(3), stay=True)) as second, gateway(breaks) as first:
        places = [first.place, second.place]
        watch = SessionWatch(lambda: places.pop(0) if len(places) > 1 else places[0], SESSION, 0, patience=QUICK)
        async with aclosing(watch.items()) as items:
            found = [item async for item in _until(items, 3)]
    assert seqs(found) == [1, 2, 3]


async def _until(items: AsyncIterator[EventLine | Note], seq: int) -> AsyncIterator[EventLine | Note]:
    async for item in items:
        yield item
        if isinstance(item, EventLine) and item.seq == seq:
            return


async def test_restarted_gateway_is_found_by_its_file() -> None:
    """While the gateway is down its file is missing too: that counts as a failed try, not as the end."""
    tries = 0

    async with gateway(says(subscribed(), event(1), stay=True)) as fake:

        def locate() -> GatewayEndpoint:
            nonlocal tries
            tries += 1
            if tries < 3:
                raise Unreachable("nobody")
            return fake.place

        watch = SessionWatch(locate, SESSION, 0, patience=QUICK)
        async with aclosing(watch.items()) as items:
            assert seqs([item async for item in _until(items, 1)]) == [1]


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        (HTTPStatus.OK, "<html>", CommandFailed, "invalid answer"),
        (HTTPStatus.BAD_GATEWAY, "<html>", CommandFailed, "is this a Fairlead gateway"),
        (HTTPStatus.UNAUTHORIZED, '{"error":{"code":"x","message":"No."}}', Denied, "FAIRLEAD_TOKEN"),
        (HTTPStatus.CONFLICT, '{"error":{"code":"busy","message":"Not now."}}', CommandFailed, "Not now"),
    ],
)
async def test_unexpected_responses_become_errors(
    status: HTTPStatus, body: str, error: type[ClientError], words: str
) -> None:
    async with gateway(breaks, refuse=(status, body)) as fake, GatewayClient(lambda: fake.place) as api:
        with pytest.raises(error, match=words):
            await api.session(SESSION).view()


async def test_missing_response_is_unreachable() -> None:
    async with gateway(breaks) as fake:
        pass
    async with GatewayClient(lambda: fake.place) as api:
        with pytest.raises(Unreachable, match="fairlead serve"):
            await api.session(SESSION).view()
