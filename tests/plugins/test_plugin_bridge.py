"""A WebSocket proxy without a client socket: when it pauses reading, and how it ends if the client has left."""

import contextlib
from collections.abc import Callable

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from fairlead.plugins.ws_proxy import MESSAGE_COST, PLUGIN_BACKLOG_BYTES, WebSocketProxy
from fairlead_testing.clock import ManualClock
from plugins.harness import until


class Wire:
    """Implements `model.web.sockets.SocketHandle` and records calls."""

    def __init__(self) -> None:
        self.story: list[object] = []

    def send(self, frames: bytes) -> None:
        self.story.append(frames)

    def backlog(self) -> int:
        return 0

    def probe(self, answered: Callable[[], None]) -> None:
        self.story.append("probe")

    def pause(self) -> None:
        self.story.append("pause")

    def resume(self) -> None:
        self.story.append("resume")

    def close(self, code: int, reason: str) -> None:
        self.story.append((code, reason))


class Plugin:
    """A server that reads everything, and its received messages."""

    def __init__(self) -> None:
        self.received: list[str | bytes] = []
        self.ends: list[tuple[int | None, str | None]] = []

    async def __call__(self, connection: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for message in connection:
                self.received.append(message)
        self.ends.append((connection.close_code, connection.close_reason))


async def open_bridge(port: int, gone: list[WebSocketProxy], clock: ManualClock) -> WebSocketProxy:
    plugin: ClientConnection = await connect(f"ws://127.0.0.1:{port}/ws", compression=None, proxy=None)
    return WebSocketProxy(plugin, clock, gone.append)


async def test_empty_messages_count_towards_the_limit_and_all_arrive() -> None:
    plugin, wire, gone, clock = Plugin(), Wire(), list[WebSocketProxy](), ManualClock()
    async with serve(plugin, "127.0.0.1", 0) as server:
        bridge = await open_bridge(server.sockets[0].getsockname()[1], gone, clock)
        bridge.attached(wire)
        enough = PLUGIN_BACKLOG_BYTES // MESSAGE_COST
        for number in range(enough + 10):
            bridge.received(b"", text=bool(number % 2))
        assert wire.story == ["pause"] and bridge.waiting == (enough + 10) * MESSAGE_COST
        await until(lambda: len(plugin.received) == enough + 10)
        assert plugin.received[:2] == [b"", ""]
        await until(lambda: bridge.waiting == 0)
        assert wire.story == ["pause", "resume"]
        bridge.received(b"the last", text=True)
        bridge.detached(4000, "bye")
        await until(lambda: gone and plugin.ends)
        assert (plugin.received[-1], plugin.ends, clock.waiting) == ("the last", [(4000, "bye")], 0)
    assert wire.story == ["pause", "resume"], "who has left is told nothing"


async def test_a_client_that_left_before_it_was_attached_ends_the_plugins_socket() -> None:
    plugin, gone, clock = Plugin(), list[WebSocketProxy](), ManualClock()
    async with serve(plugin, "127.0.0.1", 0) as server:
        bridge = await open_bridge(server.sockets[0].getsockname()[1], gone, clock)
        bridge.detached(1006, "")
        await until(lambda: gone and plugin.ends)
        assert plugin.ends == [(1001, "the client is gone")] and gone == [bridge]
