"""Two whole gateways on real NATS servers: a client of every protocol works on a session whose home is the other
node."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from e2e.all_clients import all_clients, answered_on_one, each_sends_a_prompt
from e2e.gateway_harness import GatewayHarness
from fairlead.wiring import GatewayInfo
from local_http import local_client
from nodes.gateways import client_of, gateway, known
from patience import PATIENCE
from stores.nats_servers import NatsServers

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServers]:
    started = NatsServers(tmp_path_factory.mktemp("nats")).start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cell")


@pytest.fixture
async def nodes(folder: Path, servers: NatsServers) -> AsyncIterator[tuple[GatewayInfo, GatewayInfo]]:
    async with gateway(folder, "home", servers) as home, gateway(folder, "other", servers) as other:
        yield home, other


@pytest.fixture
async def other(folder: Path, nodes: tuple[GatewayInfo, GatewayInfo]) -> AsyncIterator[GatewayHarness]:
    """A client of the node that does not have the folder of its session."""
    async with client_of(nodes[1], folder / "home" / "project") as harness:
        yield harness


async def home_of(harness: GatewayHarness) -> str:
    answer = await harness.http.get(f"/v1/sessions/{harness.session}")
    return str(answer.json()["summary"]["node"])


async def test_clients_of_every_protocol_answer_on_the_other_node(other: GatewayHarness) -> None:
    await known(other.gateway, "home")
    await other.open()
    assert await home_of(other) == "home", "it is placed where its folder is"
    requests: list[str] = []
    async with all_clients(other) as clients:
        for answering in ("native", "mylifedb", "direct", "cognova", "claudecodeui", "acp"):
            other.scene()
            await answered_on_one(other, clients, answering, requests)


async def test_clients_of_every_protocol_send_on_the_other_node(other: GatewayHarness) -> None:
    await other.open(node="home")
    async with all_clients(other) as clients:
        await each_sends_a_prompt(other, clients)


async def test_a_turn_is_interrupted_from_the_other_node(other: GatewayHarness) -> None:
    await other.open(node="home")
    await other.send("SCRIPT:slow 4000")
    await other.until("text.delta")
    await other.do("interrupt")
    assert (await other.until("turn.ended"))["status"] == "cancelled"


async def test_a_cursor_of_one_node_continues_on_the_other(
    folder: Path, nodes: tuple[GatewayInfo, GatewayInfo], other: GatewayHarness
) -> None:
    await other.open(node="home")
    await other.turn("SCRIPT:text one")
    last = other.events[-1]
    async with client_of(nodes[0], folder / "home" / "project") as here:
        view = (await here.http.get(f"/v1/sessions/{other.session}")).json()
        reply = await here.watch(other.session, after=last["seq"], log_id=view["log_id"])
        assert reply.get("verdict", "ok") == "ok"
        await here.turn("SCRIPT:text two")
        assert here.events[0]["prev"] >= last["seq"]
    await other.until("turn.ended")
    await other.raw()


async def test_what_one_node_revokes_is_closed_on_the_other(nodes: tuple[GatewayInfo, GatewayInfo]) -> None:
    home, other = nodes
    headers = {"Authorization": f"Bearer {home.token}"}
    async with local_client(base_url=home.url, headers=headers) as http, asyncio.timeout(PATIENCE):
        made = (await http.post("/v1/tokens", json={"name": "lost", "scopes": ["view"]})).json()
        address = other.url.replace("http", "ws", 1) + "/v1/ws"
        while True:
            try:
                socket = await connect(address, additional_headers={"Authorization": f"Bearer {made['secret']}"})
                break
            except InvalidStatus:
                await asyncio.sleep(0.01)
        await http.delete(f"/v1/tokens/{made['credential']['id']}")
        await socket.wait_closed()
        assert socket.close_code == 4401
        with pytest.raises(InvalidStatus) as refused:
            await connect(address, additional_headers={"Authorization": f"Bearer {made['secret']}"})
        assert refused.value.response.status_code == 401


async def test_a_ticket_opens_a_socket_on_one_of_the_nodes(nodes: tuple[GatewayInfo, GatewayInfo]) -> None:
    home, other = nodes
    headers = {"Authorization": f"Bearer {home.token}"}

    async def attempt(info: GatewayInfo, ticket: str) -> int:
        try:
            async with connect(info.url.replace("http", "ws", 1) + f"/v1/ws?ticket={ticket}"):
                return 101
        except InvalidStatus as refused:
            return refused.response.status_code

    async with local_client(base_url=home.url, headers=headers) as http, asyncio.timeout(PATIENCE):
        for _ in range(20):
            ticket = (await http.post("/v1/tickets")).json()["ticket"]
            outcomes = await asyncio.gather(*(attempt(node, ticket) for node in (home, other, home, other)))
            assert sorted(outcomes) == [101, 401, 401, 401]
