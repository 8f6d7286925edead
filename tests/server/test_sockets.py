"""The native socket over the real server: commands, subscriptions, order, limits, and a revoked credential."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from fairlead.auth.tickets import SPENT
from fairlead.model import commands as cmd
from fairlead.model.errors import Busy, Unavailable
from fairlead.server.limits import ServerLimits
from fairlead.server.sockets import REVOKED
from patience import PATIENCE
from server.fakes import LOG_ID, OTHER, SESSION, Served, serving, until


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as running:
        yield running


class Client:
    """A client whose frames are decoded JSON objects."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def ask(self, **frame: Any) -> None:
        await self.socket.send(json.dumps(frame))

    async def receive(self) -> Any:
        return json.loads(await asyncio.wait_for(self.socket.recv(), PATIENCE))

    async def call(self, **frame: Any) -> Any:
        await self.ask(**frame)
        return await self.receive()


@contextlib.asynccontextmanager
async def dial(served: Served, token: str = "", query: str = "", **options: Any) -> AsyncIterator[Client]:
    """Connect, and read the hello frame."""
    headers = {} if query else {"authorization": f"Bearer {token or served.admin}"}
    options = {"additional_headers": headers, "compression": None, "proxy": None, **options}
    async with connect(f"{served.ws}/v1/ws{query}", **options) as socket:
        client = Client(socket)
        assert (await client.receive())["type"] == "hello"
        yield client


async def test_every_command_is_acknowledged_with_its_id(served: Served) -> None:
    async with dial(served) as client:
        assert await client.call(id=1, type="send", session=SESSION, text="hi") == {
            "type": "reply",
            "id": 1,
            "session": SESSION,
        }
        assert (await client.call(id={"any": ["thing"]}, type="interrupt", session=SESSION))["id"] == {"any": ["thing"]}
        assert "id" not in await client.call(type="interrupt", session=SESSION)
    assert [type(command) for _, command in served.gateway.commands] == [cmd.Send, cmd.Interrupt, cmd.Interrupt]


async def test_events_follow_the_verdict(served: Served) -> None:
    served.gateway.say("before")
    async with dial(served) as client:
        reply = await client.call(id=1, type="subscribe", session=SESSION, after=0)
        assert reply == {
            "type": "subscribed",
            "id": 1,
            "session": SESSION,
            "verdict": "ok",
            "log_id": LOG_ID,
            "head": 1,
        }
        assert (await client.receive())["text"] == "before"
        served.gateway.say("after")
        event = await client.receive()
        assert (event["seq"], event["prev"], event["session"], event["type"], event["text"]) == (
            2,
            1,
            SESSION,
            "text",
            "after",
        )


async def test_without_a_cursor_only_new_events_are_sent(served: Served) -> None:
    served.gateway.say("before")
    async with dial(served) as client:
        await client.call(type="subscribe", session=SESSION)
        served.gateway.say("after")
        assert (await client.receive())["text"] == "after"


async def test_a_cursor_of_another_log_is_a_gap_and_a_full_replay(served: Served) -> None:
    served.gateway.say("one")
    served.gateway.say("two")
    async with dial(served) as client:
        reply = await client.call(type="subscribe", session=SESSION, after=1, log_id="another")
        assert reply["verdict"] == "gap"
        assert [(await client.receive())["text"] for _ in range(2)] == ["one", "two"]


async def test_one_socket_can_subscribe_to_many_sessions_and_unsubscribe_from_each(served: Served) -> None:
    async with dial(served) as client:
        await client.call(type="subscribe", session=SESSION)
        await client.call(type="subscribe", session=OTHER)
        served.gateway.say("a", SESSION)
        served.gateway.say("b", OTHER)
        assert [(await client.receive())["session"] for _ in range(2)] == [SESSION, OTHER]
        assert await client.call(id=9, type="unsubscribe", session=SESSION) == {
            "type": "unsubscribed",
            "id": 9,
            "session": SESSION,
        }
        served.gateway.say("c", SESSION)
        served.gateway.say("d", OTHER)
        assert (await client.receive())["text"] == "d"


async def test_second_subscription_starts_over_and_duplicates_nothing(served: Served) -> None:
    served.gateway.say("one")
    async with dial(served) as client:
        for _ in range(3):
            await client.ask(type="subscribe", session=SESSION, after=0)
        received = [await client.receive() for _ in range(6)]
        assert [frame["type"] for frame in received] == ["subscribed", "text"] * 3
        assert len(served.gateway.watches) == 1
        served.gateway.say("two")
        assert (await client.receive())["text"] == "two"
        assert (await client.call(type="ping"))["type"] == "pong"


async def test_answers_of_one_session_come_in_order_while_another_goes_ahead(served: Served) -> None:
    served.gateway.hold.add(cmd.SetModel)
    async with dial(served) as client:
        await client.ask(id="slow", type="set_model", session=SESSION, model="m")
        await client.ask(id="quick", type="interrupt", session=SESSION)
        other = await client.call(id="other", type="interrupt", session=OTHER)
        assert other["id"] == "other"
        wanted: list[type[cmd.Command]] = [cmd.SetModel, cmd.Interrupt, cmd.Interrupt]
        assert [type(command) for _, command in served.gateway.commands] == wanted
        served.gateway.release.set()
        assert [(await client.receive())["id"] for _ in range(2)] == ["slow", "quick"]


async def test_a_bad_frame_is_answered_and_the_socket_lives_on(served: Served) -> None:
    async with dial(served) as client:
        for frame, code in (
            ("{", "bad_frame"),
            ("[]", "bad_frame"),
            ('"x"', "bad_frame"),
            ("", "bad_frame"),
            ("{}", "bad_frame"),
            (b"{}", "bad_frame"),
            ("[" * 100_000, "bad_frame"),
            ('{"type":5}', "bad_frame"),
            ('{"type":"dance"}', "unknown_type"),
            ('{"type":"send"}', "bad_request"),
            ('{"type":"send","session":5,"text":"x"}', "bad_request"),
            ('{"type":"send","session":"x","text":"x"}', "bad_id"),
            (json.dumps({"type": "interrupt", "session": SESSION, "scopes": ["admin"]}), "unknown_field"),
            (json.dumps({"type": "interrupt", "session": "33333333-3333-4333-8333-333333333333"}), "not_found"),
            (json.dumps({"type": "subscribe", "session": "33333333-3333-4333-8333-333333333333"}), "not_found"),
            (json.dumps({"type": "subscribe", "session": SESSION, "after": -1}), "bad_request"),
            (json.dumps({"type": "subscribe", "session": SESSION, "after": "x"}), "bad_request"),
            (json.dumps({"type": "typing", "session": SESSION}), "busy"),
        ):
            await client.socket.send(frame)
            reply = await client.receive()
            assert (reply["type"], reply["code"]) == ("error", code), frame[:60]
        assert (await client.call(type="ping"))["type"] == "pong"


async def test_refusals_and_internal_errors_are_sent_with_the_id_of_the_command(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    served.gateway.errors[cmd.Interrupt] = Busy("Not now.", state="x")
    served.gateway.errors[cmd.Close] = ZeroDivisionError("the password is swordfish")
    async with dial(served) as client:
        assert await client.call(id=1, type="interrupt", session=SESSION) == {
            "type": "error",
            "id": 1,
            "code": "busy",
            "message": "Not now.",
            "data": {"state": "x"},
        }
        broken = await client.call(id=2, type="close", session=SESSION)
        assert (broken["id"], broken["code"]) == (2, "internal")
        assert "swordfish" not in json.dumps(broken)
        assert broken["data"]["id"] in [record.__dict__.get("error_id") for record in caplog.records]
        assert (await client.call(type="ping"))["type"] == "pong"


async def test_a_viewer_may_watch_and_nothing_else(served: Served) -> None:
    token = await served.token("view")
    session = {"session": SESSION}
    async with dial(served, token) as client:
        assert (await client.call(type="subscribe", **session))["type"] == "subscribed"
        for frame in (
            {"type": "send", "text": "x", **session},
            {"type": "interrupt", **session},
            {"type": "answer", "request": "r", "behavior": "allow", **session},
            {"type": "set_mode", "mode": "plan", **session},
            {"type": "control", "subtype": "x", **session},
            {"type": "create"},
            {"type": "typing", **session},
        ):
            assert (await client.call(**frame))["code"] == "not_allowed", frame
    assert served.gateway.commands == []


async def test_messagepack_by_subprotocol(served: Served) -> None:
    headers = {"authorization": f"Bearer {served.admin}"}
    async with connect(
        f"{served.ws}/v1/ws", additional_headers=headers, subprotocols=[Subprotocol("fairlead.v1.msgpack")], proxy=None
    ) as socket:
        assert socket.subprotocol == "fairlead.v1.msgpack"
        hello = msgspec.msgpack.decode(await socket.recv(decode=False))
        assert hello["type"] == "hello"
        await socket.send(msgspec.msgpack.encode({"id": 1, "type": "subscribe", "session": SESSION}))
        assert msgspec.msgpack.decode(await socket.recv(decode=False))["verdict"] == "ok"
        served.gateway.say("wörter")
        event = msgspec.msgpack.decode(await socket.recv(decode=False))
        assert (event["seq"], event["text"]) == (1, "wörter")
        await socket.send('{"type":"ping"}')
        assert msgspec.msgpack.decode(await socket.recv(decode=False))["code"] == "bad_frame"


async def test_a_client_that_speaks_only_something_else_is_refused_before_the_upgrade(served: Served) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with dial(served, subprotocols=["graphql-ws"]):
            pass
    assert refused.value.response.status_code == 400


async def test_a_ticket_opens_one_socket(served: Served) -> None:
    async with served.client() as http:
        ticket = (await http.post("/v1/tickets")).json()["ticket"]
    async with dial(served, query=f"?ticket={ticket}", origin=served.url) as client:
        assert (await client.call(type="ping"))["type"] == "pong"
    with pytest.raises(InvalidStatus) as again:
        async with dial(served, query=f"?ticket={ticket}"):
            pass
    assert again.value.response.status_code == 401


async def test_a_ticket_that_another_node_has_spent_opens_no_socket(served: Served) -> None:
    async with served.client() as http:
        ticket = (await http.post("/v1/tickets")).json()["ticket"]
    served.credentials.tickets._documents = served.documents
    await served.documents.add(SPENT, ticket.partition(".")[0], True)
    with pytest.raises(InvalidStatus) as refused:
        async with dial(served, query=f"?ticket={ticket}"):
            pass
    assert refused.value.response.status_code == 401


async def test_a_ticket_that_cannot_be_spent_for_certain_opens_no_socket(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served.client() as http:
        ticket = (await http.post("/v1/tickets")).json()["ticket"]

    async def away(ticket: str) -> bool:
        raise Unavailable("The store is away.")

    monkeypatch.setattr(served.credentials.tickets, "spend", away)
    with pytest.raises(InvalidStatus) as refused:
        async with dial(served, query=f"?ticket={ticket}"):
            pass
    assert refused.value.response.status_code == 503


async def test_revoking_closes_every_socket_of_the_credential_and_no_other(served: Served) -> None:
    token = await served.token("view", "chat", name="lost laptop")
    async with (
        dial(served, token) as one,
        dial(served, token) as two,
        dial(served, token) as three,
        dial(served) as good,
    ):
        await one.call(type="subscribe", session=SESSION)
        await good.call(type="subscribe", session=SESSION)
        async with served.client() as http:
            assert (await http.delete(f"/v1/tokens/{served.tokens['lost laptop']}")).status_code == 200
        for client in (one, two, three):
            with pytest.raises(ConnectionClosed) as closed:
                await client.receive()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == REVOKED
        served.gateway.say("still here")
        assert (await good.receive())["text"] == "still here"
        assert len(served.gateway.watches) == 1
    with pytest.raises(InvalidStatus):
        async with dial(served, token):
            pass


async def test_client_that_sends_too_fast_gets_an_error_and_stays_connected() -> None:
    async with serving(ServerLimits(commands_per_s=2)) as served, dial(served) as client:
        for number in range(80):
            await client.ask(id=number, type="ping")
        received = [await client.receive() for _ in range(80)]
        refused = [frame for frame in received if frame["type"] == "error"]
        assert len([frame for frame in received if frame["type"] == "pong"]) >= 2
        assert refused and {frame["code"] for frame in refused} == {"too_many"}
        assert sorted(frame["id"] for frame in received) == list(range(80))


async def test_commands_in_flight_are_bounded_and_none_is_lost() -> None:
    async with serving(ServerLimits(in_flight=4, commands_per_s=1000)) as served:
        served.gateway.hold.add(cmd.Interrupt)
        async with dial(served) as client:
            for number in range(200):
                await client.ask(id=number, type="interrupt", session=SESSION)
            await until(lambda: len(served.gateway.commands) >= 4)
            served.gateway.release.set()
            assert [(await client.receive())["id"] for _ in range(200)] == list(range(200))


async def test_subscriptions_of_one_socket_are_bounded() -> None:
    async with serving(ServerLimits(watches_per_socket=1)) as served, dial(served) as client:
        assert (await client.call(type="subscribe", session=SESSION))["type"] == "subscribed"
        assert (await client.call(type="subscribe", session=OTHER))["code"] == "too_many"
        assert (await client.call(type="subscribe", session=SESSION))["type"] == "subscribed"


async def test_typing_signal_reaches_other_clients_with_the_name(served: Served) -> None:
    token = await served.token("view", "chat", name="Ann")
    async with dial(served) as watcher, dial(served, token) as typist:
        await watcher.call(type="subscribe", session=SESSION)
        await typist.call(type="subscribe", session=SESSION)
        await typist.ask(type="typing", session=SESSION)
        assert await watcher.receive() == {
            "type": "typing",
            "session": SESSION,
            "name": "owner (Ann)",
            "data": {"active": True},
        }


async def test_command_completes_after_its_client_left(served: Served) -> None:
    served.gateway.hold.add(cmd.Interrupt)
    async with dial(served) as client:
        await client.ask(type="interrupt", session=SESSION)
        await until(lambda: len(served.gateway.commands) == 1)
        await client.call(type="subscribe", session=SESSION)
    await until(lambda: served.gateway.watches == [])
    served.gateway.release.set()
    await served.app.dispatcher.tasks.wait()


async def test_a_message_over_the_limit_ends_the_connection(served: Served) -> None:
    head = (
        f"GET /v1/ws HTTP/1.1\r\nHost: localhost:{served.port}\r\nAuthorization: Bearer {served.admin}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(head.encode())
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
    writer.write(b"\x81\xff" + ((8 << 20) + 1).to_bytes(8, "big") + b"mask" + b"x" * 1000)
    rest = await asyncio.wait_for(reader.read(), PATIENCE)
    assert b"\x88" + bytes([len(rest.rpartition(b"\x88")[2]) - 1]) + (1009).to_bytes(2, "big") in rest
    writer.close()
    await writer.wait_closed()


async def test_stopping_server_closes_the_sockets(served: Served) -> None:
    async with dial(served) as client:
        served.runner.stop()
        with pytest.raises(ConnectionClosed) as closed:
            await client.receive()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012
