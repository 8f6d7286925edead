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

from fairlead.cli.client import Api, EventLine, Note, ReconnectDelays, SessionWatch
from fairlead.cli.endpoint import Endpoint
from fairlead.cli.errors import CliError, CommandFailed, Denied, Missing, Unreachable

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
    """Sends the frames, then goes (the connection is closed in order) or stays until the client goes."""

    async def handle(socket: ServerConnection) -> None:
        for frame in frames:
            await socket.send(frame)
        if stay:
            await socket.wait_closed()

    return handle


async def breaks(socket: ServerConnection) -> None:
    """The connection is gone without a word, in the middle of the log."""
    await socket.send(subscribed())
    await socket.send(event(1))
    await socket.send(event(2))
    socket.transport.abort()


class Fake(NamedTuple):
    place: Endpoint
    wanted: list[dict[str, Any]]


@asynccontextmanager
async def gateway(*handlers: Handler, refuse: tuple[HTTPStatus, str] | None = None) -> AsyncIterator[Fake]:
    """Each connection is handled by the next handler, all further ones by the last. `wanted`: their subscriptions."""
    wanted: list[dict[str, Any]] = []

    async def handle(socket: ServerConnection) -> None:
        wanted.append(msgspec.json.decode(await socket.recv(), type=dict[str, Any]))
        await handlers[min(len(wanted), len(handlers)) - 1](socket)

    def answer(socket: ServerConnection, request: Request) -> Response | None:
        return socket.respond(*refuse) if refuse else None

    spoken = [Subprotocol("fairlead.v1.json")]
    async with serve(handle, "127.0.0.1", 0, process_request=answer, subprotocols=spoken) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield Fake(Endpoint(f"http://127.0.0.1:{port}", "token"), wanted)


async def told(fake: Fake, until: int, after: int = 0, log_id: str = "") -> list[EventLine | Note]:
    """What a watch tells up to and with the event `until`."""
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


async def test_a_broken_connection_is_made_good_from_the_cursor() -> None:
    async with gateway(breaks, says(subscribed(), event(3), stay=True)) as fake:
        items = await told(fake, until=3)
    assert seqs(items) == [1, 2, 3]
    assert [item.kind for item in items if isinstance(item, Note)] == ["lost", "back"]
    assert [(frame["after"], frame["log_id"]) for frame in fake.wanted] == [(0, ""), (2, "log-1")]


async def test_a_connection_that_was_closed_in_order_is_opened_again() -> None:
    async with gateway(says(subscribed(), event(1)), says(subscribed(), event(2), stay=True)) as fake:
        assert seqs(await told(fake, until=2)) == [1, 2]


async def test_who_has_seen_enough_closes_in_order() -> None:
    codes: list[int | None] = []

    async def stays(socket: ServerConnection) -> None:
        await says(subscribed(), event(1), stay=True)(socket)
        codes.append(socket.close_code)

    async with gateway(stays) as fake:
        await told(fake, until=1)
    assert codes == [1000]


async def test_an_event_that_comes_twice_is_told_once() -> None:
    async with gateway(breaks, says(subscribed(), event(1), event(2), event(3), stay=True)) as fake:
        assert seqs(await told(fake, until=3)) == [1, 2, 3]


async def test_a_gap_is_told_and_the_log_begins_anew() -> None:
    again = says(subscribed("gap", "log-2"), event(1), event(2), event(3), stay=True)
    async with gateway(breaks, again) as fake:
        items = await told(fake, until=3)
    assert seqs(items) == [1, 2, 1, 2, 3]
    assert [item.kind for item in items if isinstance(item, Note)] == ["lost", "back", "gap"]


async def test_fields_of_an_event_are_not_taken_for_those_of_a_frame() -> None:
    """`code` is a number in one and a word in the other; so with `message`."""
    exited = event(1, "agent.exited", code=3, reason="it died", expected=False)
    async with gateway(says(subscribed(), exited, event(2, "error", code="x", message="y"), stay=True)) as fake:
        assert seqs(await told(fake, until=2)) == [1, 2]


async def test_kinds_and_frames_of_a_newer_gateway_pass() -> None:
    frames = (subscribed(), '{"type":"weather","sunny":true}', event(1, "brand.new", depth=1), event(2))
    async with gateway(says(*frames, stay=True)) as fake:
        first, second = (item for item in await told(fake, until=2) if isinstance(item, EventLine))
    assert first.event is None
    assert msgspec.json.decode(first.raw)["depth"] == 1
    assert second.event is not None


async def test_a_refused_subscription_ends_it_with_its_code() -> None:
    async with gateway(says('{"type":"error","id":1,"code":"not_found","message":"There is no session."}')) as fake:
        with pytest.raises(Missing, match="no session"):
            await told(fake, until=1)


@pytest.mark.parametrize(
    ("status", "error"),
    [(HTTPStatus.UNAUTHORIZED, Denied), (HTTPStatus.FORBIDDEN, Denied), (HTTPStatus.NOT_FOUND, Missing)],
)
async def test_a_refused_connection_is_not_tried_again(status: HTTPStatus, error: type[CliError]) -> None:
    body = '{"error":{"code":"nope","message":"Go away."}}'
    async with gateway(breaks, refuse=(status, body)) as fake:
        with pytest.raises(error, match="Go away"):
            await told(fake, until=1)


async def test_patience_has_an_end_and_says_how_to_go_on() -> None:
    async with gateway(breaks) as fake:
        pass
    with pytest.raises(Unreachable, match="fairlead attach"):
        await told(fake, until=1)


async def test_an_address_is_looked_up_again_at_every_try() -> None:
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


async def test_a_gateway_that_is_away_is_found_by_its_file_when_it_is_back() -> None:
    """While it is away its file is gone too: that counts as a try, not as the end."""
    tries = 0

    async with gateway(says(subscribed(), event(1), stay=True)) as fake:

        def locate() -> Endpoint:
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
        (HTTPStatus.OK, "<html>", CommandFailed, "not understood"),
        (HTTPStatus.BAD_GATEWAY, "<html>", CommandFailed, "is this a Fairlead gateway"),
        (HTTPStatus.UNAUTHORIZED, '{"error":{"code":"x","message":"No."}}', Denied, "FAIRLEAD_TOKEN"),
        (HTTPStatus.CONFLICT, '{"error":{"code":"busy","message":"Not now."}}', CommandFailed, "Not now"),
    ],
)
async def test_answers_of_strangers_become_errors(
    status: HTTPStatus, body: str, error: type[CliError], words: str
) -> None:
    async with gateway(breaks, refuse=(status, body)) as fake, Api(lambda: fake.place) as api:
        with pytest.raises(error, match=words):
            await api.view(SESSION)


async def test_no_answer_at_all_is_unreachable() -> None:
    async with gateway(breaks) as fake:
        pass
    async with Api(lambda: fake.place) as api:
        with pytest.raises(Unreachable, match="fairlead serve"):
            await api.view(SESSION)
