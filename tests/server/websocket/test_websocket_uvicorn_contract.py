"""The undocumented behaviour of uvicorn that our driver depends on. A failure here names what has changed."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any
from unittest.mock import Mock

import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import Server, ServerState

from fairlead.server.websocket.protocol import WebSocketDriver, driver_class

CHANGED = f"uvicorn {uvicorn.__version__} treats WebSocket classes differently: adapt server/websocket/protocol.py"

REQUEST = (
    b"GET /a%20b?q=1 HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Recorder(asyncio.Protocol):
    """Takes the place of our class and records the calls made to it."""

    calls: list[tuple[str, Any]]

    def __init__(self, **arguments: Any) -> None:
        type(self).calls.append(("init", set(arguments)))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.calls.append(("connection_made", transport))

    def data_received(self, data: bytes) -> None:
        self.calls.append(("data_received", data))


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Never called here."""


@pytest.fixture
def recorder() -> type[Recorder]:
    Recorder.calls = []
    return Recorder


@pytest.mark.parametrize("http", [HttpToolsProtocol, H11Protocol])
async def test_an_upgrade_creates_our_class_with_the_whole_request_head(
    http: type[HttpToolsProtocol] | type[H11Protocol], recorder: type[Recorder]
) -> None:
    config = uvicorn.Config(application, ws=recorder, log_config=None)
    config.load()
    transport = Mock(spec=asyncio.Transport)
    transport.get_extra_info.return_value = None
    state = ServerState()
    protocol = http(config=config, server_state=state, app_state={})
    protocol.connection_made(transport)
    protocol.data_received(REQUEST)
    assert [name for name, _ in recorder.calls] == ["init", "connection_made", "data_received"], CHANGED
    (_, arguments), (_, given), (_, head) = recorder.calls
    assert arguments == {"config", "server_state", "app_state"}, CHANGED
    assert given is transport, CHANGED
    assert head.startswith(b"GET /a%20b?q=1 HTTP/1.1\r\n"), CHANGED
    assert head.endswith(b"\r\n\r\n"), CHANGED
    assert {line.split(b":")[0].lower() for line in head.split(b"\r\n")[1:-2]} == {
        b"host", b"upgrade", b"connection", b"sec-websocket-key", b"sec-websocket-version"
    }, CHANGED  # fmt: skip
    assert isinstance(transport.set_protocol.call_args.args[0], recorder), CHANGED
    assert protocol not in state.connections, CHANGED


def test_our_class_takes_the_same_arguments_as_uvicorns_own() -> None:
    theirs = inspect.signature(WebSocketsSansIOProtocol.__init__).parameters
    ours = inspect.signature(WebSocketDriver.__init__).parameters
    assert list(theirs) == list(ours), CHANGED


def test_our_class_has_every_method_that_uvicorns_own_offers_to_loop_and_server() -> None:
    called = {
        "connection_made", "data_received", "eof_received", "pause_writing", "resume_writing", "connection_lost",
        "shutdown",
    }  # fmt: skip
    for name in called:
        assert callable(getattr(WebSocketsSansIOProtocol, name, None)), CHANGED
        assert callable(getattr(WebSocketDriver, name)), name


def test_the_configuration_has_what_we_read() -> None:
    config = uvicorn.Config(application, ws=driver_class(), root_path="/r", log_config=None)
    config.load()
    assert isinstance(config.ws_protocol_class, type), CHANGED
    assert issubclass(config.ws_protocol_class, WebSocketDriver), CHANGED
    assert config.root_path == "/r", CHANGED
    assert config.asgi_version == "3.0", CHANGED
    assert callable(config.loaded_app), CHANGED


def test_the_class_may_be_named_on_the_command_line() -> None:
    config = uvicorn.Config(application, ws="fairlead.server.websocket.protocol:WebSocketDriver", log_config=None)
    config.load()
    assert config.ws_protocol_class is WebSocketDriver, CHANGED


async def test_server_keeps_connections_tasks_and_headers_and_shuts_connections_down() -> None:
    state = ServerState()
    assert (state.connections, state.tasks, state.default_headers) == (set(), set(), []), CHANGED
    server = Server(uvicorn.Config(application, lifespan="off", log_config=None))
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    server.servers = []
    connection = Mock(spec=WebSocketDriver)
    connection.shutdown.side_effect = lambda: server.server_state.connections.discard(connection)
    server.server_state.connections.add(connection)
    await server.shutdown()
    connection.shutdown.assert_called_once_with()
