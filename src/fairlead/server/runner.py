"""Runs the server: uvicorn with our own HTTP and WebSocket classes, without periodic wake-ups when idle."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import uvicorn

from fairlead.server.app import App
from fairlead.server.doors import OpenDoor, Ports
from fairlead.server.http import GuardedHttp, guarded_http
from fairlead.server.limits import DEFAULT_LIMITS, ServerLimits, UnauthenticatedConnections, backlog
from fairlead.server.listeners import Binding, urls
from fairlead.server.websocket.protocol import driver_class
from fairlead.system.clock import Clock, within

log = logging.getLogger("fairlead.server")

GRACE_S: Final = 5
"""Seconds for requests in progress when the server stops; sockets are closed at once."""
KEEP_ALIVE_S: Final = 20
"""Seconds after which an idle HTTP connection is closed. Clients have to close theirs first (httpx2 does after 5 s,
which is also uvicorn's default): a request that crosses the close is lost."""


class _Server(uvicorn.Server):
    """A uvicorn server with a shorter TLS handshake, no polling and no signal handling.

    uvicorn waits a minute for a TLS handshake, wakes ten times a second to check whether it should stop, and ends the
    process by its own signal handling. This class sleeps until `stopping` is set.
    """

    def __init__(self, config: uvicorn.Config, http: type[GuardedHttp], handshake_s: float) -> None:
        super().__init__(config)
        self._http = http
        self._handshake_s = handshake_s
        self.ready = asyncio.Event()
        self.stopping = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start like uvicorn does for open sockets, except for the time limit of the TLS handshake."""
        config, loop = self.config, asyncio.get_running_loop()
        make = partial(self._http, config=config, server_state=self.server_state, app_state={})
        patience = None if config.ssl is None else self._handshake_s
        self.servers = [
            await loop.create_server(
                make, sock=listener, ssl=config.ssl, backlog=config.backlog, ssl_handshake_timeout=patience
            )
            for listener in sockets or ()
        ]
        self.started = True

    async def main_loop(self) -> None:
        self.ready.set()
        await self.stopping.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class ServerRunner:
    """Serves `app` on sockets that are already bound (`listeners.open_sockets`), and each door's application on its
    sockets."""

    def __init__(
        self,
        app: App,
        binding: Binding,
        sockets: Sequence[socket.socket],
        clock: Clock,
        limits: ServerLimits = DEFAULT_LIMITS,
        doors: Sequence[tuple[OpenDoor, App]] = (),
    ) -> None:
        self._apps = [app, *(own for _, own in doors)]
        self._clock = clock
        self._sockets = [*sockets, *(listener for door, _ in doors for listener in door.sockets)]
        self.urls = urls(binding, sockets)
        self.unauthenticated = UnauthenticatedConnections(clock, limits, frozenset(binding.trusted_proxies))
        http = guarded_http(self.unauthenticated)
        config = uvicorn.Config(
            Ports(app, {door.port: own for door, own in doors}) if doors else app,
            http=http,
            ws=driver_class(),
            interface="asgi3",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            # X-Forwarded-* headers count only from the configured proxies; uvicorn's default trusts loopback.
            proxy_headers=bool(binding.trusted_proxies),
            forwarded_allow_ips=list(binding.trusted_proxies),
            timeout_graceful_shutdown=GRACE_S,
            timeout_keep_alive=KEEP_ALIVE_S,
            backlog=backlog(limits),
            ssl_certfile=binding.tls_cert,
            ssl_keyfile=binding.tls_key,
        )
        self._server = _Server(config, http, limits.waiting_s)

    async def serve(self, *, signals: bool = False) -> None:
        """Serve until `stop`. `signals`: SIGINT and SIGTERM stop the server; a second signal stops it without
        waiting."""
        loop = asyncio.get_running_loop()
        handled = (signal.SIGINT, signal.SIGTERM) if signals else ()
        for number in handled:
            loop.add_signal_handler(number, self.stop)
        try:
            await self._server.serve(sockets=self._sockets)
            if not self._server.force_exit:
                with contextlib.suppress(TimeoutError):
                    await within(self._clock, GRACE_S, self._settled())
        finally:
            for number in handled:
                loop.remove_signal_handler(number)

    async def _settled(self) -> None:
        for app in self._apps:
            await app.dispatcher.tasks.wait()

    async def ready(self) -> None:
        """Wait until the server accepts connections."""
        await self._server.ready.wait()

    def stop(self) -> None:
        """Stop the server: no new connections; requests in progress get a little time, sockets a close frame (1012)."""
        if self._server.stopping.is_set():
            self._server.force_exit = True
        for app in self._apps:
            app.stop()
        self._server.should_exit = True
        self._server.stopping.set()
