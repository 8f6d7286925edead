"""Proxies messages between a client's socket and a plugin's, text as text and bytes as bytes, until either closes.

The backlog is bounded in both directions: when one side does not read, reading from the other side stops. The plugin's
socket is open before the client's, so no message comes too early, and the client gets the subprotocol that the plugin
chose.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage
from websockets.typing import Subprotocol

from fairlead.model.formats.frames import binary_frame, text_frame
from fairlead.model.web.sockets import SocketHandle
from fairlead.plugins.api import JoinPlugin, PluginFailed
from fairlead.system.clock import Clock, Timer, within

log = logging.getLogger("fairlead.plugins")

HOST: Final = "127.0.0.1"
OPEN_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 5.0
"""Time that a plugin has to read the last messages of a client that left, and to close its own side."""
UNSENT_BYTES: Final = 128 * 1024
"""Maximum backlog for the client; above the mark at which a connection reports that it has drained."""
PLUGIN_BACKLOG_BYTES: Final = 256 * 1024
"""Backlog for the plugin above which reading from the client stops."""
MESSAGE_COST: Final = 64
"""Bytes counted for an empty message in the backlog, so that a flood of them is bounded too."""

NO_STATUS: Final = 1005
ABNORMAL: Final = 1006
GOING_AWAY: Final = 1001
UPSTREAM_ERROR: Final = 4502
UPSTREAM_REASON: Final = "Upstream error"


class _Connect(connect):
    """Does not follow redirects: a plugin is always on this machine."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


async def open_socket(wanted: JoinPlugin, port: int, clock: Clock, message_bytes: int) -> ClientConnection:
    """Open a socket to the plugin. Raises PluginFailed if the plugin does not answer or refuses."""
    query = f"?{wanted.query}" if wanted.query else ""
    connecting = _Connect(
        f"ws://{HOST}:{port}/ws{query}",
        subprotocols=[Subprotocol(name) for name in wanted.subprotocols] or None,
        additional_headers=list(wanted.headers),
        # Send the client's own user agent, if it is among the headers; never the library's.
        user_agent_header=None,
        proxy=None,
        compression=None,
        open_timeout=None,
        # A busy plugin is not dead, and the connection of a dead one closes.
        ping_interval=None,
        close_timeout=CLOSE_SECONDS,
        max_size=message_bytes,
        # Limits the messages that were read while the client has no room: one message, plus the system's buffers.
        max_queue=1,
    )
    try:
        return await within(clock, OPEN_SECONDS, connecting)
    except TimeoutError:
        raise PluginFailed(wanted.name, f"did not open a socket within {OPEN_SECONDS:g} seconds") from None
    except (OSError, InvalidHandshake, InvalidMessage, ConnectionClosed, EOFError) as error:
        raise PluginFailed(wanted.name, f"opens no socket on its port {port} ({error})") from error


class WebSocketProxy:
    """Implements `model.web.sockets.SocketOwner`. `done` is called when both ends are closed."""

    def __init__(self, plugin: ClientConnection, clock: Clock, done: Callable[["WebSocketProxy"], None]) -> None:
        self._plugin = plugin
        self._clock = clock
        self._done = done
        self._wire: SocketHandle | None = None
        self._left: tuple[int, str] | None = None
        self._messages: deque[tuple[bytes, bool]] = deque()
        self.waiting = 0
        """Bytes from the client that the plugin has not accepted yet."""
        self._paused = False
        self._filled = asyncio.Event()
        self._drained = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._timer: Timer | None = None

    def attached(self, wire: SocketHandle) -> None:
        self._wire = wire
        self._spawn(self._join())

    def received(self, data: bytes, text: bool) -> None:
        self._messages.append((data, text))
        self.waiting += len(data) + MESSAGE_COST
        if self._wire is not None and self.waiting > PLUGIN_BACKLOG_BYTES and not self._paused:
            self._paused = True
            self._wire.pause()
        self._filled.set()

    def drained(self) -> None:
        self._drained.set()

    def detached(self, code: int, reason: str) -> None:
        self._wire = None
        self._left = code, reason
        self._filled.set()
        self._drained.set()
        if self._task is None:
            self._spawn(self._join())
        # Without a timeout, the remaining messages for a plugin that does not read would stay forever.
        self._timer = self._clock.call_later(CLOSE_SECONDS, self.abort)

    def abort(self) -> None:
        """Close the plugin's socket immediately."""
        self._plugin.transport.abort()

    async def closed(self) -> None:
        if self._task is not None:
            await asyncio.wait({self._task})

    # --- inside

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(lambda _: self._done(self))

    async def _join(self) -> None:
        speaking = asyncio.create_task(self._to_plugin())
        try:
            await self._to_client()
        except ConnectionClosed as closed:
            self._hang_up(closed)
        except Exception:
            log.exception("plugin socket failed unexpectedly")
            self._hang_up(None)
        finally:
            speaking.cancel()
            await asyncio.wait({speaking})
            self.abort()
            await self._plugin.wait_closed()
            if self._timer is not None:
                self._timer.cancel()

    async def _to_client(self) -> None:
        """Forward the plugin's messages. Continues after the client has left, because the plugin's close frame comes
        after its last messages."""
        while True:
            message = await self._plugin.recv()
            wire = self._wire
            if wire is None:
                continue
            wire.send(text_frame(message.encode()) if isinstance(message, str) else binary_frame(message))
            while self._wire is not None and wire.backlog() > UNSENT_BYTES:
                self._drained.clear()
                await self._drained.wait()

    async def _to_plugin(self) -> None:
        # `_to_client` handles the end of the connection.
        with contextlib.suppress(ConnectionClosed):
            while self._left is None or self._messages:
                while self._messages:
                    data, text = self._messages.popleft()
                    await self._plugin.send(data, text=text)
                    self._on_sent(len(data) + MESSAGE_COST)
                if self._left is None:
                    self._filled.clear()
                    await self._filled.wait()
            await self._close_plugin(*self._left)

    def _on_sent(self, size: int) -> None:
        self.waiting -= size
        if self._paused and self._wire is not None and self.waiting <= PLUGIN_BACKLOG_BYTES:
            self._paused = False
            self._wire.resume()

    async def _close_plugin(self, code: int, reason: str) -> None:
        if code == NO_STATUS:
            await self._plugin.close(None)  # type: ignore[arg-type]  # a close frame without a code: its protocol can
        elif code == ABNORMAL:
            await self._plugin.close(GOING_AWAY, "the client is gone")
        else:
            await self._plugin.close(code, reason)

    def _hang_up(self, closed: ConnectionClosed | None) -> None:
        """Close the client's socket with the plugin's code and reason; without them (it was killed, it broke the
        protocol), with an error."""
        if self._wire is None:
            return
        if closed is None or closed.rcvd is None or not closed.rcvd_then_sent:
            log.warning("plugin socket failed", extra={"problem": str(closed)})
            self._wire.close(UPSTREAM_ERROR, UPSTREAM_REASON)
        else:
            self._wire.close(closed.rcvd.code, closed.rcvd.reason)
