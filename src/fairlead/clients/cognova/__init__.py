"""The Cognova protocol: its chat and the conversations behind it. Reference: docs/reference/cognova.md.

Each part declares its routes and sockets; they are joined here.
"""

from typing import Final

from fairlead.clients.cognova import chat, conversations
from fairlead.clients.cognova.history import MessageView
from fairlead.model.routes import ClientProtocol

PROTOCOL: Final = ClientProtocol(
    name="cognova",
    prefix="/cognova",
    routes=(*conversations.ROUTES,),
    sockets=(chat.SOCKET,),
    views=(MessageView(),),
)
