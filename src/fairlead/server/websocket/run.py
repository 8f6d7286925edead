"""The entry point for applications: accepts a WebSocket and serves it with an Endpoint."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.server.asgi import Receive, Scope, Send
from fairlead.server.websocket.connection import DEFAULT_OPTIONS, EXTENSION, ConnectionOptions, Endpoint
from fairlead.server.websocket.protocol import WebSocketDriver


async def run_endpoint(
    scope: Scope,
    receive: Receive,
    send: Send,
    endpoint: Endpoint,
    *,
    options: ConnectionOptions = DEFAULT_OPTIONS,
    subprotocol: str | None = None,
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> int:
    """Serve a connection; returns the close code. To reject, send ASGI's denial response instead of calling this."""
    first = await receive()
    if first["type"] != "websocket.connect":
        return int(first.get("code", 1006))
    connection: WebSocketDriver = scope["extensions"][EXTENSION]
    connection.configure(options)
    await send({"type": "websocket.accept", "subprotocol": subprotocol, "headers": list(headers)})
    return await connection.run(endpoint)
