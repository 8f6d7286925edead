"""Doors: further ports, on each of which one client protocol owns the root, as its own server would.

A door is its own house: a page that it serves may talk to this door and to no other port of ours. What is checked on
the main port is checked here: Host, Origin, credential and scope. Where browsers sign in by HTTP Basic, they do so here
and for this door alone: a browser keeps what was typed by origin, port included.
"""

import socket
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from fairlead.model.errors import BadRequest
from fairlead.model.routes import ClientProtocol, Login
from fairlead.server.app import App, AppConfig
from fairlead.server.errors import BadServerSetting, PortInUse, UnsafeBind
from fairlead.server.listeners import Binding, house_of, open_sockets, urls
from fairlead.server.static import StaticFiles

_OPTION: Final = "--door"


class Door(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for: the protocol's name, the port, a folder of static files, the address that browsers use, how
    they sign in (empty: as the protocol says), and the protocol's own options."""

    name: str
    port: int
    static: Path | None = None
    public_url: str = ""
    login: Literal["", Login] = ""
    options: Mapping[str, str] = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenDoor:
    """A door whose port is bound."""

    name: str
    protocol: ClientProtocol
    binding: Binding
    sockets: Sequence[socket.socket]
    static: Path | None
    options: Mapping[str, str]
    login: Login

    @property
    def url(self) -> str:
        return self.binding.public_url or urls(self.binding, self.sockets)[0]

    @property
    def port(self) -> int:
        return int(self.sockets[0].getsockname()[1])

    def app(self, parts: AppConfig) -> App:
        """`parts` are those of the main port."""
        own = replace(
            parts,
            protocols=(self.protocol,),
            inbound=(),
            door=True,
            house=house_of(self.binding, self.sockets),
            base=self.binding.public_url,
            options=self.options,
            basic=self.login == "basic",
        )
        if self.static is None:
            return App(own)
        files = StaticFiles(self.static)
        # The pages need the credential too: asking for one of them is what makes a browser ask its user.
        served = files.protocol("any" if own.basic else "public")
        return App(replace(own, inbound=(served,), performers={**parts.performers, **files.performers()}))


def check_doors(
    doors: Sequence[Door], protocols: Sequence[ClientProtocol], main: Binding, data: Path
) -> dict[str, ClientProtocol]:
    """The protocols by name. BadSetting says what is wrong with a door, before anything is opened."""
    known = {protocol.name: protocol for protocol in protocols}
    taken = {main.port: "the main port"} if main.port else {}
    for door in doors:
        if door.name not in known:
            raise _wrong(door, f"there is no protocol of that name; there are: {', '.join(sorted(known))}")
        if door.port in taken:
            raise _wrong(door, f"port {door.port} is {taken[door.port]} already")
        if door.port:
            taken[door.port] = f"the door of {door.name}"
        for option in door.options:
            if option not in known[door.name].door_options:
                takes = ", ".join((*known[door.name].door_options, "static", "public_url", "login"))
                raise _wrong(door, f"{option} is no option of this door; there are: {takes}")
        _check_options(door, known[door.name])
        if door.static is not None:
            _check_static(door, door.static, data)
    return known


def open_door(door: Door, protocol: ClientProtocol, main: Binding) -> OpenDoor:
    """Bound to the main port's address, with its TLS. Of a public URL each door has its own, or none."""
    binding = msgspec.structs.replace(main, port=door.port, public_url=door.public_url)
    try:
        sockets = open_sockets(binding)
    except PortInUse as error:
        raise PortInUse(main.host, door.port, f"{_OPTION} {door.name}=PORT") from error
    except UnsafeBind as error:
        raise UnsafeBind(main.host, f"{_OPTION} {door.name}={door.port},public_url=https://...") from error
    return OpenDoor(
        name=door.name,
        protocol=protocol,
        binding=binding,
        sockets=sockets,
        static=door.static,
        options=door.options,
        login=door.login or protocol.door_login,
    )


class Ports:
    """The application of the port that a connection came in on; an ASGI application itself."""

    def __init__(self, main: ASGIApp, doors: Mapping[int, ASGIApp]) -> None:
        self._main = main
        self._doors = dict(doors)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        # As in `App`: a coroutine of its own would stay in memory as long as the socket does.
        server = scope.get("server")
        return self._doors.get(server[1] if server else 0, self._main)(scope, receive, send)


def _check_options(door: Door, protocol: ClientProtocol) -> None:
    if protocol.check_options is None:
        return
    try:
        protocol.check_options(door.options)
    except BadRequest as error:
        raise _wrong(door, error.message.rstrip(".")) from error


def _check_static(door: Door, folder: Path, data: Path) -> None:
    if not folder.is_dir():
        raise _wrong(door, f"{folder} is no folder")
    # Whoever reaches the port can read what is served: never the admin's token, nor what agents said.
    real, kept = folder.resolve(), data.resolve()
    if real.is_relative_to(kept) or kept.is_relative_to(real):
        raise _wrong(door, f"{folder} and the data folder {data} may not lie in one another")


def _wrong(door: Door, problem: str) -> BadServerSetting:
    return BadServerSetting(f"{_OPTION} {door.name}={door.port}: {problem}.", door=door.name)
