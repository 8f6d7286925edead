"""The claudecodeui protocol: chat, shell, plugins, REST. Reference: docs/reference/claudecodeui.md.

Each part declares its routes and sockets; they are joined here, a line each. Others import from here alone.
"""

from typing import Final

from fairlead.clients.claudecodeui import chat, history_pages
from fairlead.clients.claudecodeui.history import HistoryView
from fairlead.model.routes import ClientProtocol

PROTOCOL: Final = ClientProtocol(
    name="claudecodeui",
    prefix="/claudecodeui",
    routes=(*history_pages.ROUTES,),
    sockets=(chat.SOCKET,),
    views=(HistoryView(),),
)
