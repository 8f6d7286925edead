"""The route table: every path the server answers, matched once for both the gate and the handler. Pure.

Rule: this is the only place where a path is matched, so that the gate cannot decide about one route while another one
runs. A literal segment beats a parameter; two routes with the same pattern and method are an error.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from msgspec import structs

from fairlead.model.web.requests import Response
from fairlead.model.web.routes import ClientProtocol, Request, Route, Routes, json_response
from fairlead.model.web.sockets import SocketRoute
from fairlead.server.errors import RouteClash

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RouteMatch(Generic[T]):
    route: T
    params: dict[str, str]


@dataclass(slots=True)
class _Place(Generic[T]):
    """A node of the tree of paths."""

    words: "dict[str, _Place[T]]" = field(default_factory=dict)
    parameter: "_Place[T] | None" = None
    rest: "_Place[T] | None" = None
    # By method (empty for sockets): the route, the names of its parameters and its owner.
    claims: dict[str, tuple[T, tuple[str, ...], str]] = field(default_factory=dict)

    def add(self, method: str, path: str, route: T, owner: str) -> None:
        place, names = self, []
        parts = path.split("/")[1:]
        for index, part in enumerate(parts):
            if part.startswith("{") and part.endswith("...}") and index == len(parts) - 1:
                names.append(part[1:-4])
                place.rest = place.rest or _Place()
                place = place.rest
            elif part.startswith("{") and part.endswith("}"):
                names.append(part[1:-1])
                place.parameter = place.parameter or _Place()
                place = place.parameter
            else:
                place = place.words.setdefault(part, _Place())
        if method in place.claims:
            raise RouteClash(f"{method} {path}".strip(), place.claims[method][2], owner)
        place.claims[method] = (route, tuple(names), owner)

    def find(self, path: str) -> "tuple[_Place[T], list[str]] | None":
        """Return the place of a path, and the values of its parameters."""
        return self._below(path.split("/")[1:]) if path.startswith("/") else None

    def match(self, method: str, path: str) -> RouteMatch[T] | None:
        place, values = self.find(path) or (_Place[T](), [])
        if method not in place.claims:
            return None
        route, names, _ = place.claims[method]
        return RouteMatch(route, dict(zip(names, values, strict=True)))

    def _below(self, parts: list[str]) -> "tuple[_Place[T], list[str]] | None":
        if not parts:
            return (self, []) if self.claims else None
        if parts[0] in self.words and (found := self.words[parts[0]]._below(parts[1:])) is not None:
            return found
        if self.parameter is not None and parts[0] and (found := self.parameter._below(parts[1:])) is not None:
            return found[0], [parts[0], *found[1]]
        return None if self.rest is None else (self.rest, ["/".join(parts)])


def at_main_port(protocol: ClientProtocol) -> ClientProtocol:
    """Place a protocol on the port shared by all: below its prefix, and at the root its sockets and `root_paths`."""
    prefix = protocol.prefix
    if not prefix:
        return protocol
    roots = tuple(root.rstrip("/") for root in protocol.root_paths)
    rooted = tuple(
        route
        for route in protocol.routes
        if any(route.path == root or route.path.startswith(f"{root}/") for root in roots)
    )
    routes = tuple(structs.replace(route, path=prefix + route.path) for route in protocol.routes)
    sockets = tuple(structs.replace(socket, path=prefix + socket.path) for socket in protocol.sockets)
    return structs.replace(protocol, routes=(*routes, *rooted), sockets=(*sockets, *protocol.sockets))


def at_door(protocol: ClientProtocol) -> ClientProtocol:
    """Place a protocol on its own port: at the paths of its own server, with its `door_sockets`."""
    return structs.replace(protocol, sockets=(*protocol.sockets, *protocol.door_sockets))


class RouteTable:
    """All routes of the given protocols. Raises RouteClash, which names both owners."""

    def __init__(self, protocols: Iterable[ClientProtocol]) -> None:
        self.routes: list[Route] = []
        self.sockets: list[SocketRoute] = []
        self._routes: _Place[Route] = _Place()
        self._sockets: _Place[SocketRoute] = _Place()
        for protocol in protocols:
            for route in protocol.routes:
                self._routes.add(route.method, route.path, route, f"{protocol.name} ({route.name})")
                self.routes.append(route)
            for socket in protocol.sockets:
                self._sockets.add("", socket.path, socket, f"{protocol.name} ({socket.name})")
                self.sockets.append(socket)

    def http(self, method: str, path: str) -> RouteMatch[Route] | None:
        return self._routes.match("GET" if method == "HEAD" else method, path)

    def methods(self, path: str) -> tuple[str, ...]:
        """Return the methods that a path accepts, for a 405 response."""
        found = self._routes.find(path)
        return () if found is None else tuple(sorted(found[0].claims))

    def socket(self, path: str) -> RouteMatch[SocketRoute] | None:
        return self._sockets.match("", path)


def own_protocol(version: str, served: list[str]) -> ClientProtocol:
    """Build the server's own routes. `version` is empty on a door: a front end would take it for its server's."""
    info = {"status": "ok", **({"version": version} if version else {}), "protocols": served}

    routes = Routes()

    @routes.get("/health", "public", "health", body_limit=0)
    def health(request: Request) -> Response:
        return json_response(info)

    return ClientProtocol(name="server", routes=tuple(routes))
