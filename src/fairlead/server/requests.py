"""Reads requests: their head and body, the access that a route requires, the subprotocol of a socket."""

from collections.abc import AsyncGenerator, Mapping, Sequence

import msgspec

from fairlead.auth.gate import AccessRequirement
from fairlead.model.errors import BadRequest, TooLarge
from fairlead.model.web.requests import Head
from fairlead.model.web.routes import Route
from fairlead.model.web.sockets import SocketRoute
from fairlead.server.asgi import Receive, Scope


def head_of(scope: Scope) -> Head:
    client, server = scope.get("client"), scope.get("server")
    return Head(
        method=scope.get("method", "GET"),
        path=scope["path"],
        query=scope["query_string"].decode("latin-1"),
        headers=tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]),
        peer=client[0] if client else "",
        local=server[0] if server else "",
        secure=scope["scheme"] in ("https", "wss"),
        socket=scope["type"] == "websocket",
    )


def access_requirement(
    route: Route | SocketRoute, params: Mapping[str, str], *, basic: bool = False
) -> AccessRequirement:
    demanded = msgspec.convert(route, AccessRequirement, from_attributes=True)
    return msgspec.structs.replace(demanded, session=params.get("session", "").lower(), basic=basic)


def choose_subprotocol(route: SocketRoute, offered: Sequence[str]) -> str:
    """Return the first of the route's subprotocols that the client offers. Raises BadRequest if none matches.

    The result is empty, which means the route's first subprotocol, if the client offers none at all.
    """
    if not route.subprotocols or not offered:
        return ""
    for name in route.subprotocols:
        if name in offered:
            return name
    raise BadRequest(f"This socket speaks {', '.join(route.subprotocols)}.", subprotocols=list(route.subprotocols))


def check_length(head: Head, what: str, limit: int) -> None:
    length = head.first("content-length")
    if length.isdigit() and len(length) < 19 and int(length) > limit:
        raise TooLarge(what, int(length), limit)


async def body_pieces(what: str, limit: int, receive: Receive) -> AsyncGenerator[tuple[bytes, bool]]:
    """Yield the body as it arrives, each piece with whether it is the last. Raises TooLarge and BadRequest."""
    size, last = 0, False
    while not last:
        message = await receive()
        if message["type"] != "http.request":
            raise BadRequest(f"The client disconnected before the {what} was complete.")
        data: bytes = message.get("body", b"")
        size += len(data)
        if size > limit:
            raise TooLarge(what, size, limit)
        last = not message.get("more_body")
        yield data, last


async def read_body(head: Head, limit: int, receive: Receive) -> bytes:
    check_length(head, "body", limit)
    return b"".join([data async for data, _ in body_pieces("body", limit, receive)])


async def wait_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
