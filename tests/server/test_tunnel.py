"""A socket that another node serves: the client notices nothing, and the node that it reached decides about access."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from cell import _channel
from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError, NodeAway, NotFound
from fairlead.model.formats.frames import binary_frame, text_frame
from fairlead.model.store import Channel
from fairlead.model.web.routes import ClientProtocol
from fairlead.model.web.sockets import (
    AcceptedSubprotocol,
    AttachOwner,
    Check,
    CloseSocket,
    Effect,
    Handshake,
    SocketHandle,
    SocketRoute,
    Write,
)
from fairlead.server.websocket.tunnel import LOST, UNSENT_BYTES, Tunnel, TunnelServer
from patience import PATIENCE
from server.fakes import SESSION, Served, serving, until


class Echo:
    """Repeats what it gets. `bye` closes, `flood` sends many bytes, `who` names the caller."""

    def __init__(self, opening: Handshake) -> None:
        self._opening = opening

    def opened(self) -> Sequence[Effect]:
        return (Write(text_frame(f"hello {self._opening.query.get('name', '')}".encode())),)

    def received(self, data: bytes, text: bool) -> Sequence[Effect]:
        if data == b"bye":
            return (CloseSocket(4001, "as you wish"),)
        if data == b"flood":
            return tuple(Write(binary_frame(bytes(10_000))) for _ in range(200))
        if data == b"who":
            return (Write(text_frame(f"{self._opening.who.name} {sorted(self._opening.query)}".encode())),)
        return (Write(text_frame(data) if text else binary_frame(data)),)

    def failed(self, error: FairleadError) -> Sequence[Effect]:
        return ()

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Effect]:
        return ()


class Owner:
    """An owner of the socket on its home, such as a terminal."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.wire: SocketHandle | None = None

    def attached(self, wire: SocketHandle) -> None:
        self.wire = wire
        wire.send(text_frame(b"owned"))

    def received(self, data: bytes, text: bool) -> None:
        self.events.append((data, text))

    def drained(self) -> None:
        self.events.append("drained")

    def detached(self, code: int, reason: str) -> None:
        self.events.append((code, reason))


OWNERS: list[Owner] = []


def check(opening: Handshake) -> Check:
    yield from ()
    wanted = opening.query.get("as", "")
    if wanted == "nobody":
        raise NotFound("terminal of session", opening.params["session"])
    if wanted == "owner":
        OWNERS.append(Owner())
        return AcceptedSubprotocol((AttachOwner(OWNERS[-1]),), "")
    return None


ECHO = ClientProtocol(
    name="echo",
    sockets=(
        SocketRoute(path="/echo/{session}", access="terminal", name="echo", open=Echo, check=check, place="session"),
    ),
)


class Nodes:
    """Two servers. The home of every session is the second one."""

    def __init__(self) -> None:
        self.home = "home"
        self.away = False
        self.channels: list[Channel] = []
        self.served: list[asyncio.Task[None]] = []
        self.server: TunnelServer | None = None

    async def home_of(self, session: str) -> str:
        return self.home

    async def dial(self, node: str, hello: bytes) -> Channel:
        if self.away or self.server is None:
            raise NodeAway(node)
        near, far = _channel()
        self.channels.append(far)

        async def run(server: TunnelServer) -> None:
            try:
                await server.serve("reached", hello, far)
            finally:
                await far.close()

        self.served.append(asyncio.create_task(run(self.server)))
        return near


@pytest.fixture
async def nodes() -> AsyncIterator[tuple[Nodes, Served, Served]]:
    made = Nodes()
    async with (
        serving(protocols=[ECHO]) as home,
        serving(protocols=[ECHO], tunnel=Tunnel(made.home_of, made.dial)) as reached,
    ):
        made.server = TunnelServer([ECHO], home.app.sockets, home.credentials, "1.2.3")
        yield made, reached, home


@contextlib.asynccontextmanager
async def opened(served: Served, query: str = "", token: str = "") -> AsyncIterator[ClientConnection]:
    headers = {"Authorization": f"Bearer {token or served.admin}"}
    url = f"{served.ws}/echo/{SESSION}{query}"
    async with asyncio.timeout(PATIENCE), connect(url, additional_headers=headers, max_size=None) as client:
        yield client


async def test_messages_go_both_ways_unchanged(nodes: tuple[Nodes, Served, Served]) -> None:
    made, reached, _ = nodes
    async with opened(reached, "?name=ann") as client:
        assert await client.recv() == "hello ann"
        for message in ("text", b"bytes", "", b"", "ä" * 50_000, bytes(300_000)):
            await client.send(message)
            assert await client.recv() == message
    assert len(made.channels) == 1
    await asyncio.wait(made.served)


async def test_the_home_knows_the_caller_and_not_the_secret(nodes: tuple[Nodes, Served, Served]) -> None:
    _, reached, _ = nodes
    ticket = reached.credentials.tickets.issue(reached.admin.split("_")[1]).ticket
    url = f"{reached.ws}/echo/{SESSION}?ticket={ticket}&name=ann"
    async with asyncio.timeout(PATIENCE), connect(url) as client:
        await client.recv()
        await client.send("who")
        assert await client.recv() == "owner (admin) ['name']"


async def test_the_node_that_was_reached_decides_about_access(nodes: tuple[Nodes, Served, Served]) -> None:
    made, reached, _ = nodes
    for token in ("fl_wrong", await reached.token("view", "chat")):
        with pytest.raises(InvalidStatus) as refused:
            async with opened(reached, token=token):
                pass
        assert refused.value.response.status_code in (401, 403)
    assert made.channels == []


async def test_the_home_refuses_before_the_upgrade(nodes: tuple[Nodes, Served, Served]) -> None:
    made, reached, _ = nodes
    with pytest.raises(InvalidStatus) as refused:
        async with opened(reached, "?as=nobody"):
            pass
    assert refused.value.response.status_code == 404
    assert b"terminal of session" in (refused.value.response.body or b"")
    made.away = True
    with pytest.raises(InvalidStatus) as away:
        async with opened(reached):
            pass
    assert away.value.response.status_code == 503
    assert b"node_away" in (away.value.response.body or b"")


async def test_a_close_of_either_side_reaches_the_other(nodes: tuple[Nodes, Served, Served]) -> None:
    made, reached, _ = nodes
    async with opened(reached) as client:
        await client.recv()
        await client.send("bye")
        with pytest.raises(ConnectionClosed):
            await client.recv()
        assert (client.close_code, client.close_reason) == (4001, "as you wish")
    async with opened(reached, "?as=owner") as client:
        assert await client.recv() == "owned"
        await client.send(b"typed")
        await client.close(4005, "done")
    await asyncio.wait(made.served)
    assert OWNERS.pop().events == [(b"typed", False), (4005, "done")]


async def test_a_broken_channel_makes_the_client_connect_again(nodes: tuple[Nodes, Served, Served]) -> None:
    made, reached, _ = nodes
    async with opened(reached) as client:
        await client.recv()
        await made.channels[0].close()
        with pytest.raises(ConnectionClosed):
            await client.recv()
        assert client.close_code == LOST


async def test_a_credential_that_the_home_hears_of_first_ends_the_socket(nodes: tuple[Nodes, Served, Served]) -> None:
    _, reached, home = nodes
    who = reached.credentials.bearer(reached.admin)
    assert isinstance(who, Identity)
    async with opened(reached) as client:
        await client.recv()
        home.credentials._end(who.credential)
        with pytest.raises(ConnectionClosed):
            await client.recv()
        assert client.close_code == 4401


async def test_a_slow_client_holds_the_home_back(nodes: tuple[Nodes, Served, Served]) -> None:
    _, reached, _ = nodes
    async with opened(reached) as client:
        await client.recv()
        await client.send("flood")
        total = 0
        while total < 200 * 10_000:
            total += len(await client.recv())
        await client.send("still here")
        assert await client.recv() == "still here"


async def test_bytes_that_wait_are_counted_and_reported_when_they_are_gone(
    nodes: tuple[Nodes, Served, Served],
) -> None:
    _, reached, _ = nodes
    async with opened(reached, "?as=owner") as client:
        await client.recv()
        owner = OWNERS.pop()
        assert owner.wire is not None
        for _ in range(40):
            owner.wire.send(binary_frame(bytes(10_000)))
        assert owner.wire.backlog() > UNSENT_BYTES
        for _ in range(40):
            await client.recv()
        await until(lambda: "drained" in owner.events)


async def test_a_session_of_this_node_is_served_here(nodes: tuple[Nodes, Served, Served]) -> None:
    made, reached, _ = nodes
    made.home = ""
    async with opened(reached) as client:
        assert await client.recv() == "hello "
    assert made.channels == []
