"""The claudecodeui protocol: chat, shell, plugins, REST. Reference: docs/reference/claudecodeui.md.

Each module declares its routes and sockets; they are collected here. Code outside this package imports
only from here.
"""

from typing import Final

from fairlead.clients.claudecodeui import plugins, shell, unknown_socket
from fairlead.clients.claudecodeui.chat import conversation
from fairlead.clients.claudecodeui.chat.history import PROJECTION
from fairlead.clients.claudecodeui.rest import (
    assets,
    composer,
    history_pages,
    invite,
    preferences,
    projects,
    search,
    sessions,
    users,
    workspace,
)
from fairlead.clients.claudecodeui.rest.responses import denied, for_users, socket_for_users
from fairlead.model.web.routes import ClientProtocol

_MODULES = (users, projects, sessions, search, history_pages, composer, preferences, assets, plugins, workspace)
_SOCKETS: Final = (conversation.SOCKET, shell.SOCKET, plugins.SOCKET)

PROTOCOL: Final = ClientProtocol(
    name="claudecodeui",
    prefix="/claudecodeui",
    routes=tuple(for_users(route) for module in _MODULES for route in module.ROUTES),
    sockets=tuple(socket_for_users(socket) for socket in _SOCKETS),
    door_sockets=(socket_for_users(unknown_socket.SOCKET),),
    views=(PROJECTION,),
    invitations=invite.PATH,
    refused=denied,
)
