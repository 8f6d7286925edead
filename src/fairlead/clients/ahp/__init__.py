"""Microsoft's Agent Host Protocol: Fairlead as an agent host of VS Code. docs/reference/ahp.md."""

from typing import Final

from msgspec import structs

from fairlead.clients.ahp.conversation import AhpConversation
from fairlead.clients.ahp.snapshots import PROJECTION
from fairlead.model.web.routes import ClientProtocol
from fairlead.model.web.sockets import SocketRoute

_SOCKET: Final = SocketRoute(
    path="/ahp",
    access="view",
    name="ahp",
    open=AhpConversation,
    token_query="tkn",
    # The window of an installed VS Code, which opens the socket itself.
    app_origins=("vscode-file://vscode-app",),
)

PROTOCOL: Final = ClientProtocol(
    name="ahp",
    sockets=(_SOCKET,),
    # A VS Code server that is given a host connects to the root of its port.
    door_sockets=(structs.replace(_SOCKET, path="/", name="ahp.root"),),
    views=(PROJECTION,),
)
