"""The whole gateway: a plugin on its main port and on claudecodeui's door, for a user who signed in there."""

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from clients.claudecodeui.signed_gateway import SignedGateway, frames_until, signed_gateway
from fairlead.model.web.requests import ServiceCall
from fairlead.model.web.routes import ClientProtocol
from fairlead.model.web.sockets import CloseSocket, Effect, Flow, Handshake, RunFlow, SilentProtocol, SocketRoute
from fairlead.server.discovery import discover
from local_http import local_client
from patience import PATIENCE
from plugins.harness import BOARD
from server.fakes import serving

pytestmark = pytest.mark.process


@pytest.fixture
async def signed(tmp_path: Path) -> AsyncIterator[SignedGateway]:
    """A gateway on which the sample plugin runs."""
    shutil.copytree(BOARD, tmp_path / "plugins" / "board", ignore=shutil.ignore_patterns("__pycache__"))
    async with signed_gateway(tmp_path, plugins=str(tmp_path / "plugins")) as made:
        (shown,) = (await made.admin.get("/v1/plugins")).json()["plugins"]
        assert shown["state"] == "disabled"
        await made.admin.post("/v1/plugins/board", json={"digest": shown["digest"]})
        async with asyncio.timeout(PATIENCE):
            while (await made.http.get("/api/plugins")).json()["plugins"][0]["serverRunning"] is not True:
                await asyncio.sleep(0.01)
        yield made


@contextlib.asynccontextmanager
async def joined(url: str, path: str, token: str) -> AsyncIterator[ClientConnection]:
    async with connect(f"{url.replace('http', 'ws', 1)}{path}?token={token}", proxy=None) as socket:
        yield socket


async def receive(socket: ClientConnection) -> Any:
    return await asyncio.wait_for(socket.recv(), PATIENCE)


@pytest.mark.rules("S003-003", "S003-021")
async def test_the_sample_plugin_works_on_both_ports_and_serves_its_page(signed: SignedGateway) -> None:
    async with (
        joined(signed.gateway.url, "/plugin-ws/board", signed.gateway.token) as owner,
        joined(signed.door, "/plugin-ws/board", signed.token) as ann,
    ):
        await ann.send("hello")
        assert await receive(owner) == await receive(ann) == "hello"
    page = await signed.http.get("/api/plugins/board/assets/index.js")
    assert page.status_code == 200 and "export function mount" in page.text
    with pytest.raises(InvalidStatus) as refused:
        async with joined(signed.door, "/plugin-ws/board", "x.y.z"):
            pass
    assert refused.value.response.status_code == 401 and refused.value.response.body == b"Unauthorized"


@pytest.mark.rules("S003-001", "S003-002", "S003-003", "S003-004", "S003-019", "S003-020", "S003-021")
@pytest.mark.parametrize("where", ["door", "main"])
async def test_the_three_sockets_share_the_http_port_and_each_has_its_own_protocol(
    signed: SignedGateway, where: str
) -> None:
    url = {"door": signed.door, "main": signed.gateway.url}[where]
    async with (
        joined(url, "/ws", signed.token) as chat,
        joined(url, "/shell", signed.token) as shell,
        joined(url, "/plugin-ws/board", signed.token) as plugin,
        local_client(base_url=url) as http,
    ):
        assert (await http.get("/health")).status_code == 200
        for socket in (chat, shell, plugin):
            await socket.send("no object")
        assert json.loads(await receive(chat))["kind"] == "protocol_error"
        output = json.loads(await receive(shell))
        assert (output["type"], "Invalid websocket payload" in output["data"]) == ("output", True)
        assert await receive(plugin) == "no object"


@pytest.mark.rules("S003-125")
async def test_terminals_and_plugins_receive_no_broadcast(signed: SignedGateway) -> None:
    async with (
        signed.chat() as chat,
        joined(signed.door, "/shell", signed.token) as shell,
        joined(signed.door, "/plugin-ws/board", signed.token) as plugin,
    ):
        await shell.send(json.dumps({"type": "init", "provider": "plain-shell", "projectPath": str(signed.project)}))
        await shell.send(json.dumps({"type": "input", "data": "echo be''fore\r"}))
        received = await frames_until(shell, lambda frame: "before" in frame.get("data", ""))
        session = await signed.create("a new one")
        await frames_until(chat, lambda frame: frame["kind"] == "session_upserted" and frame["sessionId"] == session)
        await shell.send(json.dumps({"type": "input", "data": "echo af''ter\r"}))
        received += await frames_until(shell, lambda frame: "after" in frame.get("data", ""))
        assert {frame["type"] for frame in received} == {"output"}
        await plugin.send("the first thing that it hears")
        assert await receive(plugin) == "the first thing that it hears"


class AskNeighbour(ServiceCall[Any], frozen=True):
    """-> str"""


class Newcomer(SilentProtocol):
    """An external handler: it gets everything it needs from the handlers of the steps that it requests."""

    def __init__(self, opening: Handshake) -> None:
        pass

    def opened(self) -> Sequence[Effect]:
        return (RunFlow(self._ask()),)

    def _ask(self) -> Flow:
        answer: str = yield AskNeighbour()
        yield CloseSocket(4000, answer)


@pytest.mark.rules("S003-139", "S003-140")
async def test_an_external_route_adds_one_handler_on_one_path_and_leaves_the_others_unchanged() -> None:
    async def answer(who: Any, action: AskNeighbour) -> str:
        return "from the wiring"

    route = SocketRoute(path="/newcomer", access="view", name="newcomer", open=Newcomer, token_query="token")
    protocols = (*discover(), ClientProtocol(name="newcomer", sockets=(route,)))
    async with serving(protocols=protocols, performers={AskNeighbour: answer}) as served:
        before = [socket for socket in served.app.table.sockets if socket.name != "newcomer"]
        async with serving() as plain:
            assert [socket.path for socket in before] == [socket.path for socket in plain.app.table.sockets]
        async with connect(f"{served.ws}/newcomer?token={served.admin}", proxy=None) as socket:
            with pytest.raises(ConnectionClosed):
                await receive(socket)
            assert (socket.close_code, socket.close_reason) == (4000, "from the wiring")
