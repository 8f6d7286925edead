"""The socket /plugin-ws/NAME of a real server with a real plugin behind it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from fairlead.clients.claudecodeui.plugins import offered, passed_headers, passed_query
from fairlead.model.web.requests import Head
from fairlead.plugins.api import JoinPlugin
from fairlead.server.plugin_pages import page_handlers
from patience import PATIENCE
from plugins.harness import BOARD, PluginHarness, ends, open_plugins, until, write_plugin
from server.fakes import Served, serving

pytestmark = pytest.mark.process


class PluginSocketHarness:
    def __init__(self, served: Served, plugins: PluginHarness, folder: Path) -> None:
        self.served = served
        self.plugins = plugins
        self.plugin = folder / "strange"

    @contextlib.asynccontextmanager
    async def join(
        self, name: str = "strange", query: str = "", offers: Sequence[str] = (), **headers: str
    ) -> AsyncIterator[ClientConnection]:
        url = f"{self.served.ws}/plugin-ws/{name}?token={self.served.admin}{query}"
        async with connect(
            url,
            subprotocols=[Subprotocol(offer) for offer in offers] or None,
            additional_headers={name.replace("_", "-"): value for name, value in headers.items()},
            compression=None,
            proxy=None,
            max_size=None,
        ) as socket:
            yield socket

    async def end_of(self, name: str) -> tuple[int | None, str | None]:
        async with self.join(name) as socket:
            return await end(socket)


async def receive(socket: ClientConnection) -> Any:
    return await asyncio.wait_for(socket.recv(), PATIENCE)


async def end(socket: ClientConnection) -> tuple[int | None, str | None]:
    with contextlib.suppress(ConnectionClosed):
        while True:
            await receive(socket)
    return socket.close_code, socket.close_reason


@contextlib.asynccontextmanager
async def open_harness(folder: Path, **options: Any) -> AsyncIterator[PluginSocketHarness]:
    async with (
        open_plugins(folder, **options) as made,
        serving(performers={**made.plugins.handlers(), **page_handlers(made.plugins)}) as served,
    ):
        yield PluginSocketHarness(served, made, folder)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[PluginSocketHarness]:
    """A server with a running plugin."""
    write_plugin(tmp_path)
    async with open_harness(tmp_path) as made:
        await made.plugins.runs()
        yield made


@pytest.mark.rules("S003-003", "S003-021", "S003-118", "S003-119", "S003-120")
@pytest.mark.rules("S003-116")
async def test_messages_reach_the_other_side_unchanged(harness: PluginSocketHarness) -> None:
    async with harness.join() as socket:
        messages: list[str | bytes] = ["text", b"bytes", "", b"", "é\n", b"\xff\x00", "x" * 200_000, bytes(300_000)]
        for message in messages:
            await socket.send(message)
        assert [await receive(socket) for _ in messages] == messages
        await socket.send(["in ", "three ", "pieces"])
        assert await receive(socket) == "in three pieces"


@pytest.mark.rules("S003-119")
async def test_early_messages_are_not_lost_when_the_plugin_is_slow(tmp_path: Path) -> None:
    """A client is accepted only when its plugin's socket is open, so that no message arrives too early."""
    write_plugin(tmp_path, how="slow")
    async with open_harness(tmp_path) as harness:
        await harness.plugins.runs()

        async def first_messages() -> list[Any]:
            async with harness.join() as socket:
                for word in ("one", "two", "three"):
                    await socket.send(word)
                return [await receive(socket) for _ in range(3)]

        talking = asyncio.create_task(first_messages())
        await until((harness.plugin / "asked").exists)
        assert not talking.done()
        (harness.plugin / "hear").touch()
        assert await talking == ["one", "two", "three"]


async def test_a_client_that_leaves_before_its_plugin_has_answered_leaves_nothing_behind(tmp_path: Path) -> None:
    write_plugin(tmp_path, how="slow")
    async with open_harness(tmp_path) as harness:
        await harness.plugins.runs()
        reader, writer = await asyncio.open_connection("127.0.0.1", harness.served.port)
        writer.write(
            f"GET /plugin-ws/strange?token={harness.served.admin} HTTP/1.1\r\nHost: 127.0.0.1:{harness.served.port}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        await until((harness.plugin / "asked").exists)
        writer.transport.abort()
        (harness.plugin / "hear").touch()
        await until(lambda: ends(harness.plugin))
        await until(lambda: not harness.plugins.plugins._bridges)
        assert ends(harness.plugin) == [[1001, "the client is gone"]] and reader.at_eof()


@pytest.mark.rules("S003-113", "S003-114", "S003-115", "S003-008")
@pytest.mark.parametrize("name", ["bad!name", "", "a/b", "bad%20name", "%2e%2e", "strange/"])
async def test_an_invalid_plugin_name_is_rejected_without_a_lookup(name: str) -> None:
    async with serving(performers={JoinPlugin: _never}) as served:
        harness = PluginSocketHarness(served, None, Path())  # type: ignore[arg-type]  # never used
        assert await harness.end_of(name) == (4400, "Invalid plugin name")


async def _never(who: Any, action: Any) -> None:
    raise AssertionError("it was asked for")


@pytest.mark.rules("S003-116", "S003-117")
async def test_a_plugin_that_does_not_run_is_reported(tmp_path: Path) -> None:
    write_plugin(tmp_path)
    write_plugin(tmp_path, "fails", how="fails")
    async with open_harness(tmp_path) as harness:
        await harness.plugins.enable("fails")
        await harness.plugins.comes_to("waiting", "fails")
        for name in ("strange", "fails", "unknown"):
            assert await harness.end_of(name) == (4404, "Plugin not running")


@pytest.mark.rules("S003-123")
async def test_a_plugin_that_opens_no_socket_is_reported(tmp_path: Path) -> None:
    line = json.dumps({"ready": True, "port": 1})
    write_plugin(tmp_path, server=["sh", "-c", f"echo '{line}'; cat"])
    write_plugin(tmp_path, "elsewhere", how="elsewhere")
    async with open_harness(tmp_path) as harness:
        await harness.plugins.runs()
        await harness.plugins.runs("elsewhere")
        assert await harness.end_of("strange") == (4502, "Upstream error"), "nobody listens there"
        assert await harness.end_of("elsewhere") == (4502, "Upstream error"), "it is not followed elsewhere"


@pytest.mark.rules("S003-123")
@pytest.mark.parametrize("order", ["die", "hang-up"])
async def test_a_lost_plugin_is_reported(harness: PluginSocketHarness, order: str) -> None:
    async with harness.join() as socket:
        await socket.send(order)
        assert await end(socket) == (4502, "Upstream error")


@pytest.mark.rules("S003-121")
@pytest.mark.parametrize(
    ("order", "seen"),
    [("close 4001 that is enough", (4001, "that is enough")), ("close 1000", (1000, "")), ("close 1013 later", None)],
)
async def test_the_plugins_close_is_forwarded_to_the_client(
    harness: PluginSocketHarness, order: str, seen: tuple[int, str] | None
) -> None:
    async with harness.join() as socket:
        await socket.send("last words")
        await socket.send(order)
        assert await receive(socket) == "last words"
        assert await end(socket) == (seen or (1013, "later"))


@pytest.mark.rules("S003-122")
async def test_the_clients_close_reaches_the_plugin_after_all_its_messages(harness: PluginSocketHarness) -> None:
    async with harness.join() as socket:
        for number in range(10):
            await socket.send(f"{number}")
        await socket.close(4321, "good night")
    await until(lambda: ends(harness.plugin))
    async with harness.join() as rude:
        await rude.send("x")
        rude.transport.abort()
    await until(lambda: len(ends(harness.plugin)) == 2)
    assert ends(harness.plugin) == [[4321, "good night"], [1001, "the client is gone"]]


async def test_a_close_without_a_code_is_forwarded_without_a_code(harness: PluginSocketHarness) -> None:
    async with harness.join() as socket:
        await socket.send("close")
        assert await end(socket) == (1005, "")
    async with harness.join() as socket:
        await socket.close(None)  # type: ignore[arg-type]  # a close frame without a code
    await until(lambda: [1005, ""] in ends(harness.plugin))


async def test_the_subprotocol_is_the_one_that_the_plugin_chose(harness: PluginSocketHarness) -> None:
    async with harness.join(offers=("first", "second")) as socket:
        assert socket.subprotocol == "second"
        await socket.send("about")
        opened = json.loads(await receive(socket))
        assert opened["subprotocol"] == "second"
        assert ["sec-websocket-protocol", "first, second"] in opened["headers"]
    async with harness.join(offers=("first",)) as socket:
        assert socket.subprotocol is None


@pytest.mark.rules("S003-118")
async def test_the_plugin_gets_the_query_and_some_headers_but_no_credentials(harness: PluginSocketHarness) -> None:
    token = harness.served.admin
    async with harness.join(
        query=f"&a=1&a=%20b&%74oken={token}&TICKET=x&flag",
        authorization=f"Bearer {token}",
        cookie=f"session={token}",
        origin=harness.served.url,
        accept_language="de",
        x_plugin_colour="red",
        x_api_key=token,
        x_forwarded_for="10.0.0.1",
    ) as socket:
        await socket.send("about")
        opened = json.loads(await receive(socket))
    assert opened["path"] == "/ws?a=1&a=%20b&flag"
    headers = dict(opened["headers"])
    assert headers["accept-language"] == "de" and headers["x-plugin-colour"] == "red"
    assert "websockets" in headers["user-agent"], "the client's own"
    assert not {"authorization", "cookie", "origin", "x-api-key", "x-forwarded-for"} & set(headers)
    assert token not in json.dumps(opened)


async def test_forwarded_query_headers_and_subprotocols() -> None:
    assert passed_query("") == passed_query("token=1") == passed_query("&&") == ""
    assert passed_query("x=%26token%3d1&token&ToKeN=2&+token=3") == "x=%26token%3d1&+token=3"
    head = Head(
        method="GET",
        path="/",
        headers=(("sec-websocket-protocol", "a, b,"), ("sec-websocket-protocol", "c"), ("x-plugin-a", "1")),
    )
    assert offered(head) == ("a", "b", "c") and passed_headers(head) == (("x-plugin-a", "1"),)


@pytest.mark.parametrize("scopes", [("view",), ("chat", "approve"), ()])
async def test_a_plugins_socket_needs_the_scope_terminal(harness: PluginSocketHarness, scopes: tuple[str, ...]) -> None:
    token = await harness.served.token(*scopes) if scopes else "fl_wrong"
    with pytest.raises(InvalidStatus) as refused:
        async with connect(f"{harness.served.ws}/plugin-ws/strange?token={token}", proxy=None):
            pass
    assert refused.value.response.status_code == (403 if scopes else 401)


async def test_a_revoked_token_ends_its_sockets_and_the_plugins(harness: PluginSocketHarness) -> None:
    token = await harness.served.token("terminal", name="guest")
    async with connect(f"{harness.served.ws}/plugin-ws/strange?token={token}", proxy=None) as socket:
        await socket.send("x")
        await receive(socket)
        await harness.served.credentials.revoke("token", harness.served.tokens["guest"])
        assert (await end(socket))[0] == 4401
    await until(lambda: ends(harness.plugin))
    assert ends(harness.plugin)[0][0] == 4401


async def test_a_too_large_message_closes_only_its_socket(tmp_path: Path) -> None:
    write_plugin(tmp_path)
    async with open_harness(tmp_path, message_bytes=10_000) as harness:
        await harness.plugins.runs()
        async with harness.join() as other, harness.join() as socket:
            await socket.send("flood 1 20000")
            assert await end(socket) == (4502, "Upstream error")
            await other.send("x")
            assert await receive(other) == "x"


async def test_the_sample_shows_each_message_to_every_client(tmp_path: Path) -> None:
    (tmp_path / "board").symlink_to(BOARD)
    async with open_harness(tmp_path) as harness:
        await harness.plugins.runs("board")
        async with harness.join("board") as one, harness.join("board") as two:
            await one.send("hello")
            assert await receive(one) == await receive(two) == "hello"
        async with harness.join("board") as late:
            assert await receive(late) == "hello"
        port = (await harness.plugins.view("board")).port
        with pytest.raises(InvalidStatus):
            async with connect(f"ws://127.0.0.1:{port}/ws", origin="http://evil.example", proxy=None):  # type: ignore[arg-type]  # a plain text
                pass
