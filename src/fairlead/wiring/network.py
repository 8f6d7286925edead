"""The listening sockets: the main port and the doors."""

import contextlib
import socket
from collections.abc import Sequence
from pathlib import Path

import msgspec

from fairlead.auth.origins import AllowedOrigins
from fairlead.config import Config
from fairlead.model.web.routes import ClientProtocol
from fairlead.server.doors import OpenDoor, check_doors, open_door
from fairlead.server.listeners import Binding, allowed_origins, open_sockets, urls
from fairlead.wiring.settings import server_binding, wanted_doors


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """`address`: the URL of the main port on this machine."""

    binding: Binding
    sockets: Sequence[socket.socket]
    doors: Sequence[OpenDoor]
    origins: AllowedOrigins
    address: str


def open_network(config: Config, protocols: Sequence[ClientProtocol], stack: contextlib.AsyncExitStack) -> Network:
    """Open all sockets, before anything else is started: a port that is taken ends the start."""
    binding, wanted = server_binding(config), wanted_doors(config)
    known = check_doors(wanted, protocols, binding, Path(config.data))
    sockets = open_sockets(binding)
    for listener in sockets:
        stack.callback(listener.close)
    doors: list[OpenDoor] = []
    for door in wanted:
        doors.append(open_door(door, known[door.name], binding))
        for listener in doors[-1].sockets:
            stack.callback(listener.close)
    return Network(
        binding=binding,
        sockets=sockets,
        doors=doors,
        origins=allowed_origins(binding, sockets),
        address=urls(binding, sockets)[0],
    )
