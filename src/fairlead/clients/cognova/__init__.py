"""The Cognova protocol: chat, terminal, feed of changes, resources. Reference: docs/reference/cognova.md.

Each module declares its routes and sockets; they are collected here.
"""

from typing import Final

from fairlead.clients.cognova import (
    account,
    chat,
    conversations,
    documents_and_memory,
    notification_settings,
    notifications,
    scheduled,
    secrets_and_hooks,
    tasks,
    terminal,
)
from fairlead.clients.cognova.history import PROJECTION
from fairlead.clients.cognova.rest import with_errors, with_token
from fairlead.model.web.routes import ClientProtocol

_MODULES = (account, conversations, tasks, documents_and_memory, secrets_and_hooks, scheduled, notification_settings)

PROTOCOL: Final = ClientProtocol(
    name="cognova",
    prefix="/cognova",
    routes=tuple(with_errors(route) for module in _MODULES for route in module.ROUTES),
    sockets=tuple(with_token(socket) for socket in (chat.SOCKET, notifications.SOCKET, *terminal.SOCKETS)),
    views=(PROJECTION,),
    door_login="basic",
)
