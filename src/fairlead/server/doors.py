"""Doors: extra ports, on each of which one client protocol is served at the root, as its own server would do.

Each door has its own allowed origins: a page that it serves may talk to this door and to no other port of ours. The
checks of the main port apply here too: Host, Origin, credential and scope. If browsers sign in by HTTP Basic, the
sign-in is valid for this door alone: a browser stores the password by origin, which includes the port.
"""

import socket
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

import msgspec

from fairlead.model.errors import BadRequest
from fairlead.model.web.routes import ClientProtocol, Login
from fairlead.server.app import App, AppConfig
from fairlead.server.asgi import Application, Receive, Scope, Send
from fairlead.server.errors import BadServerSetting, PortInUse, UnsafeBind
from fairlead.server.listeners import Binding, allowed_origins, open_sockets, urls
from fairlead.server.static import StaticFiles

_OPTION: Final = "--door"


class Door(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a door: the protocol's name, the port, a folder of static files, the address that browsers use,
    how they sign in (empty: the protocol's default), and the protocol's own options."""

    name: str
    port: int
    static: Path | None = None
    public_url: str = ""
    login: Literal["", Login] = ""
    options: Mapping[str, str] = {}


class OpenDoor(Door, frozen=True, kw_only=True):
    """A door whose port is bound: `port` is the actual one, and `login` is set."""

    protocol: ClientProtocol
    binding: Binding
    sockets: Sequence[socket.socket]

    @property
    def url(self) -> str:
        return self.public_url or urls(self.binding, self.sockets)[0]

    def app(self, parts: AppConfig) -> App:
        """Build the door's application. `parts` is the configuration of the main port."""
        own = replace(
            parts,
            protocols=(self.protocol,),
            inbound=(),
            door=True,
            allowed_origins=allowed_origins(self.binding, self.sockets),
            base=self.public_url,
            options=self.options,
            basic=self.login == "basic",
        )
        if self.static is None:
            return App(own)
        files = StaticFiles(self.static)
        # The pages need the credential too: a browser prompts its user when it requests one of them.
        served = files.protocol("any" if own.basic else "public")
        return App(replace(own, inbound=(served,), handlers={**parts.handlers, **files.handlers()}))


def check_doors(
    doors: Sequence[Door], protocols: Sequence[ClientProtocol], main: Binding, data: Path
) -> dict[str, ClientProtocol]:
    """Return the protocols by name. Raises BadServerSetting for a wrong door, before anything is opened."""
    known = {protocol.name: protocol for protocol in protocols}
    taken = {main.port: "the main port"} if main.port else {}
    for door in doors:
        if door.name not in known:
            raise _wrong(door, f"no protocol has this name; the protocols are: {', '.join(sorted(known))}")
        if door.port in taken:
            raise _wrong(door, f"port {door.port} is {taken[door.port]} already")
        if door.port:
            taken[door.port] = f"the door of {door.name}"
        for option in door.options:
            if option not in known[door.name].door_options:
                takes = ", ".join((*known[door.name].door_options, "static", "public_url", "login"))
                raise _wrong(door, f"this door does not have the option {option}; its options are: {takes}")
        _check_options(door, known[door.name])
        if door.static is not None:
            _check_static(door, door.static, data)
    return known


def open_door(door: Door, protocol: ClientProtocol, main: Binding) -> OpenDoor:
    """Bind a door to the main port's address, with its TLS. Each door has its own public URL, or none."""
    binding = msgspec.structs.replace(main, port=door.port, public_url=door.public_url)
    try:
        sockets = open_sockets(binding)
    except PortInUse as error:
        raise PortInUse(main.host, door.port, f"{_OPTION} {door.name}=PORT") from error
    except UnsafeBind as error:
        raise UnsafeBind(main.host, f"{_OPTION} {door.name}={door.port},public_url=https://...") from error
    port, login = int(sockets[0].getsockname()[1]), door.login or protocol.door_login
    bound = {**msgspec.structs.asdict(door), "port": port, "login": login}
    return OpenDoor(**bound, protocol=protocol, binding=binding, sockets=sockets)


class Ports:
    """An ASGI application that passes each connection to the application of its port."""

    def __init__(self, main: Application, doors: Mapping[int, Application]) -> None:
        self._main = main
        self._doors = dict(doors)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        # Not `async`, as in `App`: the additional coroutine would stay in memory as long as the socket.
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
        raise _wrong(door, f"{folder} is not a folder")
    # Every client that reaches the port can read these files: never serve the admin's token or the agents' output.
    real, kept = folder.resolve(), data.resolve()
    if real.is_relative_to(kept) or kept.is_relative_to(real):
        raise _wrong(door, f"{folder} and the data folder {data} may not lie in one another")


def _wrong(door: Door, problem: str) -> BadServerSetting:
    return BadServerSetting(f"{_OPTION} {door.name}={door.port}: {problem}.", door=door.name)
