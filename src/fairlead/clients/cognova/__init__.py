"""The Cognova protocol: chat, terminal, feed of changes, resources. Reference: docs/reference/cognova.md.

Each module declares its routes and sockets; they are collected here.
"""

from typing import Final

from fairlead.clients.cognova import account, chat, conversations, notifications, resources, terminal
from fairlead.clients.cognova.history import MessageProjection
from fairlead.model.web.routes import ClientProtocol

PROTOCOL: Final = ClientProtocol(
    name="cognova",
    prefix="/cognova",
    routes=(*account.ROUTES, *conversations.ROUTES, *resources.ROUTES),
    sockets=(chat.SOCKET, notifications.SOCKET, *terminal.SOCKETS),
    views=(MessageProjection(),),
    door_login="basic",
)
