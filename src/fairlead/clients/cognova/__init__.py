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
from fairlead.clients.cognova.rest import with_errors
from fairlead.model.web.routes import ClientProtocol

_ROUTES: Final = (
    *account.ROUTES,
    *conversations.ROUTES,
    *tasks.ROUTES,
    *documents_and_memory.ROUTES,
    *secrets_and_hooks.ROUTES,
    *scheduled.ROUTES,
    *notification_settings.ROUTES,
)

PROTOCOL: Final = ClientProtocol(
    name="cognova",
    prefix="/cognova",
    routes=tuple(map(with_errors, _ROUTES)),
    sockets=(chat.SOCKET, notifications.SOCKET, *terminal.SOCKETS),
    views=(PROJECTION,),
    door_login="basic",
)
