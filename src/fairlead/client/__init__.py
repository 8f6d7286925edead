"""Python client of the gateway's native protocol (docs/how-to/python-client.md): `connect` returns one.

    async with connect() as gateway:
        session = await gateway.start(cwd="/home/me/project")
        await session.send("explain this repository")
        async with session.stream() as events:
            async for item in events: ...

The names are imported when they are used: a command that only needs the address of the gateway starts faster without
the HTTP client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairlead.client.endpoint import EndpointOptions, GatewayEndpoint
    from fairlead.client.errors import ClientError, CommandFailed, Denied, Missing, Unreachable, UsageError
    from fairlead.client.gateway_client import GatewayClient, connect
    from fairlead.client.session_client import SessionClient
    from fairlead.client.watch import EventLine, Note, SessionWatch

__all__ = [
    "ClientError",
    "CommandFailed",
    "Denied",
    "EndpointOptions",
    "EventLine",
    "GatewayClient",
    "GatewayEndpoint",
    "Missing",
    "Note",
    "SessionClient",
    "SessionWatch",
    "Unreachable",
    "UsageError",
    "connect",
]

_MODULES = {
    "endpoint": ("EndpointOptions", "GatewayEndpoint"),
    "errors": ("ClientError", "CommandFailed", "Denied", "Missing", "Unreachable", "UsageError"),
    "gateway_client": ("GatewayClient", "connect"),
    "session_client": ("SessionClient",),
    "watch": ("EventLine", "Note", "SessionWatch"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"fairlead.client.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
